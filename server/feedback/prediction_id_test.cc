#include "server/feedback/prediction_id.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace gpueta {
namespace {

const PredictionTicket kTicket{.family = Family::kAttention,
                               .dtype = DType::kBf16,
                               .provenance = Provenance::kInterpolated,
                               .timing = Timing::kGraph,
                               .has_timing = true,
                               .corrected = true,
                               .rows = 1000,
                               .issued_unix_s = 1'800'000'000,
                               .profile = 0xd01e6117aabbccdd,
                               .model = 42,
                               .latency_us = {1.5, 2.5, 3.5},
                               .correction = {.factor = {0.9F, 1.1F, 1.2F}},
                               .device = "h100-sxm"};

TEST(PredictionIdTest, SaysWhatWasPredicted) {
  const PredictionIds ids({1, 2});
  std::string id;
  ids.Make(kTicket, id);
  EXPECT_LE(id.size(), 80U);
  const auto opened = ids.Open(id);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(opened->family, kTicket.family);
  EXPECT_EQ(opened->dtype, kTicket.dtype);
  EXPECT_EQ(opened->provenance, kTicket.provenance);
  EXPECT_EQ(opened->timing, kTicket.timing);
  EXPECT_TRUE(opened->has_timing);
  EXPECT_TRUE(opened->corrected);
  EXPECT_EQ(opened->rows, kTicket.rows);
  EXPECT_EQ(opened->issued_unix_s, kTicket.issued_unix_s);
  EXPECT_EQ(opened->profile, kTicket.profile);
  EXPECT_EQ(opened->model, kTicket.model);
  EXPECT_EQ(opened->latency_us.p50, 1.5);
  EXPECT_EQ(opened->latency_us.p99, 3.5);
  EXPECT_EQ(opened->correction, kTicket.correction);
  EXPECT_EQ(opened->device, "h100-sxm");
}

TEST(PredictionIdTest, OneThatWasChangedCutOrMadeWithAnotherKeyDoesNotOpen) {
  const PredictionIds ids({1, 2});
  std::string id;
  ids.Make(kTicket, id);
  for (std::size_t i = 0; i < id.size(); ++i) {
    std::string changed = id;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(ids.Open(changed).has_value()) << i;
    EXPECT_FALSE(ids.Open(id.substr(0, i)).has_value()) << i;
  }
  EXPECT_FALSE(ids.Open(id + "x").has_value());
  EXPECT_FALSE(ids.Open(std::string(10'000, 'x')).has_value());
  EXPECT_FALSE(PredictionIds({1, 3}).Open(id).has_value());
}

TEST(PredictionIdTest, NoTwoHaveTheSameSerialWhateverThreadMadeThem) {
  const PredictionIds ids({1, 2});
  std::vector<std::vector<std::uint64_t>> serials(4);
  std::vector<std::thread> threads;
  for (auto& mine : serials) {
    threads.emplace_back([&mine, &ids] {
      std::string id;
      for (int i = 0; i < 70'000; ++i) {
        ids.Make(kTicket, id);
        mine.push_back(ids.Open(id)->serial);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& mine : serials) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 4U * 70'000);
}

TEST(PredictionIdTest, ALongDeviceNameIsCut) {
  const PredictionIds ids({1, 2});
  PredictionTicket ticket = kTicket;
  const std::string name(200, 'd');
  ticket.device = name;
  std::string id;
  ids.Make(ticket, id);
  EXPECT_EQ(ids.Open(id)->device, std::string(PredictionIds::kLongestDevice, 'd'));
}

TEST(PredictionIdTest, AProfileIdIsANumberInHex) {
  EXPECT_EQ(ProfileNumber("00000000000000ff"), 255U);
  EXPECT_EQ(ProfileNumber("test"), 0U);
  EXPECT_EQ(ProfileNumber(""), 0U);
}

}  // namespace
}  // namespace gpueta
