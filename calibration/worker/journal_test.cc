#include "calibration/worker/journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace gpueta {
namespace {

const Kernel kProduct{.dtype = DType::kFp16, .work = Gemm{.m = 5, .n = 6, .k = 7}};
const Kernel kAdd{.dtype = DType::kFp16, .work = Vector{.op = "add", .rows = 5, .cols = 6, .operands = 2}};

MeasuredKernel Measured(const Kernel& kernel) {
  MeasuredKernel measured;
  measured.measurement = {
      .device = "t4", .source = "cublaslt", .timing = Timing::kGraph, .kernel = kernel, .latency_us = 12.25};
  measured.measurement.kernel.launch = {
      .kernel = "sgemm_128x64", .grid_x = 7, .grid_y = 2, .grid_z = 1, .block_x = 128};
  measured.timing = {.latency_us = 12.25, .spread_us = 0.5, .relative_error = 0.004, .slowed = true, .shared = true};
  return measured;
}

class JournalTest : public testing::Test {
 protected:
  JournalTest() : path_(testing::TempDir() + "/journal-" + std::to_string(getpid())) {}
  ~JournalTest() override { std::filesystem::remove(path_); }
  Journal Open(const std::string& campaign = "t4 seed 1") { return Journal::Open(path_, campaign).value(); }

  std::string path_;
};

TEST_F(JournalTest, WhatWasMeasuredIsThereAfterARestart) {
  {
    Journal journal = Open();
    EXPECT_FALSE(journal.Find(kProduct).has_value());
    ASSERT_TRUE(journal.Begin(kProduct).ok());
    ASSERT_TRUE(journal.End(kProduct, Measured(kProduct)).ok());
    ASSERT_TRUE(journal.Begin(kAdd).ok());
    ASSERT_TRUE(journal.Skip(kAdd).ok());
  }
  const Journal journal = Open();
  const auto found = journal.Find(kProduct);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->measurement.latency_us, 12.25);
  EXPECT_EQ(found->measurement.kernel.work, kProduct.work);
  EXPECT_EQ(found->measurement.kernel.launch, Measured(kProduct).measurement.kernel.launch);
  EXPECT_EQ(found->measurement.timing, Timing::kGraph);
  EXPECT_EQ(found->timing.relative_error, 0.004);
  EXPECT_TRUE(found->timing.slowed);
  EXPECT_TRUE(found->timing.shared);
  EXPECT_FALSE(found->timing.disturbed);
  EXPECT_TRUE(journal.WasSkipped(kAdd));
  EXPECT_FALSE(journal.Find(kAdd).has_value());
}

TEST_F(JournalTest, AnotherCampaignStartsAnew) {
  {
    Journal journal = Open();
    ASSERT_TRUE(journal.End(kProduct, Measured(kProduct)).ok());
  }
  EXPECT_FALSE(Open("t4 seed 2").Find(kProduct).has_value());
  EXPECT_FALSE(Open().Find(kProduct).has_value());
}

TEST_F(JournalTest, AKernelThatTwiceTookTheWorkerDownIsFatal) {
  for (const bool fatal : {false, false, true}) {
    Journal journal = Open();
    EXPECT_EQ(journal.IsFatal(kProduct), fatal);
    ASSERT_TRUE(journal.Begin(kProduct).ok());
  }
}

TEST_F(JournalTest, ALineCutShortIsLost) {
  {
    Journal journal = Open();
    ASSERT_TRUE(journal.End(kProduct, Measured(kProduct)).ok());
    ASSERT_TRUE(journal.End(kAdd, Measured(kAdd)).ok());
  }
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 3);
  {
    Journal journal = Open();
    EXPECT_TRUE(journal.Find(kProduct).has_value());
    EXPECT_FALSE(journal.Find(kAdd).has_value());
    ASSERT_TRUE(journal.End(kAdd, Measured(kAdd)).ok());
  }
  EXPECT_TRUE(Open().Find(kAdd).has_value());
}

TEST_F(JournalTest, NonsenseIsNoMeasurement) {
  Open();
  for (const char* line :
       {"done", "done\tgemm", "done\tgemm\tt4\tx\tgraph\tnan\t0\t0\t0\t0\t0\t0\t0\t0\t-", "\t\t\t", "other\tthings"}) {
    std::ofstream(path_, std::ios::app) << line << '\n';
  }
  EXPECT_FALSE(Open().Find(kProduct).has_value());
}

TEST_F(JournalTest, IsGoneWhenTheCampaignIsDone) {
  Journal journal = Open();
  journal.Finish();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace gpueta
