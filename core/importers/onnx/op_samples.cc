#include "core/importers/onnx/op_samples.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <vector>

#include "core/importers/onnx/graph_builder.h"
#include "core/importers/onnx/op_rule.h"
#include "core/importers/onnx/testing_models.h"

namespace gpueta::onnx_import {
namespace {

struct OpSample {
  std::string inputs;
  std::string nodes;
  int opset = 17;
};

constexpr char kImage[] = "float[n,8,h,w] x";
constexpr char kTokens[] = "float[n,s,64] x";
constexpr char kBytes[] = "uint8[n,8,16,16] x, float sc, uint8 zp";

// Of the operators that do not simply take one or two tensors of a shape.
const std::map<std::string_view, OpSample>& Samples() {
  static const auto* const samples = new std::map<std::string_view, OpSample>{
      {"ArgMax", {kTokens, "y = ArgMax <axis = 2> (x)"}},
      {"ArgMin", {kTokens, "y = ArgMin <axis = 2> (x)"}},
      {"Attention",
       {"float[n,s,64] x, float[n,t,32] k, float[n,t,32] v",
        "y = Attention <q_num_heads = 4, kv_num_heads = 2> (x, k, v)"}},
      {"AveragePool", {kImage, "y = AveragePool <kernel_shape = [3,3], strides = [2,2]> (x)"}},
      {"BatchNormalization", {"float[n,8,h,w] x, float[8] wg", "y = BatchNormalization (x, wg, wg, wg, wg)"}},
      {"Cast", {kTokens, "y = Cast <to = 10> (x)"}},
      {"Compress", {"float[n,64] x, bool[n] c", "y = Compress <axis = 0> (x, c)"}},
      {"Concat", {kTokens, "y = Concat <axis = 1> (x, x)"}},
      {"Constant", {kTokens, "y = Constant <value_ints = [1,2]> ()"}},
      {"ConstantOfShape", {kTokens, "z = Shape (x) y = ConstantOfShape (z)"}},
      {"Conv", {"float[n,8,h,w] x, float[16,8,3,3] wk", "y = Conv <pads = [1,1,1,1]> (x, wk)"}},
      {"ConvInteger", {"uint8[n,8,h,w] x, uint8[16,8,3,3] wk", "y = ConvInteger (x, wk)"}},
      {"ConvTranspose", {"float[n,8,h,w] x, float[8,16,2,2] wk", "y = ConvTranspose <strides = [2,2]> (x, wk)"}},
      {"CumSum", {kTokens, "a = Constant <value_int = 1> () y = CumSum (x, a)"}},
      {"DepthToSpace", {kImage, "y = DepthToSpace <blocksize = 2> (x)"}},
      {"DequantizeLinear", {kBytes, "y = DequantizeLinear (x, sc, zp)"}},
      {"DynamicQuantizeMatMul", {"float[n,s,64] x, int8[64,32] wk, float ws", "y = DynamicQuantizeMatMul (x, wk, ws)"}},
      {"Einsum", {"float[n,s,64] x, float[n,t,64] z", "y = Einsum <equation = \"bik,bjk->bij\"> (x, z)"}},
      {"EmbedLayerNormalization",
       {"int32[n,s] x, int32[n,s] seg, float[100,64] wt, float[9,64] wp, float[2,64] ws, float[64] wg",
        "y, m = EmbedLayerNormalization (x, seg, wt, wp, ws, wg, wg)"}},
      {"Expand", {"float[n,1] x, float[n,64] z", "s = Shape (z) y = Expand (x, s)"}},
      {"FusedConv", {"float[n,8,h,w] x, float[16,8,3,3] wk", "y = FusedConv (x, wk)"}},
      {"FusedGemm", {"float[n,64] x, float[64,32] wk", "y = FusedGemm (x, wk)"}},
      {"FusedMatMul", {"float[n,s,64] x, float[32,64] wk", "y = FusedMatMul <transB = 1> (x, wk)"}},
      {"GRU", {"float[s,n,64] x, float[1,96,64] w, float[1,96,32] wr", "y = GRU <hidden_size = 32> (x, w, wr)"}},
      {"Gather", {"int64[n,s] x, float[100,64] wt", "y = Gather (wt, x)"}},
      {"GatherElements", {"float[n,64] x, int64[n,8] i", "y = GatherElements <axis = 1> (x, i)"}},
      {"GatherND", {"float[n,s,64] x, int64[m,2] i", "y = GatherND (x, i)"}},
      {"Gemm", {"float[n,64] x, float[64,32] wk", "y = Gemm (x, wk)"}},
      {"GlobalAveragePool", {kImage, "y = GlobalAveragePool (x)"}},
      {"GlobalLpPool", {kImage, "y = GlobalLpPool (x)"}},
      {"GlobalMaxPool", {kImage, "y = GlobalMaxPool (x)"}},
      {"GridSample", {"float[n,8,h,w] x, float[n,a,b,2] g", "y = GridSample (x, g)"}},
      {"GroupNorm", {kImage, "y = GroupNorm <groups = 4> (x)"}},
      {"GroupNormalization", {kImage, "y = GroupNormalization <num_groups = 4> (x)"}},
      {"GroupQueryAttention",
       {"float16[n,1,64] x, float16[n,1,32] k, float16[n,1,32] v, float16[n,2,p,16] pk, float16[n,2,p,16] pv",
        "y = GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (x, k, v, pk, pv)"}},
      {"InstanceNormalization", {kImage, "y = InstanceNormalization (x)"}},
      {"LRN", {kImage, "y = LRN <size = 5> (x)"}},
      {"LSTM", {"float[s,n,64] x, float[1,128,64] w, float[1,128,32] wr", "y = LSTM <hidden_size = 32> (x, w, wr)"}},
      {"LpPool", {kImage, "y = LpPool <kernel_shape = [3,3]> (x)"}},
      {"MatMul", {"float[n,s,64] x, float[64,32] wk", "y = MatMul (x, wk)"}},
      {"MatMulInteger", {"uint8[n,s,64] x, int8[64,32] wk", "y = MatMulInteger (x, wk)"}},
      {"MatMulIntegerToFloat",
       {"uint8[n,s,64] x, int8[64,32] wk, float sc", "y = MatMulIntegerToFloat (x, wk, sc, sc)"}},
      {"MatMulNBits", {"float16[n,s,64] x, uint8[32,2,16] wk", "y = MatMulNBits <N = 32, K = 64, bits = 4> (x, wk)"}},
      {"MaxPool", {kImage, "y = MaxPool <kernel_shape = [3,3], strides = [2,2]> (x)"}},
      {"MaxRoiPool", {"float[n,8,h,w] x, float[r,5] b", "y = MaxRoiPool <pooled_shape = [7,7]> (x, b)"}},
      {"MultiHeadAttention",
       {"float16[n,s,64] x, float16[n,t,64] k, float16[n,t,64] v", "y = MultiHeadAttention <num_heads = 4> (x, k, v)"}},
      {"NegativeLogLikelihoodLoss", {"float[n,10] x, int64[n] t", "y = NegativeLogLikelihoodLoss (x, t)"}},
      {"NonMaxSuppression",
       {"float[n,100,4] x, float[n,5,100] s", "m = Constant <value_ints = [10]> () y = NonMaxSuppression (x, s, m)"}},
      {"OneHot", {"int64[n] x, float[2] v", "d = Constant <value_int = 10> () y = OneHot (x, d, v)"}},
      {"PRelu", {"float[n,8,h,w] x, float[8,1,1] wg", "y = PRelu (x, wg)"}},
      {"Pad", {kImage, "p = Constant <value_ints = [0,0,1,1,0,0,1,1]> () y = Pad (x, p)"}},
      {"QAttention",
       {"uint8[n,s,64] x, uint8[64,192] w, float[192] wb, float sc",
        "y = QAttention <num_heads = 4> (x, w, wb, sc, sc)"}},
      {"QGemm", {"uint8[n,64] x, float sc, uint8 zp, uint8[64,32] wk", "y = QGemm (x, sc, zp, wk, sc, zp)"}},
      {"QLinearAdd", {kBytes, "y = QLinearAdd (x, sc, zp, x, sc, zp, sc, zp)"}},
      {"QLinearAveragePool", {kBytes, "y = QLinearAveragePool <kernel_shape = [2,2]> (x, sc, zp, sc, zp)"}},
      {"QLinearConcat", {kBytes, "y = QLinearConcat <axis = 1> (sc, zp, x, sc, zp, x, sc, zp)"}},
      {"QLinearConv",
       {"uint8[n,8,16,16] x, float sc, uint8 zp, uint8[16,8,3,3] wk",
        "y = QLinearConv (x, sc, zp, wk, sc, zp, sc, zp)"}},
      {"QLinearGlobalAveragePool", {kBytes, "y = QLinearGlobalAveragePool (x, sc, zp, sc, zp)"}},
      {"QLinearLeakyRelu", {kBytes, "y = QLinearLeakyRelu (x, sc, zp, sc, zp)"}},
      {"QLinearMatMul",
       {"uint8[n,64] x, float sc, uint8 zp, uint8[64,32] wk", "y = QLinearMatMul (x, sc, zp, wk, sc, zp, sc, zp)"}},
      {"QLinearMul", {kBytes, "y = QLinearMul (x, sc, zp, x, sc, zp, sc, zp)"}},
      {"QLinearSigmoid", {kBytes, "y = QLinearSigmoid (x, sc, zp, sc, zp)"}},
      {"QLinearSoftmax", {kBytes, "y = QLinearSoftmax (x, sc, zp, sc, zp)"}},
      {"QuantizeLinear", {"float[n,8,h,w] x, float sc, uint8 zp", "y = QuantizeLinear (x, sc, zp)"}},
      {"RNN", {"float[s,n,64] x, float[1,32,64] w, float[1,32,32] wr", "y = RNN <hidden_size = 32> (x, w, wr)"}},
      {"RandomNormal", {kTokens, "y = RandomNormal <shape = [8,64]> ()"}},
      {"RandomUniform", {kTokens, "y = RandomUniform <shape = [8,64]> ()"}},
      {"Range",
       {kTokens,
        "z = Shape <start = 1, end = 2> (x) l = Squeeze (z) o = Constant <value_int = 0> () i = Constant <value_int = "
        "1> () y = Range (o, l, i)"}},
      {"Reshape", {kTokens, "p = Constant <value_ints = [0,-1]> () y = Reshape (x, p)"}},
      {"Resize", {kImage, "k = Constant <value_floats = [1.0,1.0,2.0,2.0]> () y = Resize (x, , k)"}},
      {"RoiAlign",
       {"float[n,8,h,w] x, float[r,4] b, int64[r] i", "y = RoiAlign <output_height = 7, output_width = 7> (x, b, i)"}},
      {"RotaryEmbedding", {"float[n,s,64] x, int64[n,s] p, float[99,8] wc", "y = RotaryEmbedding (x, p, wc, wc)"}},
      {"Scatter", {"float[n,64] x, int64[n,8] i, float[n,8] u", "y = Scatter (x, i, u)"}},
      {"ScatterElements", {"float[n,64] x, int64[n,8] i, float[n,8] u", "y = ScatterElements (x, i, u)"}},
      {"ScatterND", {"float[n,64] x, int64[m,1] i, float[m,64] u", "y = ScatterND (x, i, u)"}},
      {"Slice",
       {kTokens,
        "o = Constant <value_ints = [0]> () e = Constant <value_ints = [8]> () a = Constant <value_ints = [2]> () "
        "y = Slice (x, o, e, a)"}},
      {"SoftmaxCrossEntropyLoss", {"float[n,10] x, int64[n] t", "y = SoftmaxCrossEntropyLoss (x, t)"}},
      {"SpaceToDepth", {kImage, "y = SpaceToDepth <blocksize = 2> (x)"}},
      {"Split", {kTokens, "a, y = Split <axis = 2> (x)"}},
      {"Squeeze", {"float[n,1,64] x", "a = Constant <value_ints = [1]> () y = Squeeze (x, a)"}},
      {"Tile", {kTokens, "r = Constant <value_ints = [1,2,1]> () y = Tile (x, r)"}},
      {"TopK", {kTokens, "k = Constant <value_ints = [5]> () y, i = TopK (x, k)"}},
      {"Transpose", {kTokens, "y = Transpose <perm = [0,2,1]> (x)"}},
      {"Unsqueeze", {kTokens, "a = Constant <value_ints = [1]> () y = Unsqueeze (x, a)"}},
      {"Upsample", {kImage, "k = Constant <value_floats = [1.0,1.0,2.0,2.0]> () y = Upsample (x, k)"}},
      {"Where", {"float[n,64] x, float[n,64] z, bool[n,64] c", "y = Where (c, x, z)"}},
  };
  return *samples;
}

OpSample SampleOf(std::string_view op, const OpRule& rule) {
  const auto found = Samples().find(op);
  if (found != Samples().end()) return found->second;
  if (rule.min_inputs < 2) return {kTokens, fmt::format("y = {} (x)", op)};
  return {"float[n,s,64] x, float[n,s,64] z", fmt::format("y = {} (x, z)", op)};
}

// The kernels of the sample, as lines of text.
std::vector<std::string> KernelsOfSample(std::string_view op, const OpSample& sample) {
  // A kernel of its own keeps the graph from being empty.
  const onnx::ModelProto model = ModelFromText(sample.inputs, sample.nodes + " end = Neg (x)", sample.opset);
  const absl::StatusOr<Graph> graph = BuildGraph(model, "sample");
  if (!graph.ok()) throw std::runtime_error(fmt::format("{}: {}", op, graph.status().ToString()));
  std::vector<std::string> kernels = NodeTexts(*graph);
  kernels.pop_back();
  return kernels;
}

}  // namespace

std::string OpDocument() {
  std::string text =
      "# How each ONNX operator is costed\n\n"
      "Written by `ninja update_onnx_ops` from the importer itself; a test compares. Each line shows a sample and the\n"
      "kernels it becomes, with their dims. `(free)`: a view, nothing runs. `(traffic)`: no kernel kind of its own; "
      "the\n"
      "bytes of its largest tensor at the device's bandwidth, with a warning. No kernel: known at import. Inputs "
      "whose\n"
      "name begins with `w` are weights.\n\n"
      "Local functions are walked where they are called. Of `If` the branch that the condition chooses is costed, or, "
      "if\n"
      "the condition is not known at import, the heavier one, with a warning. `Loop` and `Scan` are unrolled; where "
      "the\n"
      "number of iterations is not known, or their nodes are too many, one iteration is costed, with a warning. "
      "Operators\n"
      "that are not in this table, and those of other domains, cost the traffic of their largest tensor, with a "
      "warning;\n"
      "shapes that the file does not declare are then assumed. Of recurrent layers the batched product stands for the\n"
      "steps: their arithmetic and traffic are right, that they wait for one another is not counted.\n\n"
      "| operator | sample | kernels |\n| --- | --- | --- |\n";
  std::map<std::string_view, const OpRule*> sorted;
  for (const auto& [op, rule] : KnownOps()) sorted.emplace(op, &rule);
  for (const auto& [op, rule] : sorted) {
    const OpSample sample = SampleOf(op, *rule);
    const std::vector<std::string> kernels = KernelsOfSample(op, sample);
    text += fmt::format("| {} | `{}`: `{}` | {} |\n", op, sample.inputs, sample.nodes,
                        kernels.empty() ? "none" : fmt::format("`{}`", fmt::join(kernels, "`, `")));
  }
  return text;
}

}  // namespace gpueta::onnx_import
