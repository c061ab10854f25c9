// ONNX models to graphs of kernels.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace gpueta {

// The graph of the model in `bytes`: a valid one, with the names of the input's
// open dims as symbols. Weights are not looked at, and need not be there.
//
// Shapes are inferred here, symbolically; what the file declares (value_info)
// fills in where inference cannot tell. Whatever is neither known nor declared
// is assumed, and Graph::warnings says so. Nodes that only compute shapes or
// constants become no nodes; views become free nodes; operators without a cost
// model are costed by their memory traffic, with a warning.
//
// Local functions are walked where they are called, of an If the branch that
// runs, and loops of a known number of iterations are unrolled;
// Graph::source_op_counts counts what is walked. Of an If whose condition is
// not known the heavier branch is taken, a loop whose trips are not known runs
// once, each with a warning.
//
// INVALID_ARGUMENT naming node and tensor for a model that contradicts itself
// (a cycle, a tensor that nothing produces, shapes that do not fit), and for
// bytes that are no ONNX model; RESOURCE_EXHAUSTED for a model past the limits
// in read_model.h, and for functions that expand to too many nodes.
absl::StatusOr<Graph> ImportOnnx(std::string_view bytes, std::string display_name);

// Of a file, displayed by its name without extension. External data is not
// read. NOT_FOUND if the file cannot be opened; messages begin with `path`.
absl::StatusOr<Graph> ImportOnnxFile(const std::string& path);

}  // namespace gpueta
