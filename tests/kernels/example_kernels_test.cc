// The kernels of examples/kernels: what they compute, on the CPU and, where there
// is one, on a device, launched as their manifests say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "core/kernels/kernel_launch.h"
#include "core/wire/manifest_codec.h"
#include "tests/kernels/cuda_on_cpu.h"

namespace tiled_gemm_source {
#include "examples/kernels/tiled_gemm.cu"
}
namespace flash_attention_source {
#include "examples/kernels/flash_attention.cu"
}

namespace gpueta {
namespace {

using Floats = std::vector<float>;

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

struct Product {
  int m, n, k;
};

Floats ReferenceProduct(const Product& p, const Floats& a, const Floats& b) {
  Floats c(static_cast<std::size_t>(p.m) * p.n);
  for (int i = 0; i < p.m; ++i) {
    for (int j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int d = 0; d < p.k; ++d) sum += double{a[i * p.k + d]} * b[d * p.n + j];
      c[i * p.n + j] = static_cast<float>(sum);
    }
  }
  return c;
}

void ExpectNear(const Floats& got, const Floats& wanted, float tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], tolerance) << "element " << i;
}

class TiledGemmTest : public ::testing::TestWithParam<Product> {};

TEST_P(TiledGemmTest, IsTheProduct) {
  const Product& p = GetParam();
  const KernelLaunch launch = LaunchOf(Example("tiled_gemm"), {{"m", p.m}, {"n", p.n}, {"k", p.k}}).value();
  const Floats a = Random(p.m * p.k, 1), b = Random(p.k * p.n, 2);
  Floats c(static_cast<std::size_t>(p.m) * p.n, -7);
  RunAs(launch, [&] { tiled_gemm_source::tiled_gemm(a.data(), b.data(), c.data(), p.m, p.n, p.k); });
  ExpectNear(c, ReferenceProduct(p, a, b), 1e-4F);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TiledGemmTest,
                         ::testing::Values(Product{64, 64, 16}, Product{1, 64, 64}, Product{65, 72, 24},
                                           Product{100, 136, 40}));

struct Heads {
  int batch, heads, kv_heads, query_len, kv_len, causal;
};
constexpr int kHeadDim = 64;

Floats ReferenceAttention(const Heads& h, const Floats& query, const Floats& key, const Floats& value, float scale) {
  Floats out(query.size());
  for (int b = 0; b < h.batch; ++b) {
    for (int head = 0; head < h.heads; ++head) {
      const int kv = head / (h.heads / h.kv_heads);
      const float* keys = &key[static_cast<std::size_t>((b * h.kv_heads + kv) * h.kv_len) * kHeadDim];
      const float* values = &value[static_cast<std::size_t>((b * h.kv_heads + kv) * h.kv_len) * kHeadDim];
      for (int q = 0; q < h.query_len; ++q) {
        const auto at = static_cast<std::size_t>((b * h.heads + head) * h.query_len + q) * kHeadDim;
        const int seen = h.causal != 0 ? h.kv_len - h.query_len + q + 1 : h.kv_len;
        std::vector<double> weights;
        double most = -std::numeric_limits<double>::infinity();
        for (int j = 0; j < seen; ++j) {
          double score = 0;
          for (int d = 0; d < kHeadDim; ++d) score += double{query[at + d]} * keys[j * kHeadDim + d];
          weights.push_back(score * scale);
          most = std::max(most, weights.back());
        }
        double total = 0;
        for (double& weight : weights) total += weight = std::exp(weight - most);
        for (int d = 0; d < kHeadDim; ++d) {
          double sum = 0;
          for (int j = 0; j < seen; ++j) sum += weights[static_cast<std::size_t>(j)] * values[j * kHeadDim + d];
          out[at + d] = static_cast<float>(sum / total);
        }
      }
    }
  }
  return out;
}

class FlashAttentionTest : public ::testing::TestWithParam<Heads> {};

TEST_P(FlashAttentionTest, IsAttention) {
  const Heads& h = GetParam();
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
                         ::testing::Values(Heads{1, 1, 1, 64, 64, 1}, Heads{2, 4, 2, 37, 37, 1},
                                           Heads{1, 2, 1, 70, 70, 0}, Heads{1, 2, 2, 5, 90, 1}));

}  // namespace
}  // namespace gpueta
