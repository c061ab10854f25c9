#include "calibration/backends/cuda/ops/cudnn/cached_keys.h"

#include <gtest/gtest.h>

namespace gpueta::cudnn {
namespace {

Attention Of(std::int64_t query_len, std::int64_t kv_len, bool causal) {
  return {.batch = 1,
          .query_len = query_len,
          .kv_len = kv_len,
          .heads = 8,
          .kv_heads = 8,
          .head_dim = 64,
          .causal = causal ? 1 : 0};
}

TEST(CachedKeysTest, MostOfThemAreFromEarlierSteps) {
  EXPECT_FALSE(IsCached(Of(512, 512, true)));
  EXPECT_FALSE(IsCached(Of(512, 513, true)));   // one is
  EXPECT_FALSE(IsCached(Of(512, 1024, true)));  // half of them are
  EXPECT_TRUE(IsCached(Of(512, 1025, true)));
  Attention decode = Of(1, 512, true);
  decode.phase = Attention::Phase::kDecode;
  EXPECT_TRUE(IsCached(decode));
}

TEST(CachedKeysTest, AnotherSequencesKeysAreNot) {
  EXPECT_FALSE(IsCached(Of(64, 4096, false)));
  EXPECT_FALSE(IsCached(Of(1, 4096, false)));
}

}  // namespace
}  // namespace gpueta::cudnn
