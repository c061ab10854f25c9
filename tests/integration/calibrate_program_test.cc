// gpueta-calibrate as a program, on a machine without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "tests/integration/server_process.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_util::Outcome;
using testing_util::RunProgram;
using testing_util::TemporaryDirectory;

class CalibrateProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    if (OpenCudaDriver().ok()) GTEST_SKIP() << "there is a GPU";
  }
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  // Nothing but one line.
  static void ExpectOneLine(const Outcome& outcome, const testing::Matcher<const std::string&>& says) {
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.standard_output, "");
    EXPECT_THAT(outcome.standard_error, StartsWith("gpueta-calibrate: "));
    EXPECT_THAT(outcome.standard_error, says);
    EXPECT_EQ(std::ranges::count(outcome.standard_error, '\n'), 1) << outcome.standard_error;
  }

  TemporaryDirectory directory_;
};

TEST_F(CalibrateProgramTest, AutoPicksTheCpuAndSaysWhy) {
  const Outcome outcome = RunProgram(GPUETA_CALIBRATE_BINARY, {"--device", "auto", "--budget", "4", "--time", "5s",
                                                               "--even-if-busy", "--out", Path("cpu.profile")});
  EXPECT_EQ(outcome.status, 0) << outcome.standard_error;
  EXPECT_THAT(outcome.standard_output, StartsWith("auto: cpu, because "));
  EXPECT_THAT(outcome.standard_output.substr(0, outcome.standard_output.find('\n')), HasSubstr("CUDA"));
  EXPECT_TRUE(std::filesystem::exists(Path("cpu.profile")));
}

TEST_F(CalibrateProgramTest, AGpuThatIsNotThereIsOneClearLine) {
  for (const char* device : {"cuda:0", "cuda:all"}) {
    const Outcome outcome = RunProgram(GPUETA_CALIBRATE_BINARY, {"--device", device, "--out", Path("gpu.profile")});
    ExpectOneLine(outcome, testing::AllOf(HasSubstr(std::string(device) + ": "), HasSubstr("CUDA"),
                                          HasSubstr("use cpu or replay:FILE.csv")));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("gpu.profile")));
}

// As a worker of one GPU is called by that of all.
TEST_F(CalibrateProgramTest, OfTwoDevicesTheLastOneCounts) {
  ExpectOneLine(RunProgram(GPUETA_CALIBRATE_BINARY,
                           {"--device", "cuda:all", "--device", "cuda:1", "--out", Path("a"), "--out", Path("b")}),
                HasSubstr(" cuda:1: "));
}

TEST_F(CalibrateProgramTest, WhatCannotBeAskedForIsOneClearLine) {
  ExpectOneLine(RunProgram(GPUETA_CALIBRATE_BINARY, {"--device", "cpu", "--l2", "cold", "--out", Path("p")}),
                HasSubstr("--l2: \"cold\" is not model, warm or flushed"));
  ExpectOneLine(RunProgram(GPUETA_CALIBRATE_BINARY, {"--device", "cuda:all", "--collectives", "--out", Path("p")}),
                HasSubstr("--collectives"));
}

}  // namespace
}  // namespace gpueta
