#include "core/ops/dtype.h"

namespace gpueta {

std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return "fp64";
    case DType::kFp32: return "fp32";
    case DType::kTf32: return "tf32";
    case DType::kFp16: return "fp16";
    case DType::kBf16: return "bf16";
    case DType::kFp8: return "fp8";
    case DType::kInt8: return "int8";
    case DType::kInt4: return "int4";
  }
  return "?";
}

std::optional<DType> ParseDType(std::string_view name) {
  for (DType dtype : kAllDTypes) {
    if (Name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

ElementBits BitsOf(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return {64, 64, 64};
    case DType::kFp32:
    case DType::kTf32: return {32, 32, 32};
    case DType::kFp16:
    case DType::kBf16: return {16, 16, 16};
    case DType::kFp8: return {8, 8, 16};
    case DType::kInt8: return {8, 8, 32};
    case DType::kInt4: return {16, 4, 16};
  }
  return {32, 32, 32};
}

}  // namespace gpueta
