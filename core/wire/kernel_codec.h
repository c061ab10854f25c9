// Kernels as messages.
#pragma once

#include "absl/status/statusor.h"
#include "core/ops/kernel.h"
#include "gpueta/v1/workload.pb.h"

namespace gpueta::wire {

v1::Kernel Encode(const Kernel& kernel);

// The kernel of a message, validated: INVALID_ARGUMENT naming the field, e.g.
// "gemm.k" or "attention.phase". Dims that are 0 take their default where the
// proto has one.
absl::StatusOr<Kernel> Decode(const v1::Kernel& message);

// As Decode, without validating the dims: a graph gives some of them later.
absl::StatusOr<Kernel> DecodeUnvalidated(const v1::Kernel& message);

}  // namespace gpueta::wire
