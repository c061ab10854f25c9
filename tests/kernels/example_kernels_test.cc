// The sources of examples/kernels, run on the CPU with the grid of their manifests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/kernels/kernel_launch.h"
#include "core/wire/manifest_codec.h"
#include "tests/kernels/cuda_on_cpu.h"
#include "tests/kernels/references.h"

namespace tiled_gemm_source {
#include "examples/kernels/tiled_gemm.cu"
}
namespace flash_attention_source {
#include "examples/kernels/flash_attention.cu"
}

namespace gpueta {
namespace {

KernelManifest Example(const std::string& name) {
  return wire::ReadManifestFile("examples/kernels/" + name + ".manifest").value();
}

Floats Random(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats out(static_cast<std::size_t>(count));
  for (float& value : out) value = uniform(random);
  return out;
}

// The grid that the manifest says, with as many threads.
template <class Kernel>
void RunAs(const KernelLaunch& launch, const Kernel& kernel) {
  EXPECT_EQ(launch.block[1] * launch.block[2], 1u);
  cuda_on_cpu::Run({launch.grid[0], launch.grid[1], launch.grid[2]}, launch.block[0], kernel);
}

void ExpectNear(const Floats& got, const Floats& wanted, float tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], tolerance) << "element " << i;
}

class TiledGemmTest : public ::testing::TestWithParam<ProductDims> {};

TEST_P(TiledGemmTest, IsTheProduct) {
  const ProductDims& p = GetParam();
  const KernelLaunch launch = LaunchOf(Example("tiled_gemm"), {{"m", p.m}, {"n", p.n}, {"k", p.k}}).value();
  const Floats a = Random(p.m * p.k, 1), b = Random(p.k * p.n, 2);
  Floats c(static_cast<std::size_t>(p.m) * p.n, -7);
  RunAs(launch, [&] { tiled_gemm_source::tiled_gemm(a.data(), b.data(), c.data(), p.m, p.n, p.k); });
  ExpectNear(c, ReferenceProduct(p, a, b), 1e-4F);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TiledGemmTest,
                         ::testing::Values(ProductDims{64, 64, 16}, ProductDims{1, 64, 64}, ProductDims{65, 72, 24},
                                           ProductDims{100, 136, 40}));

class FlashAttentionTest : public ::testing::TestWithParam<AttentionDims> {};

TEST_P(FlashAttentionTest, IsAttention) {
  const AttentionDims& h = GetParam();
  constexpr float kScale = 0.125F;
  const Floats query = Random(h.batch * h.heads * h.query_len * kHeadDim, 3);
  const Floats key = Random(h.batch * h.kv_heads * h.kv_len * kHeadDim, 4);
  const Floats value = Random(h.batch * h.kv_heads * h.kv_len * kHeadDim, 5);
  Floats out(query.size(), -7);
  // The manifest is of self-attention; the kernel knows longer keys too.
  const KernelLaunch launch =
      LaunchOf(Example("flash_attention"),
               {{"batch", h.batch}, {"kv_heads", h.kv_heads}, {"group", h.heads / h.kv_heads}, {"length", h.query_len}})
          .value();
  RunAs(launch, [&] {
    flash_attention_source::flash_attention_d64(query.data(), key.data(), value.data(), out.data(), h.heads, h.kv_heads,
                                                h.query_len, h.kv_len, h.causal, kScale);
  });
  ExpectNear(out, ReferenceAttention(h, query, key, value, kScale), 2e-5F);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FlashAttentionTest,
                         ::testing::Values(AttentionDims{1, 1, 1, 64, 64, 1}, AttentionDims{2, 4, 2, 37, 37, 1},
                                           AttentionDims{1, 2, 1, 70, 70, 0}, AttentionDims{1, 2, 2, 5, 90, 1}));

}  // namespace
}  // namespace gpueta
