// Which tokens a mixture's experts get, and where their rows lie. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/moe/moe.h"

namespace gpueta {

// Choices of tokens that each expert gets over all ranks, the busiest expert first: at most
// num_tokens each, num_tokens · top_k together. Of "balanced" (and an empty distribution)
// all get alike but for one; of "power_law_A" expert e gets a share like (e + 1)^-A.
// UNIMPLEMENTED for another distribution, and for sizes that no model has.
absl::StatusOr<std::vector<std::int64_t>> ExpertLoads(const Moe& moe);

// The part of one rank, the busiest: experts are dealt to ranks by falling load.
struct Routing {
  struct Expert {
    std::int64_t index = 0;  // among the rank's experts
    std::int64_t first_row = 0;
    std::int64_t rows = 0;  // at least 1
  };
  std::int64_t experts_on_rank = 0;
  std::vector<Expert> experts;             // those that any token chose
  std::vector<std::int32_t> tokens;        // of each choice, by expert
  std::vector<std::int32_t> rows;          // where each choice's row lies
  std::vector<std::int32_t> token_begins;  // token t's rows are token_rows[token_begins[t]] up to token_begins[t + 1]
  std::vector<std::int32_t> token_rows;
  std::int64_t row_count = 0;  // with what alignment leaves empty
};

// An expert's first row is a multiple of `row_alignment`, of at most 256. Errors as
// ExpertLoads.
absl::StatusOr<Routing> RouteTokens(const Moe& moe, std::int64_t row_alignment);

}  // namespace gpueta
