// Operators that compute each output element from the elements at its place.
#include <array>

#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

// Contents of the result, if those of all inputs are known.
std::optional<Contents> FoldElements(const NodeView& node, const Shape& result) {
  if (node.rule().fold == nullptr || !SmallElementCount(result).has_value()) return std::nullopt;
  const std::optional<std::vector<std::int64_t>> to = ConstantDims(result);
  if (!to.has_value()) return std::nullopt;
  struct Operand {
    const Contents* contents;
    std::vector<std::int64_t> dims;
  };
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    const std::optional<std::vector<std::int64_t>> dims =
        node.contents(i) == nullptr ? std::nullopt : ConstantDims(node.in(i).shape);
    if (!dims.has_value()) return std::nullopt;
    operands.push_back({node.contents(i), *dims});
  }
  Contents contents;
  if (SmallElementCount(result) == 0) return contents;
  std::vector<std::int64_t> index(to->size(), 0);
  std::vector<Number> elements(operands.size());
  do {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      elements[i] = (*operands[i].contents)[static_cast<std::size_t>(BroadcastOffset(index, operands[i].dims))];
    }
    std::optional<Number> element = node.rule().fold(elements);
    if (!element.has_value()) return std::nullopt;
    contents.push_back(*std::move(element));
  } while (Advance(index, *to));
  return contents;
}

std::vector<Inferred> InferBroadcastAs(NodeView& node, ElementType type) {
  std::optional<Shape> shape = Shape();
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!node.has(i)) continue;
    std::optional<Shape> wider = Broadcast(*shape, node.in(i).shape);
    if (!wider.has_value()) {
      node.Mismatch("input {} of shape {} does not broadcast with {}", i, ToText(node.in(i).shape), ToText(*shape));
      return {};
    }
    shape = std::move(wider);
  }
  Inferred result = Known(type, *shape);
  result.contents = FoldElements(node, *shape);
  return {std::move(result)};
}

std::vector<Inferred> InferBroadcast(NodeView& node) { return InferBroadcastAs(node, node.in(0).type); }

std::vector<Inferred> InferPredicate(NodeView& node) { return InferBroadcastAs(node, TensorProto::BOOL); }

// Operands each followed by scale and zero point.
std::vector<Inferred> InferQuantisedBinary(NodeView& node) {
  const Shape& a = node.in(0).shape;
  const Shape& b = node.in(3).shape;
  const std::optional<Shape> shape = Broadcast(a, b);
  if (shape.has_value()) return {Known(node.in(0).type, *shape)};
  node.Mismatch("input 3 of shape {} does not broadcast with {}", ToText(b), ToText(a));
  return {};
}

std::vector<Inferred> InferWhere(NodeView& node) { return InferBroadcastAs(node, node.in(1).type); }

// The shape of input 0; other inputs are parameters.
std::vector<Inferred> InferUnary(NodeView& node) {
  const Tensor& x = node.in(0);
  Inferred result = Known(x.type, x.shape);
  if (node.input_count() == 1) result.contents = FoldElements(node, x.shape);
  return {std::move(result)};
}

// Bounds are inputs since opset 11; the attributes of before bound data, not sizes.
std::vector<Inferred> InferClip(NodeView& node) {
  Inferred result = Known(node.in(0).type, node.in(0).shape);
  if (node.contents(0) == nullptr || node.HasAttribute("min") || node.HasAttribute("max")) return {std::move(result)};
  Contents clipped = *node.contents(0);
  constexpr std::pair<std::size_t, FoldFunction> kBounds[] = {{1, FoldMax}, {2, FoldMin}};
  for (const auto& [input, fold] : kBounds) {
    if (!node.has(input)) continue;
    const Contents* bound = node.contents(input);
    if (bound == nullptr || bound->size() != 1) return {std::move(result)};
    for (Number& element : clipped) {
      const std::array<Number, 2> pair = {element, bound->front()};
      std::optional<Number> folded = fold(pair);
      if (!folded.has_value()) return {std::move(result)};
      element = *std::move(folded);
    }
  }
  result.contents = std::move(clipped);
  return {std::move(result)};
}

