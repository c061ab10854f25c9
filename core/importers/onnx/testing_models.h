// For tests: models written in ONNX's textual syntax, and graphs as text.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace gpueta::onnx_import {

// The model `<inputs> => (y) { <nodes> }`, e.g. of "float[n,3] x, float[3,5] w"
// and "y = MatMul (x, w)". Inputs whose name begins with "w" become
// initialisers without data. Throws std::invalid_argument for text that is no
// model.
onnx::ModelProto ModelFromText(std::string_view inputs, std::string_view nodes, int opset = 17);

// One line a node: "gemm fp32 linear m=n n=5 k=3", "(free) vector fp32 view
// rows=n cols=3"; dims with their default value are left out.
std::vector<std::string> NodeTexts(const Graph& graph);

}  // namespace gpueta::onnx_import
