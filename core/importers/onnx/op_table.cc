#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/op_rule.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {

const OpTable& KnownOps() {
  static const OpTable* const table = [] {
    auto* ops = new OpTable;
    AddSourceOps(*ops);
    AddElementwiseOps(*ops);
    AddLayoutOps(*ops);
    AddIndexingOps(*ops);
    AddReductionOps(*ops);
    AddNormalisationOps(*ops);
    AddSpatialOps(*ops);
    AddConvolutionOps(*ops);
    AddProductOps(*ops);
    AddAttentionOps(*ops);
    AddRecurrentOps(*ops);
    AddDetectionOps(*ops);
    return ops;
  }();
  return *table;
}

const OpRule& UnknownOp() {
  static const OpRule rule = {
      .infer = [](NodeView&) { return std::vector<Inferred>(); }, .cost = CostTraffic, .min_inputs = 0, .random = true};
  return rule;
}

}  // namespace gpueta::onnx_import
