// Matrix products.
#include <algorithm>
#include <map>

#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

// A product of matrices A [m,k] and B [k,n] over broadcast leading dims.
struct MatrixProduct {
  Shape a_batch;
  Shape b_batch;
  SymInt m = 1;
  SymInt n = 1;
  SymInt k = 1;
  Shape output;
};

// Position of B: where both operands are quantised statically, after A's scale
// and zero point.
std::size_t SecondOperand(const NodeView& node) {
  const std::string& type = node.proto().op_type();
  return type == "QLinearMatMul" || type == "QGemm" ? 3 : 1;
}

// What is multiplied: the type of the weights where the operator quantises its
// input itself.
DType ProductDType(const NodeView& node) {
  const bool dynamic = node.proto().op_type() == "DynamicQuantizeMatMul";
  return KernelDType(node.in(dynamic ? 1 : 0).type);
}

// Shapes as numpy.matmul has them; a vector is a row on the left and a column
// on the right, and is missing from the result.
std::optional<MatrixProduct> ReadMatMul(NodeView& node) {
  Shape a = node.in(0).shape;
  Shape b = node.in(SecondOperand(node)).shape;
  if (a.empty() || b.empty()) {
    node.Mismatch("an operand is a scalar");
    return std::nullopt;
  }
  const bool row = a.size() == 1;
  const bool column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.emplace_back(1);
  // Attributes of FusedMatMul.
  if (node.Int("transA", 0) != 0) std::swap(a.back(), a[a.size() - 2]);
  if (node.Int("transB", 0) != 0) std::swap(b.back(), b[b.size() - 2]);
  MatrixProduct product;
  product.a_batch.assign(a.begin(), a.end() - 2);
  product.b_batch.assign(b.begin(), b.end() - 2);
  product.m = a[a.size() - 2];
  product.n = b.back();
  const std::optional<SymInt> k = BroadcastDim(a.back(), b[b.size() - 2]);
  const std::optional<Shape> batch = Broadcast(product.a_batch, product.b_batch);
  if (!k.has_value() || !batch.has_value()) {
    node.Mismatch("matrices of shapes {} and {} cannot be multiplied", ToText(a), ToText(b));
    return std::nullopt;
  }
  product.k = *k;
  product.output = *batch;
  if (!row) product.output.push_back(product.m);
  if (!column) product.output.push_back(product.n);
  return product;
}

ElementType MatMulOutputType(const NodeView& node) {
  if (node.proto().op_type() == "MatMulInteger") return TensorProto::INT32;
  if (node.proto().op_type() == "MatMulIntegerToFloat") return node.has(2) ? node.in(2).type : TensorProto::FLOAT;
  constexpr std::size_t kOutputZeroPoint = 7;
  if (node.proto().op_type() == "QLinearMatMul" && node.has(kOutputZeroPoint)) return node.in(kOutputZeroPoint).type;
  return node.in(0).type;
}

std::vector<Inferred> InferMatMul(NodeView& node) {
  const std::optional<MatrixProduct> product = ReadMatMul(node);
  if (!product.has_value()) return {};
  return {Known(MatMulOutputType(node), product->output)};
}

GraphNode GemmNode(DType dtype, Gemm::Layer layer, const SymInt& batch, const SymInt& m, const SymInt& n,
                   const SymInt& k) {
  // A sum over nothing is 0: no product is computed.
  if (k == 0) return ViewNode(dtype, {batch, m, n});
  return MakeNode(dtype, Gemm{.layer = layer}, {{"batch", batch}, {"m", m}, {"n", n}, {"k", k}});
}

// Weights that are one matrix take all leading dims of the input as rows of one
// product: a linear layer. Otherwise there are as many products as leading dims
// say, of activations (bmm) or with a weight each.
GraphNode CostMatMul(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<MatrixProduct> product = ReadMatMul(node);
  if (!product.has_value()) return CostTraffic(node, outputs);
  const DType dtype = ProductDType(node);
  const bool weights = node.in(SecondOperand(node)).origin == Origin::kConstant;
  const bool activations = !weights && node.in(0).origin != Origin::kConstant;
  if (product->b_batch.empty() || (weights && ElementsOf(product->b_batch) == 1)) {
    const Gemm::Layer layer = weights ? Gemm::Layer::kLinear : Gemm::Layer::kGemm;
    return GemmNode(dtype, layer, 1, ElementsOf(product->a_batch) * product->m, product->n, product->k);
  }
  const Shape batch = Broadcast(product->a_batch, product->b_batch).value_or(product->b_batch);
  const Gemm::Layer layer = activations ? Gemm::Layer::kBmm : Gemm::Layer::kGemm;
  return GemmNode(dtype, layer, ElementsOf(batch), product->m, product->n, product->k);
}

