// From the bytes of an ONNX file to its messages.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <onnx/onnx_pb.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta::onnx_import {

// A protobuf message, and so an ONNX file without external data, is below this.
inline constexpr std::int64_t kMaxFileBytes = (std::int64_t{1} << 31) - 1;

// The model in the `size` bytes of `stream`, without the contents of large
// tensors (they are skipped, not read). INVALID_ARGUMENT if the bytes are no
// ONNX model or end too early; RESOURCE_EXHAUSTED for more than kMaxFileBytes,
// or a model that would unpack to gigabytes.
absl::StatusOr<std::unique_ptr<onnx::ModelProto>> ReadModel(google::protobuf::io::ZeroCopyInputStream& stream,
                                                            std::int64_t size);

// The attributes of a function that have a value where a call gives none.
std::vector<onnx::AttributeProto> DefaultsOf(const onnx::FunctionProto& function);

}  // namespace gpueta::onnx_import
