#include "calibration/worker/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/testing/test_profile.h"
#include "core/wire/kernel_codec.h"
#include "gpueta/v1/profile_service.pb.h"

namespace gpueta {
namespace {

const Kernel kGemm{.dtype = DType::kFp32, .work = Gemm{.m = 5, .n = 6, .k = 7}};
const Kernel kAdd{.dtype = DType::kFp32, .work = Vector{.op = "add", .rows = 5, .cols = 6, .operands = 2}};

TEST(TasksTest, MeasuresTheShapesAskedForAndCandidatesOfTheirOp) {
  v1::CalibrationTask task;
  task.set_op("gemm");
  *task.add_shapes()->mutable_kernel() = wire::Encode(kGemm);
  task.add_shapes();  // nothing in it
  const auto kernels = KernelsOf(task, {kAdd, kGemm, kGemm});
  ASSERT_TRUE(kernels.ok());
  ASSERT_EQ(kernels->asked.size(), 1U);
  EXPECT_EQ(kernels->asked[0].work, kGemm.work);
  EXPECT_EQ(kernels->candidates.size(), 2U);
  task.set_op("graph");
  EXPECT_EQ(KernelsOf(task, {kGemm}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TasksTest, FreshTablesReplaceTheirOwnAndLeaveTheOthers) {
  const Profile base = testing::MakeTestProfile("t4");
  Profile fresh = testing::MakeTestProfile("t4", 2);
  fresh.tables.erase(fresh.tables.begin() + 1, fresh.tables.end());
  Table added = fresh.tables[0];
  added.key.dtype = DType::kFp64;
  fresh.tables.insert(fresh.tables.begin(), added);
  fresh.created_unix_s = base.created_unix_s + 5;
  const Profile merged = WithTables(base, fresh).value();
  EXPECT_EQ(merged.tables.size(), base.tables.size() + 1);
  EXPECT_TRUE(std::is_sorted(merged.tables.begin(), merged.tables.end(),
                             [](const Table& a, const Table& b) { return a.key < b.key; }));
  for (const Table& table : base.tables) {
    const bool is_fresh = table.key == fresh.tables[1].key;
    EXPECT_EQ(merged.Find(table.key)->variants[0].theta,
              is_fresh ? fresh.tables[1].variants[0].theta : table.variants[0].theta);
  }
  EXPECT_NE(merged.Find(added.key), nullptr);
  EXPECT_EQ(merged.created_unix_s, fresh.created_unix_s);
}

TEST(TasksTest, TablesAreNotMergedIntoAProfileOfAnotherSpecification) {
  const Profile base = testing::MakeTestProfile("t4");
  Profile fresh = base;
  fresh.spec.fp32_tflops /= 1.5;
  EXPECT_EQ(WithTables(base, fresh).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace gpueta