struct GemmDims {
  SymInt m;
  SymInt n;
  SymInt k;
};

std::optional<GemmDims> ReadGemm(NodeView& node) {
  Shape a = node.in(0).shape;
  Shape b = node.in(SecondOperand(node)).shape;
  if (a.size() != 2 || b.size() != 2) {
    node.Mismatch("operands of shapes {} and {} are not matrices", ToText(a), ToText(b));
    return std::nullopt;
  }
  if (node.Int("transA", 0) != 0) std::swap(a[0], a[1]);
  if (node.Int("transB", 0) != 0) std::swap(b[0], b[1]);
  const std::optional<SymInt> k = BroadcastDim(a[1], b[0]);
  if (!k.has_value()) {
    node.Mismatch("matrices of shapes {} and {} cannot be multiplied", ToText(a), ToText(b));
    return std::nullopt;
  }
  return GemmDims{a[0], b[1], *k};
}

std::vector<Inferred> InferGemm(NodeView& node) {
  const std::optional<GemmDims> dims = ReadGemm(node);
  if (!dims.has_value()) return {};
  return {Known(node.in(0).type, {dims->m, dims->n})};
}

GraphNode CostGemm(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<GemmDims> dims = ReadGemm(node);
  if (!dims.has_value()) return CostTraffic(node, outputs);
  const bool weights = node.in(SecondOperand(node)).origin == Origin::kConstant;
  return GemmNode(KernelDType(node.in(0).type), weights ? Gemm::Layer::kLinear : Gemm::Layer::kGemm, 1, dims->m,
                  dims->n, dims->k);
}

// Weights of `bits` bits in blocks, stored as bytes: [.., K] · [K, N].
std::vector<Inferred> InferMatMulNBits(NodeView& node) {
  const Tensor& a = node.in(0);
  if (a.shape.empty()) {
    node.Mismatch("an operand is a scalar");
    return {};
  }
  Shape shape = a.shape;
  shape.back() = node.Int("N", 0);
  return {Known(a.type, shape)};
}

GraphNode CostMatMulNBits(NodeView& node, const std::vector<Tensor>& outputs) {
  constexpr std::int64_t kNarrowest = 4;  // the narrowest weights that kernels have
  const Shape& a = node.in(0).shape;
  if (a.empty()) return CostTraffic(node, outputs);
  const DType dtype = node.Int("bits", kNarrowest) <= kNarrowest ? DType::kInt4 : KernelDType(node.in(0).type);
  return GemmNode(dtype, Gemm::Layer::kLinear, 1, Product(a, 0, a.size() - 1), node.Int("N", 0), node.Int("K", 0));
}

// An Einsum of one or two operands: sizes by label. An ellipsis is a run of
// labels of its own, named by digits from the right.
struct Contraction {
  std::map<char, SymInt> sizes;
  std::vector<std::string> operands;
  std::string output;
};

// Replaces "..." by one digit a dim; false if the labels do not fit the rank.
bool ExpandEllipsis(std::string& labels, std::size_t rank) {
  constexpr std::size_t kMaxEllipsisDims = 10;  // digits
  const std::size_t at = labels.find("...");
  if (at == std::string::npos) return labels.size() == rank;
  const std::size_t named = labels.size() - 3;
  if (named > rank || rank - named > kMaxEllipsisDims) return false;
  std::string dims;
  for (std::size_t i = rank - named; i-- > 0;) dims += static_cast<char>('0' + i);
  labels.replace(at, 3, dims);
  return true;
}

std::string EllipsisLabels(const Contraction& contraction) {
  std::string labels;
  for (char label = '9'; label >= '0'; --label) {
    if (contraction.sizes.contains(label)) labels += label;
  }
  return labels;
}

