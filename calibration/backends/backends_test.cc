#include "calibration/backends/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(OpenBackendTest, AutoIsTheChosenDevice) {
  const ChosenDevice chosen = ChooseDevice();
  const auto backend = OpenBackend("auto");
  ASSERT_TRUE(backend.ok()) << backend.status();
  if (OpenCudaDriver().ok()) {
    EXPECT_EQ(chosen.device, "cuda:0");
  } else {
    EXPECT_THAT(chosen.reason, HasSubstr("CUDA"));
    EXPECT_THAT((*backend)->slug(), StartsWith("cpu-"));
  }
}

TEST(OpenBackendTest, SaysInOneLineWhyThereIsNoGpu) {
  if (OpenCudaDriver().ok()) GTEST_SKIP() << "there is one";
  const absl::Status status = OpenBackend("cuda:0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), StartsWith("cuda:0: "));
  EXPECT_THAT(MessageOf(status), HasSubstr("CUDA"));
  EXPECT_THAT(MessageOf(status), Not(HasSubstr("\n")));
}

TEST(OpenBackendTest, RejectsWhatItCannotOpen) {
  const struct {
    const char* device;
    absl::StatusCode code;
    const char* message;
  } kCases[] = {
      {"cuda:", absl::StatusCode::kInvalidArgument, "expected auto, cpu, cuda:N or replay:FILE.csv"},
      {"cuda:one", absl::StatusCode::kInvalidArgument, "expected auto, cpu, cuda:N or replay:FILE.csv"},
      {"cuda:99999999999", absl::StatusCode::kInvalidArgument, "expected auto, cpu, cuda:N or replay:FILE.csv"},
      {"cuda:-1", absl::StatusCode::kInvalidArgument, "expected auto, cpu, cuda:N or replay:FILE.csv"},
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

TEST(OpenBackendTest, OnlyGpusHaveAChoiceOfWhatTheCacheHolds) {
  const absl::Status status = OpenBackend("cpu", {.l2 = L2State::kFlushed}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr("flushed"));
  for (const L2State state : {L2State::kAsInModel, L2State::kWarm, L2State::kFlushed})
    EXPECT_EQ(ParseL2State(Name(state)), state);
  EXPECT_FALSE(ParseL2State("cold").has_value());
}

}  // namespace
}  // namespace gpueta
