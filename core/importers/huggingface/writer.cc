#include "core/importers/huggingface/writer.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"

namespace gpueta::huggingface {

void Writer::Enter(std::string scope, int layer) {
  scope_ = std::move(scope);
  layer_ = layer;
}

Value Writer::Append(GraphNode node, std::string_view name, const std::vector<Value>& inputs, const SymInt& rows,
                     const SymInt& cols, Split split) {
  Value out{-1, rows, cols, split};
  if (muted_) return out;
  node.kernel.name = scope_.empty() ? std::string(name) : fmt::format("{}.{}", scope_, name);
  node.layer = layer_;
  for (const Value& input : inputs) {
    if (input.node >= 0) node.inputs.push_back(input.node);
  }
  std::sort(node.inputs.begin(), node.inputs.end());
  node.inputs.erase(std::unique(node.inputs.begin(), node.inputs.end()), node.inputs.end());
  out.node = static_cast<int>(graph_.nodes.size());
  graph_.nodes.push_back(std::move(node));
  return out;
}

Value Writer::Kernel(std::string_view name, std::string source_op, Work work, const std::vector<Dim>& dims,
                     const std::vector<Value>& inputs, const SymInt& rows, const SymInt& cols, Split split) {
  GraphNode node;
  node.kernel.dtype = model_.dtype;
  node.kernel.work = std::move(work);
  node.source_op = std::move(source_op);
  node.split = split;
  for (const Dim& dim : dims) {
    const int position = *FindDim(node.kernel.op(), dim.name);
    SetDim(node.kernel, position, dim.value.constant().value_or(1));
    if (!dim.value.constant().has_value()) node.symbolic_dims.push_back({position, dim.value});
  }
  return Append(std::move(node), name, inputs, rows, cols, split);
}

Value Writer::Product(std::string_view name, const Value& x, std::int64_t out, Split split) {
  Value y = Kernel(name, "Linear", Gemm{.layer = Gemm::Layer::kLinear}, {{"m", x.rows}, {"n", out}, {"k", x.cols}}, {x},
                   x.rows, out, split);
  if (split != Split::kColumns) y.split = Split::kWhole;
  return y;
}

Value Writer::Linear(std::string_view name, const Value& x, std::int64_t out, bool bias, Split split) {
  Value y = Product(name, x, out, split);
  const Count weights = Count(x.cols.constant().value_or(0)) * Count(out);
  LastRunsInWeightType();
  StoredAsWeights(weights);
  Parameters(weights + Count(bias ? out : 0));
  LastReads(weights + Count(bias ? out : 0));
  return y;
}

Value Writer::Bmm(std::string_view name, const Value& a, const Value& b, const SymInt& batch, const SymInt& m,
                  const SymInt& n, const SymInt& k) {
  return Kernel(name, "MatMul", Gemm{.layer = Gemm::Layer::kBmm}, {{"batch", batch}, {"m", m}, {"n", n}, {"k", k}},
                {a, b}, batch * m, n, Split::kHeads);
}

Value Writer::Vector(std::string_view name, std::string_view op, const Value& x, int operands,
                     const std::vector<Value>& more) {
  std::vector<Value> inputs = more;
  inputs.push_back(x);
  return Kernel(name, std::string(op), gpueta::Vector{.op = std::string(op)},
                {{"rows", x.rows}, {"cols", x.cols}, {"operands", operands}}, inputs, x.rows, x.cols, x.split);
}

Value Writer::Norm(std::string_view name, const Value& x, const huggingface::Norm& norm, std::int64_t width) {
  Parameters(Count(norm.Parameters(width)));
  if (norm.kind == Norm::Kind::kLayer) return Vector(name, "layernorm", x);
  if (!op_by_op()) return Vector(name, "rmsnorm", x);
  // In fp32: x·rsqrt(mean(x²) + ε), then the weight.
  const std::string part(name);
  const bool cast = model_.dtype != DType::kFp32;
  Value wide = cast ? Vector(part + ".cast", "cast", x) : x;
  const Value square = Vector(part + ".square", "pow", wide);
  Value mean = Vector(part + ".mean", "reduce", square);
  mean.cols = 1;
  mean = Vector(part + ".epsilon", "add", mean);
  const Value scale = Vector(part + ".rsqrt", "sqrt", mean);
  wide = Vector(part + ".scale", "mul", wide, 1, {scale});
  if (cast) wide = Vector(part + ".cast_back", "cast", wide);
  return Vector(part + ".weight", "mul", wide);
}

Value Writer::Activation(std::string_view name, std::string_view activation, const Value& x) {
  const std::string part(name);
  if (op_by_op() && activation == "gelu_new") {
    // 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), an operator each.
    Value y = Vector(part + ".cube", "pow", x);
    y = Vector(part + ".cubic", "mul", y);
    y = Vector(part + ".sum", "add", y, 2, {x});
    y = Vector(part + ".scale", "mul", y);
    y = Vector(part + ".tanh", "tanh", y);
    y = Vector(part + ".shift", "add", y);
    const Value half = Vector(part + ".half", "mul", x);
    return Vector(part + ".product", "mul", half, 2, {y});
  }
  if (op_by_op() && activation == "quick_gelu") {
    const Value scaled = Vector(part + ".scale", "mul", x);
    const Value gate = Vector(part + ".sigmoid", "sigmoid", scaled);
    return Vector(part + ".product", "mul", x, 2, {gate});
  }
  if (activation.starts_with("gelu") || activation == "quick_gelu" || activation == "swish") {
    return Vector(name, activation == "swish" ? "silu" : "gelu", x);
  }
  return Vector(name, activation, x);
}

Value Writer::GatedActivation(std::string_view name, std::string_view activation, const Value& gate, const Value& up) {
  if (!op_by_op()) return Vector(name, "silu_mul", gate, 2, {up});
  const Value on = Activation(name, activation, gate);
  return Vector(std::string(name) + ".gate", "mul", on, 2, {up});
}

void Writer::Parameters(Count total, Count active) {
  total_ = total_ + total;
  active_ = active_ + active;
}

void Writer::LastReads(Count parameters) {
  if (!muted_ && !graph_.nodes.empty()) graph_.nodes.back().parameters = parameters.value();
}

void Writer::LastRunsInWeightType() {
  if (!muted_ && !graph_.nodes.empty()) graph_.nodes.back().kernel.dtype = model_.weight_dtype;
}

absl::StatusOr<Graph> Writer::Finish(std::string display_name) {
  graph_.display_name = std::move(display_name);
  if (total_.overflowed() || total_.value() > (std::int64_t{1} << 60)) {
    return InvalidArgument("the model has more than 2^60 parameters; check hidden_size, num_hidden_layers, vocab_size");
  }
  graph_.parameters = total_.value();
  graph_.active_parameters = active_.value();
  const Count own = Count(total_.value() - std::min(quantised_.value(), total_.value()));
  graph_.parameter_bytes =
      (BytesOf(own, BitsOf(model_.dtype).weight) + BytesOf(quantised_, BitsOf(model_.weight_dtype).weight)).value();
  graph_.kv_bytes_per_token = kv_bytes_.value();
  graph_.warnings = model_.warnings;
  return std::move(graph_);
}

}  // namespace gpueta::huggingface
