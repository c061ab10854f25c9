// For tests and docs/onnx-ops.md: one sample of each operator, and what it
// costs.
#pragma once

#include <string>

namespace gpueta::onnx_import {

// The text of docs/onnx-ops.md: every operator of KnownOps with a sample and
// the kernels that the importer makes of it. Throws std::runtime_error naming
// an operator whose sample does not import: then it wants one of its own in
// op_samples.cc.
std::string OpDocument();

}  // namespace gpueta::onnx_import
