#include <string>

#include "core/importers/huggingface/blocks.h"

namespace gpueta::huggingface {
namespace {

// More experts than these are not written out one by one.
constexpr std::int64_t kMostSeparateExperts = 64;

// Experts without a gate: a product up, an activation, a product down.
Value PlainExperts(Writer& writer, const Experts& e, const FeedForward& shape, const Value& x, const SymInt& batch) {
  const std::int64_t hidden = writer.model().hidden;
  SymInt each = CeilDiv(x.rows * e.top_k, e.count);
  if (e.capacity > 0) each = Min(each, batch * e.capacity);
  if (!writer.op_by_op() || e.count > kMostSeparateExperts) {
    Value up = writer.Bmm("experts.up", x, x, e.count, each, e.width, hidden);
    up = writer.Activation("experts.activation", shape.activation, up);
    const Value down = writer.Bmm("experts.down", up, up, e.count, each, hidden, e.width);
    return writer.Vector("experts.scatter", "copy", {down.node, x.rows, hidden});
  }
  // One after the other: gather its tokens, run, scatter; then the router's probabilities.
  Value out = writer.Vector("experts.clone", "copy", x);
  for (std::int64_t i = 0; i < e.count; ++i) {
    const std::string name = "experts." + std::to_string(i);
    Value own{x.node, each, hidden};
    own = writer.Vector(name + ".gather", "copy", own);
    Value up = writer.Product(name + ".up", own, e.width, Split::kColumns);
    up = writer.Activation(name + ".activation", shape.activation, up);
    const Value down = writer.Product(name + ".down", up, hidden, Split::kRows);
    out = writer.Vector(name + ".scatter", "copy", down, 1, {out});
    out.rows = x.rows;
  }
  return writer.Vector("experts.weigh", "mul", out);
}

}  // namespace

Value FeedForwardBlock(Writer& writer, const FeedForward& f, const Value& x) {
  Value inner;
  if (!f.gated) {
    inner = writer.Linear("up", x, f.width, f.bias, Split::kColumns);
    inner = writer.Activation("activation", f.activation, inner);
  } else if (f.packed || !writer.op_by_op()) {
    Value both = writer.Linear("gate_up", x, 2 * f.width, f.bias, Split::kColumns);
    both.cols = f.width;
    inner = writer.GatedActivation("activation", f.activation, both, both);
  } else {
    const Value gate = writer.Linear("gate", x, f.width, f.bias, Split::kColumns);
    const Value up = writer.Linear("up", x, f.width, f.bias, Split::kColumns);
    inner = writer.GatedActivation("activation", f.activation, gate, up);
  }
  return writer.Linear("down", inner, writer.model().hidden, f.bias, Split::kRows);
}

Value ExpertsBlock(Writer& writer, const Experts& e, const FeedForward& shape, const Value& x, const SymInt& batch) {
  const std::int64_t hidden = writer.model().hidden;
  Value router = writer.Product("router", x, e.count);
  writer.Parameters(Count(hidden) * Count(e.count) + Count(e.router_bias ? e.count : 0));
  router = writer.Vector("router.softmax", "softmax", router);
  const std::int64_t products = shape.gated ? 3 : 2;
  const Count weights = Product({products, hidden, e.width});
  const Count one = weights + Count(e.bias ? (products - 1) * e.width + hidden : 0);
  writer.Parameters(Count(e.count) * one, Count(e.top_k) * one);
  writer.StoredAsWeights(Count(e.count) * weights);
  Value out;
  if (shape.gated) {
    out = writer.Kernel("experts", "Experts", Moe{},
                        {{"num_tokens", x.rows},
                         {"hidden_size", hidden},
                         {"inter_size", e.width},
                         {"top_k", e.top_k},
                         {"num_experts", e.count}},
                        {x, router}, x.rows, hidden, Split::kExperts);
    writer.LastRunsInWeightType();
    writer.LastReads(Count(e.count) * one);
    out.split = Split::kWhole;
  } else {
    out = PlainExperts(writer, e, shape, x, batch);
  }
  if (e.shared_width == 0) return out;
  FeedForward shared = shape;
  shared.width = e.shared_width;
  Value always = FeedForwardBlock(writer, shared, x);
  if (e.shared_gate) {
    Value gate = writer.Product("shared_gate", x, 1);
    writer.Parameters(Count(hidden));
    gate = writer.Vector("shared_gate.sigmoid", "sigmoid", gate);
    always = writer.Vector("shared_gate.product", "mul", always, 1, {gate});
  }
  return writer.Add("add_shared", out, always);
}

}  // namespace gpueta::huggingface
