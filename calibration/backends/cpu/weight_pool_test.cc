#include "calibration/backends/cpu/weight_pool.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

constexpr std::size_t kCache = std::size_t{1} << 20;

TEST(WeightPoolTest, CopiesTogetherExceedTheCacheTwice) {
  WeightPool pool(kCache);
  for (const std::size_t bytes : {100UL, 4'096UL, 300'000UL, 1UL << 20, 3UL << 20}) {
    const auto copies = pool.Copies(bytes, DType::kFp32);
    ASSERT_TRUE(copies.ok()) << copies.status();
    EXPECT_GE(copies->stride, bytes);
    EXPECT_GE(copies->stride * copies->count, 2 * kCache) << bytes;
    EXPECT_LE(copies->stride * copies->count, 2 * kCache + 2 * bytes + (64 << 10)) << bytes;
    EXPECT_GE(copies->pool->bytes(), copies->stride * copies->count);
  }
}

TEST(WeightPoolTest, OneCopyDoesForWeightsLargerThanThat) {
  WeightPool pool(kCache);
  EXPECT_EQ(pool.Copies(5 * kCache, DType::kFp32)->count, 1U);
}

TEST(WeightPoolTest, LimitsTheMemoryOfCopies) {
  WeightPool pool(std::size_t{1} << 40);
  const auto copies = pool.Copies(64 << 20, DType::kFp32);
  ASSERT_TRUE(copies.ok()) << copies.status();
  EXPECT_LE(copies->stride * copies->count, std::size_t{1} << 30);
}

TEST(WeightPoolTest, KernelsWithoutWeightsNeedNoPool) {
  WeightPool pool(kCache);
  const auto copies = pool.Copies(0, DType::kFp32);
  ASSERT_TRUE(copies.ok()) << copies.status();
  EXPECT_EQ(copies->pool, nullptr);
  EXPECT_EQ(copies->count, 1U);
}

TEST(WeightPoolTest, CopiesOutliveALargerPool) {
  WeightPool pool(kCache);
  const auto small = pool.Copies(1'000, DType::kFp32);
  const std::byte first = small->pool->data()[0];
  ASSERT_TRUE(pool.Copies(9 * kCache, DType::kFp32).ok());
  EXPECT_EQ(small->pool->data()[0], first);
}

}  // namespace
}  // namespace gpueta
