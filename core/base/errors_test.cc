#include "core/base/errors.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

TEST(FieldErrorTest, FieldAndProblemStandInTheMessage) {
  const absl::Status status = FieldError("k", "is 0, must be at least 1");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(status), "k: is 0, must be at least 1");
  EXPECT_EQ(FieldOf(status), "k");
}

TEST(FieldErrorTest, ParentsAreAddedInFront) {
  const absl::Status status = InField("kernels[3]", InField("gemm", FieldError("k", "is 0")));
  EXPECT_EQ(MessageOf(status), "kernels[3].gemm.k: is 0");
  EXPECT_EQ(FieldOf(status), "kernels[3].gemm.k");
}

TEST(FieldErrorTest, ParentNamesTheFieldOfAPlainError) {
  const absl::Status status = InField("devices[0].slug", NotFound("no device \"{}\"", "x"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(status), "devices[0].slug: no device \"x\"");
  EXPECT_EQ(FieldOf(status), "devices[0].slug");
}

TEST(FieldErrorTest, OkStaysOk) {
  EXPECT_TRUE(InField("a", absl::OkStatus()).ok());
  EXPECT_EQ(FieldOf(absl::OkStatus()), "");
}

}  // namespace
}  // namespace gpueta
