// Walks the nodes of a model and builds the graph of kernels.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace gpueta::onnx_import {

// Errors as ImportOnnx.
absl::StatusOr<Graph> BuildGraph(const onnx::ModelProto& model, std::string display_name);

}  // namespace gpueta::onnx_import