std::vector<Inferred> InferIsNan(NodeView& node) { return {Known(TensorProto::BOOL, node.in(0).shape)}; }

// The type of the widest tensor that is read or written in full.
GraphNode CostElementwise(NodeView& node, const std::vector<Tensor>& outputs) {
  const Shape& shape = outputs[0].shape;
  ElementType type = outputs[0].type;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!node.has(i) || node.in(i).origin != Origin::kData || node.in(i).shape != shape) continue;
    if (BitsOf(node.in(i).type) > BitsOf(type)) type = node.in(i).type;
  }
  return VectorNode(KernelDType(type), node.rule().kernel, shape, FullSizeOperands(node, shape));
}

std::vector<Inferred> InferCastTo(const Tensor& x, const Contents* contents, ElementType type) {
  Inferred result = Known(type, x.shape);
  if (contents == nullptr) return {std::move(result)};
  Contents cast;
  for (const Number& element : *contents) {
    std::optional<Number> converted = FoldCast(element, type);
    if (!converted.has_value()) return {std::move(result)};
    cast.push_back(*std::move(converted));
  }
  result.contents = std::move(cast);
  return {std::move(result)};
}

std::vector<Inferred> InferCast(NodeView& node) {
  return InferCastTo(node.in(0), node.contents(0), static_cast<ElementType>(node.Int("to", 0)));
}

std::vector<Inferred> InferCastLike(NodeView& node) {
  return InferCastTo(node.in(0), node.contents(0), node.in(1).type);
}

// A cast to the type it has already copies nothing.
GraphNode CostCast(NodeView& node, const std::vector<Tensor>& outputs) {
  if (outputs[0].type == node.in(0).type) return CostView(node, outputs);
  return CostElementwise(node, outputs);
}

std::vector<Inferred> InferQuantize(NodeView& node) {
  const auto otherwise = node.has(2) ? node.in(2).type : ElementType{TensorProto::UINT8};
  return {Known(static_cast<ElementType>(node.Int("output_dtype", otherwise)), node.in(0).shape)};
}

std::vector<Inferred> InferDequantize(NodeView& node) { return {Known(node.in(1).type, node.in(0).shape)}; }

std::vector<Inferred> InferDynamicQuantize(NodeView& node) {
  return {Known(TensorProto::UINT8, node.in(0).shape), Known(TensorProto::FLOAT, {}), Known(TensorProto::UINT8, {})};
}

OpRule Unary(std::string_view kernel, FoldFunction fold = nullptr) {
  return {.infer = InferUnary, .cost = CostElementwise, .kernel = kernel, .fold = fold};
}

OpRule Binary(std::string_view kernel, FoldFunction fold = nullptr) {
  return {.infer = InferBroadcast, .cost = CostElementwise, .kernel = kernel, .fold = fold, .min_inputs = 2};
}

// Any number of inputs.
OpRule Variadic(std::string_view kernel, FoldFunction fold = nullptr) {
  return {.infer = InferBroadcast, .cost = CostElementwise, .kernel = kernel, .fold = fold};
}

OpRule Predicate(std::string_view kernel, FoldFunction fold) {
  return {.infer = InferPredicate, .cost = CostElementwise, .kernel = kernel, .fold = fold, .min_inputs = 2};
}

}  // namespace

