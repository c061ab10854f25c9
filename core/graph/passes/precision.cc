#include "core/graph/passes/precision.h"

#include <algorithm>
#include <cmath>

namespace gpueta {
namespace {

bool IsFloat(DType dtype) {
  return dtype == DType::kFp64 || dtype == DType::kFp32 || dtype == DType::kTf32 || dtype == DType::kFp16 ||
         dtype == DType::kBf16;
}

bool HasWeights(const GraphNode& node) {
  const auto* gemm = std::get_if<Gemm>(&node.kernel.work);
  return node.kernel.op() == Op::kConv2d || node.kernel.op() == Op::kMoe ||
         (gemm != nullptr && gemm->layer != Gemm::Layer::kBmm);
}

}  // namespace

void SetDType(Graph& graph, DType dtype) {
  // Parameters have the type of the first kernel that computes.
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const GraphNode& node) {
    return IsFloat(node.kernel.dtype) && node.kernel.op() != Op::kVector;
  });
  if (first != graph.nodes.end()) {
    const double change = (BitsOf(dtype).weight - BitsOf(first->kernel.dtype).weight) / 8.0;
    graph.parameter_bytes += std::llround(static_cast<double>(graph.parameters) * change);
    graph.parameter_bytes = std::max<std::int64_t>(graph.parameter_bytes, 0);
  }
  for (GraphNode& node : graph.nodes) {
    if (!IsFloat(node.kernel.dtype) || (!IsFloat(dtype) && !HasWeights(node))) continue;
    node.kernel.dtype = dtype;
    if (auto* attention = std::get_if<Attention>(&node.kernel.work)) attention->kv_dtype = dtype;
  }
}

void SetKvDType(Graph& graph, DType dtype) {
  for (GraphNode& node : graph.nodes) {
    if (auto* attention = std::get_if<Attention>(&node.kernel.work)) attention->kv_dtype = dtype;
  }
}

}  // namespace gpueta
