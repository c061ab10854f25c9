// PyTorch's operators as kernels.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/importers/traces/trace.h"

namespace gpueta {

// Bits of an element of a tensor type as traces write it: "float",
// "c10::Half", "long int"; 0 for what is no tensor.
int BitsOfTraceType(std::string_view type);
bool IsFloatTraceType(std::string_view type);

// What one call computes, in order. nullopt if the operator is not known or its
// arguments were not recorded; `linear`: it was called by aten::linear. Every
// kernel passes Validate.
//
// The gradients of a convolution are counted as the convolutions that they
// cost as much as, the backward of attention as a custom kernel of 2.5 times
// the forward's FLOPs (Dao et al. 2022).
std::optional<std::vector<Kernel>> KernelsOf(const OpSignature& signature, bool linear);

}  // namespace gpueta
