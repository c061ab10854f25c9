// Recurrent layers: LSTM, GRU, RNN.
#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

struct Recurrence {
  SymInt steps;
  SymInt batch;
  SymInt inputs;
  SymInt hidden;
  SymInt directions;
  std::int64_t gates = 1;
  bool batch_first = false;
};

std::int64_t GatesOf(const NodeView& node) {
  const std::string& type = node.proto().op_type();
  return type == "LSTM" ? 4 : type == "GRU" ? 3 : 1;
}

// X [steps, batch, inputs] (layout 1: batch first), W [directions, gates·hidden,
// inputs], R [directions, gates·hidden, hidden].
std::optional<Recurrence> ReadRecurrence(NodeView& node) {
  const Shape& x = node.in(0).shape;
  const Shape& w = node.in(1).shape;
  const Shape& r = node.in(2).shape;
  if (x.size() != 3 || w.size() != 3 || r.size() != 3) {
    node.Mismatch("input and weights of shapes {}, {} and {} must have 3 dims", ToText(x), ToText(w), ToText(r));
    return std::nullopt;
  }
  Recurrence recurrence;
  recurrence.gates = GatesOf(node);
  recurrence.batch_first = node.Int("layout", 0) != 0;
  recurrence.steps = x[recurrence.batch_first ? 1 : 0];
  recurrence.batch = x[recurrence.batch_first ? 0 : 1];
  recurrence.inputs = w[2];
  recurrence.hidden = r[2];
  recurrence.directions = w[0];
  if (x[2].constant().has_value() && w[2].constant().has_value() && x[2] != w[2]) {
    node.Mismatch("weights of shape {} do not fit an input of shape {}", ToText(w), ToText(x));
    return std::nullopt;
  }
  return recurrence;
}

// Every step's result, and the last one's (of an LSTM also its cell).
std::vector<Inferred> InferRecurrence(NodeView& node) {
  const std::optional<Recurrence> r = ReadRecurrence(node);
  if (!r.has_value()) return {};
  const ElementType type = node.in(0).type;
  const Shape all = r->batch_first ? Shape{r->batch, r->steps, r->directions, r->hidden}
                                   : Shape{r->steps, r->directions, r->batch, r->hidden};
  const Shape last =
      r->batch_first ? Shape{r->batch, r->directions, r->hidden} : Shape{r->directions, r->batch, r->hidden};
  return {Known(type, all), Known(type, last), Known(type, last)};
}

// The input's product for all steps at once, the state's product of each step,
// and the gates. A batched product stands for the steps: same arithmetic, and
// the weights are read again in each; that they wait for one another is lost.
std::vector<GraphNode> CostRecurrence(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<Recurrence> r = ReadRecurrence(node);
  if (!r.has_value()) return {CostTraffic(node, outputs)};
  const DType dtype = KernelDType(node.in(0).type);
  const SymInt units = r->gates * r->hidden;
  const Gemm gemm;
  return {MakeNode(dtype, gemm, {{"batch", r->directions}, {"m", r->steps * r->batch}, {"n", units}, {"k", r->inputs}}),
          MakeNode(dtype, gemm, {{"batch", r->steps * r->directions}, {"m", r->batch}, {"n", units}, {"k", r->hidden}}),
          VectorNode(dtype, "sigmoid", r->steps * r->batch * r->directions, r->hidden, r->gates + 1)};
}

}  // namespace

void AddRecurrentOps(OpTable& table) {
  const OpRule recurrence = {.infer = InferRecurrence, .costs = CostRecurrence, .min_inputs = 3};
  table.insert({{"GRU", recurrence}, {"LSTM", recurrence}, {"RNN", recurrence}});
}

}  // namespace gpueta::onnx_import
