#include "core/ops/launch.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

Kernel Product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.name = "", .dtype = DType::kFp32, .work = Gemm{.m = m, .n = n, .k = k}, .launch = {}};
}

Machine<double> Sms(double sms) {
  Machine<double> machine;
  machine.sms = sms;
  return machine;
}

TEST(TileOfKernelNameTest, ReadsTilesAndNothingElse) {
  EXPECT_EQ(TileOfKernelName("ampere_sgemm_128x64_nn")->m, 128);
  EXPECT_EQ(TileOfKernelName("ampere_sgemm_128x64_nn")->n, 64);
  EXPECT_EQ(TileOfKernelName("cutlass_80_simt_sgemm_256x128_8x4_nn_align1")->m, 256);
  EXPECT_FALSE(TileOfKernelName("vectorized_elementwise_4x4").has_value());
  EXPECT_FALSE(TileOfKernelName("softmax").has_value());
  EXPECT_FALSE(TileOfKernelName("99999999999999999999x64").has_value());
}

TEST(GradientOfTest, IsWhatTheKernelsNameSays) {
  const auto of = [](Work work, const char* name) {
    return GradientOf({.work = std::move(work), .launch = {.kernel = name}});
  };
  EXPECT_EQ(of(Conv2d(), "cudnn_dgrad"), "dgrad");
  EXPECT_EQ(of(Conv2d(), "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_128x128"), "wgrad");
  EXPECT_EQ(of(Conv2d(), "ampere_scudnn_128x64_relu_medium_nn_v1"), "");
  EXPECT_EQ(of(Conv2d(), "cudnn_eng12_k2=5"), "");
  EXPECT_EQ(of(Conv2d(), ""), "");
  EXPECT_EQ(of(Attention(), "cudnn_bwd_eng4"), "bwd");
  EXPECT_EQ(of(Attention(), "cudnn_generated_fort_native_sdpa_sm90_flash_bprop"), "bwd");
  EXPECT_EQ(of(Attention(), "flash_fwd_kernel"), "");
  EXPECT_EQ(of(Gemm(), "cutlass_dgrad"), "");
}

TEST(LaunchFeaturesTest, NeedKernelAndGridOfAProduct) {
  Kernel kernel = Product(256, 256, 64);
  EXPECT_FALSE(LaunchFeatures(kernel, Sms(80)).has_value());
  kernel.launch.kernel = "sgemm_128x64";
  EXPECT_FALSE(LaunchFeatures(kernel, Sms(80)).has_value());
  kernel.launch.grid_x = kernel.launch.grid_y = kernel.launch.grid_z = 2;
  EXPECT_TRUE(LaunchFeatures(kernel, Sms(80)).has_value());
  kernel.work = Vector{.op = "softmax", .rows = 8, .cols = 8};
  EXPECT_FALSE(LaunchFeatures(kernel, Sms(80)).has_value());
}

TEST(LaunchFeaturesTest, TellWavesTilesAndSplits) {
  Kernel kernel = Product(256, 200, 64);
  kernel.launch = {.kernel = "volta_sgemm_128x64_nn", .grid_x = 4, .grid_y = 2, .grid_z = 3, .block_x = 256};
  const auto f = LaunchFeatures(kernel, Sms(16)).value();
  EXPECT_DOUBLE_EQ(f[0], std::log2(24.0 / 16));            // blocks an SM
  EXPECT_DOUBLE_EQ(f[1], std::log2(2 / 1.5));              // the second wave is half full
  EXPECT_DOUBLE_EQ(f[5], 8);                               // threads
  EXPECT_DOUBLE_EQ(f[6], 13);                              // 128·64
  EXPECT_DOUBLE_EQ(f[7], std::log2(256.0 * 256 / 51200));  // 200 columns in tiles of 64 are 256
  EXPECT_DOUBLE_EQ(f[8], std::log2(3));                    // three blocks a tile
}

TEST(LaunchLikeTest, KeepsTheTileAndTheSplit) {
  Kernel kernel = Product(256, 256, 64);
  kernel.launch = {.kernel = "sgemm_128x64", .grid_x = 4, .grid_y = 2, .grid_z = 2};  // 8 tiles, depth in two
  const Launch launch = LaunchLike(kernel, Product(300, 512, 64));
  EXPECT_EQ(launch.blocks(), 2 * 5 * 4);  // 64×128 needs fewer than 128×64
  EXPECT_EQ(launch.kernel, "sgemm_128x64");
  // Without a tile in the name: as many outputs a block.
  kernel.launch.kernel = "some_kernel";
  EXPECT_EQ(LaunchLike(kernel, Product(512, 256, 64)).blocks(), 32);
}

Kernel Own(std::int64_t flops, std::int64_t bytes, std::int64_t blocks) {
  return {.name = "",
          .dtype = DType::kFp32,
          .work = Custom{.op = "mine", .flops = flops, .bytes = bytes},
          .launch = {.kernel = "", .grid_x = blocks, .grid_y = 1, .grid_z = 1, .block_x = 128}};
}

TEST(LaunchFeaturesTest, OfCustomKernelsNeedTheGridAlone) {
  const Kernel kernel = Own(1 << 20, 1 << 16, 24);
  EXPECT_EQ(ConfigurationOf(kernel), "mine");
  EXPECT_TRUE(TellsLaunch(kernel));
  const auto f = LaunchFeatures(kernel, Sms(16)).value();
  EXPECT_DOUBLE_EQ(f[0], std::log2(24.0 / 16));
  EXPECT_DOUBLE_EQ(f[1], std::log2(2 / 1.5));
  EXPECT_DOUBLE_EQ(f[3], 16 - std::log2(24));  // bytes of a block
  EXPECT_DOUBLE_EQ(f[4], 20 - std::log2(24));  // FLOPs of a block
  EXPECT_DOUBLE_EQ(f[5], 7);
  EXPECT_DOUBLE_EQ(f[8], 0);  // it has no tile
  Kernel unknown = kernel;
  unknown.launch = {.kernel = "mine"};
  EXPECT_FALSE(TellsLaunch(unknown));
  EXPECT_FALSE(LaunchFeatures(unknown, Sms(16)).has_value());
}

TEST(LaunchLikeTest, OfCustomKernelsMoreWorkIsInMoreAndInLargerBlocks) {
  EXPECT_EQ(LaunchLike(Own(1000, 100, 8), Own(4000, 50, 1)).blocks(), 16);
  EXPECT_EQ(LaunchLike(Own(0, 100, 8), Own(0, 900, 1)).blocks(), 24);  // by bytes where there are no FLOPs
  EXPECT_EQ(LaunchLike(Own(1000, 100, 8), Own(1, 1, 1)).blocks(), 1);
}

}  // namespace
}  // namespace gpueta
