#include "calibration/backends/cuda/ops/cublaslt_algorithm.h"

#include <gtest/gtest.h>

#include "core/ops/launch.h"

namespace gpueta {
namespace {

TEST(CublasLtAlgorithmTest, ItsNameSaysAllOfIt) {
  const CublasLtAlgorithm algorithms[] = {
      {.id = 0},
      {.id = 66, .tile = "128x256", .stages = "64x4", .cluster = "2x1x1"},
      {.id = 21, .tile = "64x64", .split_k = 8, .reduction = 2, .swizzle = 1, .custom = 33, .inner_shape = 5},
  };
  for (const CublasLtAlgorithm& algorithm : algorithms) {
    EXPECT_EQ(ParseCublasLtAlgorithm(NameOf(algorithm)), algorithm) << NameOf(algorithm);
  }
  EXPECT_EQ(NameOf(algorithms[1]), "cublaslt66_128x256_stages64x4_cluster2x1x1");
}

TEST(CublasLtAlgorithmTest, OtherNamesAreNone) {
  for (const char* name : {"", "cublaslt", "cublaslt6_", "cublaslt6_tile", "cublaslt6_x64", "cublaslt6_splitk",
                           "cublaslt6_swizzle1x", "cublaslt-6", "cublaslt99999999999", "ampere_sgemm_128x64_tn"}) {
    EXPECT_FALSE(ParseCublasLtAlgorithm(name).has_value()) << name;
  }
}

TEST(CublasLtAlgorithmTest, TheTileIsFoundByWhoReadsKernelNames) {
  const auto tile = TileOfKernelName(NameOf({.id = 66, .tile = "128x256", .stages = "64x4"}));
  ASSERT_TRUE(tile.has_value());
  EXPECT_EQ(tile->m, 128);
  EXPECT_EQ(tile->n, 256);
}

}  // namespace
}  // namespace gpueta
