#include "core/wire/enum_codec.h"

#include "core/base/errors.h"

namespace gpueta::wire {

static_assert(static_cast<int>(DType::kFp64) + 1 == v1::DTYPE_FP64 &&
              static_cast<int>(DType::kInt4) + 1 == v1::DTYPE_INT4);
static_assert(static_cast<int>(Timing::kEager) + 1 == v1::TIMING_EAGER &&
              static_cast<int>(Timing::kKernel) + 1 == v1::TIMING_KERNEL);

v1::DType Encode(DType dtype) { return static_cast<v1::DType>(static_cast<int>(dtype) + 1); }
v1::Timing Encode(Timing timing) { return static_cast<v1::Timing>(static_cast<int>(timing) + 1); }

std::optional<DType> Decode(v1::DType dtype) {
  if (dtype < v1::DTYPE_FP64 || dtype > v1::DTYPE_INT4) return std::nullopt;
  return static_cast<DType>(static_cast<int>(dtype) - 1);
}

std::optional<Timing> Decode(v1::Timing timing) {
  if (timing < v1::TIMING_EAGER || timing > v1::TIMING_KERNEL) return std::nullopt;
  return static_cast<Timing>(static_cast<int>(timing) - 1);
}

absl::StatusOr<DType> DecodeDType(v1::DType dtype, std::string_view field) {
  if (const std::optional<DType> known = Decode(dtype); known.has_value()) return *known;
  if (dtype == v1::DTYPE_UNSPECIFIED) return FieldError(field, "is not set; give a type such as DTYPE_BF16");
  return FieldError(field, fmt::format("has the unknown value {}", static_cast<int>(dtype)));
}

}  // namespace gpueta::wire
