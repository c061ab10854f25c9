#include "core/importers/onnx/element_type.h"

#include <fmt/format.h>

namespace gpueta::onnx_import {

using onnx::TensorProto;

int BitsOf(ElementType type) {
  if (type >= kFloat8First && type <= kFloat8Last) return 8;
  if (type == kUint4 || type == kInt4 || type == kFloat4) return 4;
  switch (type) {
    case TensorProto::BOOL:
    case TensorProto::INT8:
    case TensorProto::UINT8: return 8;
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
    case TensorProto::INT16:
    case TensorProto::UINT16: return 16;
    case TensorProto::FLOAT:
    case TensorProto::INT32:
    case TensorProto::UINT32: return 32;
    case TensorProto::DOUBLE:
    case TensorProto::INT64:
    case TensorProto::UINT64:
    case TensorProto::COMPLEX64: return 64;
    case TensorProto::COMPLEX128: return 128;
    default: return 0;
  }
}

bool IsFloat(ElementType type) {
  return type == TensorProto::FLOAT || type == TensorProto::DOUBLE || type == TensorProto::FLOAT16 ||
         type == TensorProto::BFLOAT16 || (type >= kFloat8First && type <= kFloat8Last) || type == kFloat4;
}

bool IsInteger(ElementType type) {
  switch (type) {
    case TensorProto::BOOL:
    case TensorProto::INT8:
    case TensorProto::UINT8:
    case TensorProto::INT16:
    case TensorProto::UINT16:
    case TensorProto::INT32:
    case TensorProto::UINT32:
    case TensorProto::INT64:
    case TensorProto::UINT64: return true;
    default: return false;
  }
}

DType KernelDType(ElementType type) {
  if (type == TensorProto::BFLOAT16) return DType::kBf16;
  if (type >= kFloat8First && type <= kFloat8Last) return DType::kFp8;
  switch (BitsOf(type)) {
    case 4:
    case 8: return DType::kInt8;
    case 16: return DType::kFp16;
    case 32: return DType::kFp32;
    default: return DType::kFp64;
  }
}

std::string TypeName(ElementType type) {
  switch (type) {
    case TensorProto::FLOAT: return "fp32";
    case TensorProto::DOUBLE: return "fp64";
    case TensorProto::FLOAT16: return "fp16";
    case TensorProto::BFLOAT16: return "bf16";
    case TensorProto::INT8: return "int8";
    case TensorProto::UINT8: return "uint8";
    case TensorProto::INT16: return "int16";
    case TensorProto::UINT16: return "uint16";
    case TensorProto::INT32: return "int32";
    case TensorProto::UINT32: return "uint32";
    case TensorProto::INT64: return "int64";
    case TensorProto::UINT64: return "uint64";
    case TensorProto::BOOL: return "bool";
    case TensorProto::STRING: return "string";
    case TensorProto::COMPLEX64: return "complex64";
    case TensorProto::COMPLEX128: return "complex128";
    default: break;
  }
  if (type >= kFloat8First && type <= kFloat8Last) return "fp8";
  if (type == kUint4) return "uint4";
  if (type == kInt4) return "int4";
  if (type == kFloat4) return "fp4";
  return fmt::format("type{}", type);
}

}  // namespace gpueta::onnx_import