std::optional<Contraction> ReadEinsum(NodeView& node) {
  std::string equation = node.String("equation", "");
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  std::string_view left = std::string_view(equation).substr(0, arrow);
  Contraction contraction;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    std::string labels(left.substr(0, left.find(',')));
    left.remove_prefix(std::min(labels.size() + 1, left.size()));
    const Shape shape = node.has(i) ? node.in(i).shape : Shape();
    if (!ExpandEllipsis(labels, shape.size())) {
      node.Mismatch("equation \"{}\" does not fit input {} of shape {}", Printable(equation), i, ToText(shape));
      return std::nullopt;
    }
    for (std::size_t j = 0; j < labels.size(); ++j) {
      const auto [size, first] = contraction.sizes.try_emplace(labels[j], shape[j]);
      const std::optional<SymInt> both = first ? shape[j] : BroadcastDim(size->second, shape[j]);
      if (!both.has_value()) {
        node.Mismatch("equation \"{}\" gives \"{}\" two sizes", Printable(equation), labels[j]);
        return std::nullopt;
      }
      size->second = *both;
    }
    contraction.operands.push_back(labels);
  }
  if (arrow == std::string::npos) {
    // Implicit: labels that occur once, in alphabetical order.
    std::map<char, int> occurrences;
    for (const std::string& labels : contraction.operands) {
      for (char label : labels) ++occurrences[label];
    }
    contraction.output = EllipsisLabels(contraction);
    for (const auto& [label, count] : occurrences) {
      const bool ellipsis = label >= '0' && label <= '9';
      if (count == 1 && !ellipsis) contraction.output += label;
    }
  } else {
    contraction.output = equation.substr(arrow + 2);
    const std::size_t at = contraction.output.find("...");
    if (at != std::string::npos) contraction.output.replace(at, 3, EllipsisLabels(contraction));
  }
  for (char label : contraction.output) {
    if (contraction.sizes.contains(label)) continue;
    node.Malformed("equation \"{}\" has a label in its result that no operand has", Printable(equation));
    return std::nullopt;
  }
  return contraction;
}

std::vector<Inferred> InferEinsum(NodeView& node) {
  const std::optional<Contraction> contraction = ReadEinsum(node);
  if (!contraction.has_value()) return {};
  Shape shape;
  for (char label : contraction->output) shape.push_back(contraction->sizes.at(label));
  return {Known(node.in(0).type, shape)};
}

// Two operands that share a label which the result lacks are a matrix product:
// labels of both and the result are batch dims, of one operand m or n, of both
// alone k. Everything else is elementwise.
GraphNode CostEinsum(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<Contraction> contraction = ReadEinsum(node);
  if (!contraction.has_value() || contraction->operands.size() > 2) return CostTraffic(node, outputs);
  const DType dtype = KernelDType(node.in(0).type);
  if (contraction->operands.size() == 1) return VectorNode(dtype, "reduce", node.in(0).shape, 1);
  SymInt batch = 1;
  SymInt m = 1;
  SymInt n = 1;
  SymInt k = 1;
  bool contracts = false;
  for (const auto& [label, size] : contraction->sizes) {
    const bool in_a = contraction->operands[0].find(label) != std::string::npos;
    const bool in_b = contraction->operands[1].find(label) != std::string::npos;
    const bool in_result = contraction->output.find(label) != std::string::npos;
    contracts = contracts || (in_a && in_b && !in_result);
    SymInt& extent = in_a && in_b ? (in_result ? batch : k) : in_a ? m : n;
    extent = extent * size;
  }
  if (!contracts) return VectorNode(dtype, "mul", outputs[0].shape, FullSizeOperands(node, outputs[0].shape));
  const bool weights = node.in(1).origin == Origin::kConstant;
  const Gemm::Layer plain = weights ? Gemm::Layer::kLinear : Gemm::Layer::kGemm;
  return GemmNode(dtype, batch == 1 ? plain : Gemm::Layer::kBmm, batch, m, n, k);
}

}  // namespace

void AddProductOps(OpTable& table) {
  const OpRule mat_mul = {.infer = InferMatMul, .cost = CostMatMul, .min_inputs = 2};
  const OpRule gemm = {.infer = InferGemm, .cost = CostGemm, .min_inputs = 2};
  table.insert({
      {"DynamicQuantizeMatMul", mat_mul},
      {"Einsum", {.infer = InferEinsum, .cost = CostEinsum}},
      {"FusedGemm", gemm},
      {"FusedMatMul", mat_mul},
      {"Gemm", gemm},
      {"MatMul", mat_mul},
      {"MatMulInteger", mat_mul},
      {"MatMulIntegerToFloat", mat_mul},
      {"MatMulNBits", {.infer = InferMatMulNBits, .cost = CostMatMulNBits}},
      {"QGemm", {.infer = InferGemm, .cost = CostGemm, .min_inputs = 4}},
      {"QLinearMatMul", {.infer = InferMatMul, .cost = CostMatMul, .min_inputs = 4}},
  });
}

}  // namespace gpueta::onnx_import
