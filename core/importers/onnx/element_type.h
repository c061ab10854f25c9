// Element types of ONNX tensors (TensorProto.DataType).
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>

#include "core/ops/dtype.h"

namespace gpueta::onnx_import {

// An int as in TensorProto.data_type: files may hold types that are newer than
// the ONNX library. 0 is "undefined".
using ElementType = std::int32_t;

// Types that the packaged onnx.proto does not know; numbers from ONNX 1.17.
inline constexpr ElementType kFloat8First = 17;  // FLOAT8E4M3FN
inline constexpr ElementType kFloat8Last = 20;   // FLOAT8E5M2FNUZ
inline constexpr ElementType kUint4 = 21;
inline constexpr ElementType kInt4 = 22;
inline constexpr ElementType kFloat4 = 23;  // FLOAT4E2M1

// Bits of an element in memory; 0 for strings and unknown types.
int BitsOf(ElementType type);

bool IsFloat(ElementType type);
// Integers and bool: what a folded tensor holds as SymInt.
bool IsInteger(ElementType type);

// The arithmetic type that a kernel over this type is costed with. Types that
// kernels do not have (integers of 64, 32 and 16 bits, bool, complex) become the
// one with elements of the nearest width, since such kernels are bound by
// memory: int64 is costed as fp64, int32 as fp32, bool as int8.
DType KernelDType(ElementType type);

// For people: "fp32", "int64", "bool".
std::string TypeName(ElementType type);

}  // namespace gpueta::onnx_import
