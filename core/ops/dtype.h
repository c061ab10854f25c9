// Arithmetic types of kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpueta {

// Accumulation is in fp32 unless the type is fp64 or int8 (int32).
enum class DType : std::uint8_t {
  kFp64,
  kFp32,  // IEEE, TF32 off
  kTf32,  // fp32 in memory, TF32 tensor cores
  kFp16,
  kBf16,
  kFp8,   // fp8 operands, 16-bit output
  kInt8,  // int8 operands, int32 output
  kInt4,  // int4 weights, 16-bit activations
};

inline constexpr std::array kAllDTypes = {DType::kFp64, DType::kFp32, DType::kTf32, DType::kFp16,
                                          DType::kBf16, DType::kFp8,  DType::kInt8, DType::kInt4};

// The name used in files and on the command line, e.g. "bf16".
std::string_view Name(DType dtype);

// The inverse of Name; nullopt for an unknown name.
std::optional<DType> ParseDType(std::string_view name);

// Size in memory, in bits, of what a kernel of this type reads and writes.
struct ElementBits {
  int activation;  // first operand, and every tensor of a memory-bound kernel
  int weight;      // second operand of a product
  int output;
};
constexpr ElementBits BitsOf(DType dtype) {
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
