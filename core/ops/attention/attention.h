// Fused scaled-dot-product attention.
#pragma once

#include <array>
#include <cstdint>

#include "core/ops/counts.h"
#include "core/ops/dim.h"
#include "core/ops/dtype.h"

namespace gpueta {

// MHA: kv_heads = heads; GQA: fewer; MQA: 1.
struct Attention {
  enum class Phase : std::uint8_t {
    kPrefill,  // query_len tokens attend to kv_len tokens
    kDecode,   // query_len = 1 sees all kv_len cached tokens
  };

  Phase phase = Phase::kPrefill;
  std::int64_t batch = 1;
  std::int64_t query_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t causal = 0;  // 0 or 1
  DType kv_dtype = DType::kBf16;

  friend bool operator==(const Attention&, const Attention&) = default;
};

inline constexpr std::array<DimField<Attention>, 7> kAttentionDims = {{
    {"batch", &Attention::batch},
    {"query_len", &Attention::query_len},
    {"kv_len", &Attention::kv_len},
    {"heads", &Attention::heads},
    {"kv_heads", &Attention::kv_heads},
    {"head_dim", &Attention::head_dim},
    {"causal", &Attention::causal, 0, 0},
}};

std::string_view Name(Attention::Phase phase);
std::optional<Attention::Phase> ParseAttentionPhase(std::string_view name);

// FLOPs 4·batch·heads·head_dim·pairs: two products over the query-key pairs
// that the mask leaves (Dao et al. 2022); softmax is not counted.
Counts CountsOf(const Attention& attention, DType dtype);

}  // namespace gpueta
