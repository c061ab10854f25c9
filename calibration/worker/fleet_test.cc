#include "calibration/worker/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kShell[] = "/bin/sh";

class FleetTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  // Runs a line of shell in the directory.
  std::vector<std::string> Shell(const std::string& line) const {
    return {"-c", "cd " + directory_.string() + " && " + line};
  }
  std::string Text(const std::string& file) const {
    std::ifstream in(directory_ / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path directory_ = testing::TempDir() + "fleet_test." + std::to_string(getpid());
};

TEST(ArgumentsOfGpuTest, FilesAndNodesAreApart) {
  EXPECT_THAT(ArgumentsOfGpu(0, {.node = "n1"}), ElementsAre("--device", "cuda:0"));
  EXPECT_THAT(ArgumentsOfGpu(3, {.node = "n1", .out = "a.profile", .measurements_out = "m", .journal = "j"}),
              ElementsAre("--device", "cuda:3", "--out", "a.profile.gpu3", "--measurements-out", "m.gpu3", "--journal",
                          "j.gpu3", "--node", "n1-gpu3"));
}

TEST_F(FleetTest, AllRunAtTheSameTime) {
  // Each waits for the other to have begun.
  const absl::Status status = RunFleet(
      kShell, {Shell("touch a; until [ -e b ]; do :; done"), Shell("touch b; until [ -e a ]; do :; done")}, {});
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(FleetTest, SaysHowManyFailedAndHow) {
  const absl::Status status = RunFleet(kShell, {Shell("exit 0"), Shell("exit 3"), Shell("kill -9 $$")}, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status), HasSubstr("2 of 3 workers failed"));
  // Whichever was the first.
  EXPECT_THAT(MessageOf(status),
              AnyOf(HasSubstr("exit 3 ended with exit status 3"), HasSubstr("kill -9 $$ ended with signal 9")));
  EXPECT_THAT(MessageOf(RunFleet("/nonexistent", {{"x"}}, {})), HasSubstr("exit status 127"));
}

TEST_F(FleetTest, AWorkerThatFailsStartsAgainWhereAskedFor) {
  // Fails twice, then is content; the other is not started again.
  const absl::Status status =
      RunFleet(kShell, {Shell("echo x >> tries; [ $(wc -l < tries) -ge 3 ]"), Shell("echo y >> once")},
               {.restart = true, .restart_after_s = 0});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Text("tries"), "x\nx\nx\n");
  EXPECT_EQ(Text("once"), "y\n");
}

TEST_F(FleetTest, AskedToEndItPassesThatOn) {
  // One of them asks once the other is there to be asked.
  const std::string parent = std::to_string(getpid());
  const absl::Status status = RunFleet(
      kShell,
      {Shell("trap 'echo ended > ended; exit 1' TERM; touch there; while :; do :; done"),
       Shell("trap 'exit 1' TERM; until [ -e there ]; do :; done; kill -TERM " + parent + "; while :; do :; done")},
      {.restart = true, .restart_after_s = 0});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Text("ended"), "ended\n");
}

}  // namespace
}  // namespace gpueta
