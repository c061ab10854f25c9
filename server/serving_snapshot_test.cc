#include "server/serving_snapshot.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

std::shared_ptr<const ServingSnapshot> SnapshotWith(const std::string& slug, std::int64_t version) {
  auto loaded = ParseProfile(testing_util::MakeTestProfileFile(slug));
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  auto snapshot = ServingSnapshot::Build({{.loaded = *std::move(loaded), .node = "", .version = version}});
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  return *std::move(snapshot);
}

TEST(ServingSnapshotTest, FindsTheActiveProfile) {
  const auto snapshot = SnapshotWith("h100-sxm", 7);
  const auto predictor = snapshot->Find("h100-sxm", {});
  ASSERT_TRUE(predictor.ok());
  ASSERT_NE((*predictor)->profile(), nullptr);
  EXPECT_EQ((*predictor)->version(), 7);
}

TEST(ServingSnapshotTest, RemembersThePredictorOfADeviceWithoutProfile) {
  const auto snapshot = SnapshotWith("h100-sxm", 1);
  const auto first = snapshot->Find("l40s", {});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->profile(), nullptr);
  EXPECT_EQ((*first)->spec().slug, "l40s");
  EXPECT_EQ(snapshot->Find("l40s", {}).value(), *first);
  EXPECT_EQ(snapshot->Find("l40s", {{"driver", "1"}}).value(), *first);
}

TEST(ServingSnapshotTest, AnswersNotFoundForUnknownDevices) {
  EXPECT_EQ(SnapshotWith("h100-sxm", 1)->Find("h1000", {}).status().code(), absl::StatusCode::kNotFound);
}

TEST(ServingSnapshotTest, AnswersForADeviceOutsideTheCatalogueByItsProfile) {
  const auto snapshot = SnapshotWith("cpu-here", 1);
  EXPECT_TRUE(snapshot->Find("cpu-here", {}).ok());
}

TEST(ServingSnapshotTest, ThreadsAgreeOnTheRememberedPredictor) {
  const auto snapshot = SnapshotWith("h100-sxm", 1);
  constexpr int kThreads = 4;
  std::latch start(kThreads);
  std::vector<std::shared_ptr<const Predictor>> found(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (auto& mine : found) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      mine = snapshot->Find("t4", {}).value();
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& predictor : found) EXPECT_EQ(predictor, found[0]);
}

}  // namespace
}  // namespace gpueta
