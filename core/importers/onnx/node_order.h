// The order in which the nodes of a graph can be visited.
#pragma once

#include <onnx/onnx_pb.h>

#include <vector>

#include "absl/status/statusor.h"

namespace gpueta::onnx_import {

// Indices of the graph's nodes so that each comes after those it reads from;
// the file's own order if that will do. INVALID_ARGUMENT naming node and tensor
// for a tensor that nothing produces or two things produce, and for a cycle.
absl::StatusOr<std::vector<int>> OrderNodes(const onnx::GraphProto& graph);

}  // namespace gpueta::onnx_import
