// The order in which the nodes of a graph can be visited.
#pragma once

#include <onnx/onnx_pb.h>

#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta::onnx_import {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// What `node` reads of the body it stands in: its inputs, and whatever its
// subgraphs do not produce themselves. Empty names are absent inputs.
std::vector<std::string_view> ReadsOf(const onnx::NodeProto& node);

// Indices of a body's nodes so that each comes after those it reads from; the
// file's own order if that will do. `given` are the tensors that the body has
// without a node; what it does not produce and is not given is taken to come
// from outside. INVALID_ARGUMENT naming node and tensor for a tensor that two
// things produce, and for a cycle.
absl::StatusOr<std::vector<int>> OrderNodes(const Nodes& nodes, const std::unordered_set<std::string_view>& given);

}  // namespace gpueta::onnx_import
