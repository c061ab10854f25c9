// The fused expert feed-forward of a mixture of experts.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/ops/counts.h"
#include "core/ops/dim.h"
#include "core/ops/dtype.h"

namespace gpueta {

// On one rank: gate and up projections, activation, down projection of the
// tokens routed to the rank's experts.
struct Moe {
  std::int64_t num_tokens = 0;
  std::int64_t hidden_size = 0;
  std::int64_t inter_size = 0;  // of one expert, before tensor parallelism
  std::int64_t top_k = 0;
  std::int64_t num_experts = 0;
  std::int64_t tp = 1;
  std::int64_t ep = 1;
  std::string distribution;  // how tokens spread over experts

  friend bool operator==(const Moe&, const Moe&) = default;
};

inline constexpr std::array<DimField<Moe>, 7> kMoeDims = {{
    {"num_tokens", &Moe::num_tokens},
    {"hidden_size", &Moe::hidden_size},
    {"inter_size", &Moe::inter_size},
    {"top_k", &Moe::top_k},
    {"num_experts", &Moe::num_experts},
    {"tp", &Moe::tp, 1, 1},
    {"ep", &Moe::ep, 1, 1},
}};

// FLOPs 6·num_tokens·top_k·hidden_size·inter_size/(tp·ep). Bytes: the weights
// of the experts that are expected to be active when tokens choose uniformly,
// (E/ep)·(1 − (1 − 1/E)^(num_tokens·top_k)), and activations in and out.
Counts CountsOf(const Moe& moe, DType dtype);

}  // namespace gpueta
