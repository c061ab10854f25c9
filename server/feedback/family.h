// What observations are kept apart by: kernels by op, and whole graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/ops/kernel.h"

namespace gpueta {

// The ops in their order, then graphs.
enum class Family : std::uint8_t { kGemm, kConv2d, kAttention, kMoe, kVector, kCollective, kCustom, kGraph };
inline constexpr std::size_t kFamilies = kAllOps.size() + 1;
static_assert(static_cast<std::size_t>(Family::kGraph) == kAllOps.size());
static_assert(static_cast<int>(Family::kCustom) == static_cast<int>(Op::kCustom));

inline Family FamilyOf(Op op) { return static_cast<Family>(op); }
inline std::string_view Name(Family family) {
  return family == Family::kGraph ? std::string_view("graph") : Name(static_cast<Op>(family));
}
inline std::optional<Family> ParseFamily(std::string_view name) {
  if (name == "graph") return Family::kGraph;
  const std::optional<Op> op = ParseOp(name);
  return op.has_value() ? std::optional(FamilyOf(*op)) : std::nullopt;
}

}  // namespace gpueta
