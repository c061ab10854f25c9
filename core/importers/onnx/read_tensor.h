// Stored tensors: initialisers and constants.
#pragma once

#include <onnx/onnx_pb.h>

#include "absl/status/statusor.h"
#include "core/importers/onnx/tensor.h"

namespace gpueta::onnx_import {

// A constant; its contents are known if they are stored in the file, small and
// numeric. INVALID_ARGUMENT (without the tensor's name) for dims that are
// negative, too many or too large.
absl::StatusOr<Tensor> ReadTensor(const onnx::TensorProto& stored);
absl::StatusOr<Tensor> ReadSparseTensor(const onnx::SparseTensorProto& stored);

// Elements and bytes, dims checked by ReadTensor.
struct StoredSize {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  // strings count 0
};
StoredSize SizeOf(const Tensor& tensor);

}  // namespace gpueta::onnx_import
