// What a language model computes for one token.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

namespace gpueta {

// FLOPs of one token, as CountsOf counts them: of convolutions and products alone.
struct TokenFlops {
  // The mean of a prompt of `context` tokens; nullopt for models whose tokens are
  // of two kinds (encoder–decoders) or no text.
  std::optional<double> prefill;
  // A token that sees `context` of them, itself included, and of an
  // encoder–decoder as many of the encoder; nullopt for encoders.
  std::optional<double> decode;
};
// Errors as ImportHuggingFace; INVALID_ARGUMENT for a context that the counts
// leave no room for.
absl::StatusOr<TokenFlops> FlopsPerToken(std::string_view json, std::int64_t context);

}  // namespace gpueta
