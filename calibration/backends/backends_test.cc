#include "calibration/backends/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(OpenBackendTest, AutoIsTheChosenDevice) {
  EXPECT_THAT(ChooseDevice().reason, HasSubstr("CUDA"));
  const auto chosen = OpenBackend("auto");
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_THAT((*chosen)->slug(), StartsWith("cpu-"));
}

TEST(OpenBackendTest, RejectsWhatItCannotOpen) {
  const struct {
    const char* device;
    absl::StatusCode code;
    const char* message;
  } kCases[] = {
      {"cuda:0", absl::StatusCode::kFailedPrecondition, "no CUDA backend"},
      {"cuda:", absl::StatusCode::kInvalidArgument, "expected auto, cpu, cuda:N or replay:FILE.csv"},
      {"cuda:one", absl::StatusCode::kInvalidArgument, "expected auto, cpu, cuda:N or replay:FILE.csv"},
      {"gpu", absl::StatusCode::kInvalidArgument, "device \"gpu\""},
      {"", absl::StatusCode::kInvalidArgument, "device \"\""},
      {"replay:/nonexistent/file.csv", absl::StatusCode::kNotFound, "/nonexistent/file.csv"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = OpenBackend(c.device).status();
    EXPECT_EQ(status.code(), c.code) << c.device << ": " << status;
    EXPECT_THAT(MessageOf(status), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace gpueta
