// Enums of the contract. The proto enums hold the same values in the same
// order behind an UNSPECIFIED of 0.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/ops/dtype.h"
#include "core/ops/timing.h"
#include "gpueta/v1/workload.pb.h"

namespace gpueta::wire {

v1::DType Encode(DType dtype);
v1::Timing Encode(Timing timing);

// nullopt for UNSPECIFIED and for values this build does not know.
std::optional<DType> Decode(v1::DType dtype);
std::optional<Timing> Decode(v1::Timing timing);

// A type that must be given: INVALID_ARGUMENT naming the field.
absl::StatusOr<DType> DecodeDType(v1::DType dtype, std::string_view field);

}  // namespace gpueta::wire