// Operators that core/ops/vector has no name for take that of one with a like
// number of operations an element.
void AddElementwiseOps(OpTable& table) {
  table.insert({
      {"Abs", Unary("abs", FoldAbs)},
      {"Acos", Unary("cos")},
      {"Acosh", Unary("log")},
      {"Asin", Unary("sin")},
      {"Asinh", Unary("log")},
      {"Atan", Unary("sin")},
      {"Atanh", Unary("log")},
      {"BitwiseNot", Unary("logical")},
      {"Ceil", Unary("abs", FoldCeil)},
      {"Celu", Unary("exp")},
      {"Clip", {.infer = InferClip, .cost = CostElementwise, .kernel = "clip"}},
      {"Cos", Unary("cos")},
      {"Cosh", Unary("exp")},
      {"Elu", Unary("exp")},
      {"Erf", Unary("erf")},
      {"Exp", Unary("exp")},
      {"Floor", Unary("abs", FoldFloor)},
      {"Gelu", Unary("gelu")},
      {"HardSigmoid", Unary("hardsigmoid")},
      {"HardSwish", Unary("hardswish")},
      {"LeakyRelu", Unary("relu")},
      {"Log", Unary("log")},
      {"Mish", Unary("silu")},
      {"Neg", Unary("neg", FoldNeg)},
      {"Not", Unary("logical", FoldNot)},
      {"PRelu", Unary("relu")},
      {"QuickGelu", Unary("silu")},
      {"Reciprocal", Unary("reciprocal", FoldReciprocal)},
      {"Relu", Unary("relu")},
      {"Round", Unary("abs", FoldRound)},
      {"Selu", Unary("exp")},
      {"Shrink", Unary("clip")},
      {"Sigmoid", Unary("sigmoid")},
      {"Sign", Unary("abs")},
      {"Sin", Unary("sin")},
      {"Sinh", Unary("exp")},
      {"Softplus", Unary("exp")},
      {"Softsign", Unary("div")},
      {"Sqrt", Unary("sqrt", FoldSqrt)},
      {"Swish", Unary("silu")},
      {"Tan", Unary("sin")},
      {"Tanh", Unary("tanh")},
      {"ThresholdedRelu", Unary("relu")},

      {"Add", Binary("add", FoldAdd)},
      {"BiasGelu", Binary("gelu")},
      {"BitShift", Binary("logical")},
      {"BitwiseAnd", Binary("logical")},
      {"BitwiseOr", Binary("logical")},
      {"BitwiseXor", Binary("logical")},
      {"Div", Binary("div", FoldDiv)},
      {"Mod", Binary("mod", FoldMod)},
      {"Mul", Binary("mul", FoldMul)},
      {"Pow", Binary("pow", FoldPow)},
      {"Sub", Binary("sub", FoldSub)},

      {"FastGelu", Variadic("gelu")},  // with an optional bias
      {"Max", Variadic("max", FoldMax)},
      {"Mean", Variadic("add")},
      {"Min", Variadic("min", FoldMin)},
      {"Sum", Variadic("add")},

      {"And", Predicate("logical", FoldAnd)},
      {"Equal", Predicate("compare", FoldEqual)},
      {"Greater", Predicate("compare", FoldGreater)},
      {"GreaterOrEqual", Predicate("compare", FoldGreaterOrEqual)},
      {"Less", Predicate("compare", FoldLess)},
      {"LessOrEqual", Predicate("compare", FoldLessOrEqual)},
      {"Or", Predicate("logical", FoldOr)},
      {"Xor", Predicate("logical", nullptr)},
      {"IsInf", {.infer = InferIsNan, .cost = CostElementwise, .kernel = "compare"}},
      {"IsNaN", {.infer = InferIsNan, .cost = CostElementwise, .kernel = "compare"}},
      {"Where", {.infer = InferWhere, .cost = CostElementwise, .kernel = "where", .fold = FoldWhere, .min_inputs = 3}},

      {"Cast", {.infer = InferCast, .cost = CostCast, .kernel = "cast"}},
      {"CastLike", {.infer = InferCastLike, .cost = CostCast, .kernel = "cast", .min_inputs = 2}},
      {"DequantizeLinear", {.infer = InferDequantize, .cost = CostElementwise, .kernel = "cast", .min_inputs = 2}},
      {"DynamicQuantizeLinear", {.infer = InferDynamicQuantize, .cost = CostElementwise, .kernel = "cast"}},
      {"QLinearAdd", {.infer = InferQuantisedBinary, .cost = CostElementwise, .kernel = "add", .min_inputs = 4}},
      {"QLinearLeakyRelu", Unary("relu")},
      {"QLinearMul", {.infer = InferQuantisedBinary, .cost = CostElementwise, .kernel = "mul", .min_inputs = 4}},
      {"QLinearSigmoid", Unary("sigmoid")},
      {"QuantizeLinear", {.infer = InferQuantize, .cost = CostElementwise, .kernel = "cast", .min_inputs = 2}},
  });
}

}  // namespace gpueta::onnx_import
