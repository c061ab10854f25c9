#include "core/graph/passes/autocast.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

bool IsLow(DType dtype) { return dtype == DType::kFp16 || dtype == DType::kBf16; }
bool IsWide(DType dtype) { return dtype == DType::kFp32 || dtype == DType::kTf32; }
// fp64, integers and types of weights alone are not autocast's business.
bool IsEligible(DType dtype) { return IsLow(dtype) || IsWide(dtype); }

enum class Policy : std::uint8_t { kLow, kWide, kWidest };

constexpr std::array<std::string_view, 9> kWideOps = {"softmax", "layernorm", "rmsnorm", "groupnorm", "pow",
                                                      "exp",     "log",       "cumsum",  "reciprocal"};
// By the model's own name: sums among reductions, which are not means…
constexpr std::array<std::string_view, 9> kWideSources = {"ReduceSum",       "ReduceSumSquare", "ReduceProd",
                                                          "ReduceL1",        "ReduceL2",        "ReduceLogSum",
                                                          "ReduceLogSumExp", "aten::sum",       "aten::norm"};
// … and operators that cost as an exponential and are none.
constexpr std::array<std::string_view, 3> kOtherSources = {"Elu", "Celu", "Selu"};

// Operators whose parameters take part in choosing the type: norms have theirs in
// fp32 whatever they read, limits of a clip are numbers.
constexpr std::array<std::string_view, 4> kArithmetic = {"add", "sub", "mul", "div"};

template <class List>
bool Has(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

Policy PolicyOf(const GraphNode& node) {
  switch (node.kernel.op()) {
    case Op::kGemm:
    case Op::kConv2d:
    case Op::kAttention:
    case Op::kMoe: return Policy::kLow;
    case Op::kVector: break;
    case Op::kCollective:
    case Op::kCustom: return Policy::kWidest;
  }
  if (node.source_op == "PRelu" || node.source_op == "aten::prelu") return Policy::kLow;
  const std::string_view op = std::get<Vector>(node.kernel.work).op;
  const bool wide = Has(kWideOps, op) ? !Has(kOtherSources, node.source_op) : Has(kWideSources, node.source_op);
  return wide ? Policy::kWide : Policy::kWidest;
}

// Elements of parameters that a product reads besides a folded batch norm's:
// weights, then bias.
struct Parameters {
  SymInt weights = 0;
  std::int64_t bias = 0;
};
Parameters ParametersOf(const GraphNode& node) {
  const std::int64_t all = node.parameters;
  if (const auto* gemm = std::get_if<Gemm>(&node.kernel.work); gemm != nullptr) {
    const SymInt weights = DimOf(node, "k") * DimOf(node, "n");
    // Weights that another node has as well are not counted here.
    if (all == 0) return {gemm->layer == Gemm::Layer::kLinear ? weights : SymInt(0), 0};
    const std::int64_t bias = all - weights.constant().value_or(all);
    return bias > 0 && bias < all ? Parameters{all - bias, bias} : Parameters{all, 0};
  }
  if (const auto* conv = std::get_if<Conv2d>(&node.kernel.work); conv != nullptr && all > 0) {
    const std::int64_t weights = conv->out_channels * (conv->in_channels / std::max<std::int64_t>(conv->groups, 1)) *
                                 conv->kernel_h * conv->kernel_w;
    if (weights <= 0 || weights >= all) return {all, 0};
    return {weights, node.folded == Folded::kBatchNorm ? 0 : all - weights};
  }
  return {all, 0};
}

// What comes out, where that is known; the elements are rows·cols.
std::optional<Extent> Written(const GraphNode& node) {
  std::optional<Extent> out = OutputExtent(node);
  if (const auto* vector = std::get_if<Vector>(&node.kernel.work); vector != nullptr && out.has_value()) {
    if (node.costing != Costing::kFree && InfoOf(vector->op).one_result_per_row) out->cols = 1;
  }
  const auto empty = [](const SymInt& size) { return size.constant().value_or(1) < 1; };
  if (out.has_value() && (empty(out->rows) || empty(out->cols))) return std::nullopt;
  return out;
}

// What a product without inputs in the graph reads of the model's input.
std::optional<Extent> ReadOfInput(const GraphNode& node) {
  if (node.kernel.op() == Op::kGemm) return Extent{DimOf(node, "batch") * DimOf(node, "m"), DimOf(node, "k")};
  if (node.kernel.op() != Op::kConv2d) return std::nullopt;
  return Extent{DimOf(node, "batch") * DimOf(node, "in_channels") * DimOf(node, "height"), DimOf(node, "width")};
}

class Casting {
 public:
  Casting(Graph& graph, DType low) : rewriter_(graph), low_(low), written_(rewriter_.size()) {}

  void Run() {
    for (std::size_t i = 0; i < rewriter_.size(); ++i) Add(i);
    rewriter_.Finish();
  }

 private:
  void Add(std::size_t i) {
    GraphNode node = rewriter_.old(i);
    if (!IsEligible(node.kernel.dtype)) {
      // Types of weights alone leave activations in 16 bits.
      written_[i] = BitsOf(node.kernel.dtype).output == 16 ? low_ : node.kernel.dtype;
      rewriter_.Keep(i);
      return;
    }
    const bool runs = node.costing != Costing::kFree;
    const Policy policy = runs ? PolicyOf(node) : Policy::kWidest;
    const DType wide = IsWide(node.kernel.dtype) ? node.kernel.dtype : DType::kFp32;
    const DType type = policy == Policy::kLow ? low_ : policy == Policy::kWide ? wide : WidestOf(node, wide);
    written_[i] = type;
    std::vector<std::pair<int, int>> casts;  // old input, its cast
    std::vector<int> more;                   // casts of what is no node
    if (policy != Policy::kWidest) CastInputs(node, type, casts);
    if (runs && type == low_ && IsWide(node.kernel.dtype)) CastParameters(node, policy, more);
    SetType(node, type);
    const int now = rewriter_.Keep(i, std::move(node));
    for (const auto& [input, cast] : casts)
      rewriter_.ReplaceInput(now, rewriter_.Now(static_cast<std::size_t>(input)), cast);
    for (const int cast : more) rewriter_.AddInput(now, cast);
  }

  // Of an operator that takes what comes; `wide` its own type where that is wide.
  DType WidestOf(const GraphNode& node, DType wide) const {
    bool reads_low = false;
    for (const int input : node.inputs) {
      const DType type = written_[static_cast<std::size_t>(input)];
      if (IsWide(type)) return wide;
      reads_low = reads_low || IsLow(type);
    }
    if (!reads_low) return node.kernel.dtype;
    const auto* vector = std::get_if<Vector>(&node.kernel.work);
    // One element is a number: it has no say.
    const bool promotes =
        node.parameters > 1 && IsWide(node.kernel.dtype) && vector != nullptr && Has(kArithmetic, vector->op);
    return promotes && !IsBiasOfProduct(node) ? wide : low_;
  }

  bool IsBiasOfProduct(const GraphNode& node) const {
    const auto* vector = std::get_if<Vector>(&node.kernel.work);
    if (vector == nullptr || vector->op != "add" || node.inputs.size() != 1) return false;
    const GraphNode& product = rewriter_.old(static_cast<std::size_t>(node.inputs[0]));
    const char* width = product.kernel.op() == Op::kGemm     ? "n"
                        : product.kernel.op() == Op::kConv2d ? "out_channels"
                                                             : nullptr;
    return width != nullptr && DimOf(product, width) == SymInt(node.parameters);
  }

  void CastInputs(const GraphNode& node, DType type, std::vector<std::pair<int, int>>& casts) {
    for (const int input : node.inputs) {
      const auto at = static_cast<std::size_t>(input);
      if (!IsEligible(written_[at]) || IsLow(written_[at]) == IsLow(type)) continue;
      const std::optional<Extent> extent = Written(rewriter_.old(at));
      if (!extent.has_value()) continue;
      GraphNode cast = CastFor(node, type, *extent, kAutocastOp);
      cast.inputs = {rewriter_.Now(at)};
      casts.emplace_back(input, rewriter_.Append(std::move(cast)));
    }
  }

  void CastParameters(const GraphNode& node, Policy policy, std::vector<int>& casts) {
    const auto add = [&](const SymInt& rows, const SymInt& cols, std::string_view op) {
      if (rows.constant().value_or(1) > 0 && cols.constant().value_or(1) > 0)
        casts.push_back(rewriter_.Append(CastFor(node, low_, {rows, cols}, op)));
    };
    if (policy == Policy::kWidest) {
      if (IsBiasOfProduct(node)) add(1, node.parameters, kParameterCastOp);
      return;
    }
    const std::optional<Extent> input = node.inputs.empty() ? ReadOfInput(node) : std::nullopt;
    if (input.has_value()) add(input->rows, input->cols, kAutocastOp);
    const Parameters parameters = ParametersOf(node);
    add(1, parameters.weights, kParameterCastOp);
    add(1, parameters.bias, kParameterCastOp);
  }

  // Between the types 6 bytes an element move: as of two 16-bit operands.
  GraphNode CastFor(const GraphNode& reader, DType type, const Extent& extent, std::string_view source_op) const {
    GraphNode cast = VectorLike(reader, std::string("to_").append(Name(type)), "cast", extent.rows, extent.cols, 2);
    cast.kernel.dtype = low_;
    cast.source_op = source_op;
    return cast;
  }

  void SetType(GraphNode& node, DType type) const {
    if (node.kernel.op() == Op::kCustom) return;  // it is what it was measured as
    if (node.kernel.op() == Op::kCollective && IsLow(type) && IsWide(node.kernel.dtype))
      SetDimOf(node, "bytes", FloorDiv(DimOf(node, "bytes"), 2));
    node.kernel.dtype = type;
    auto* attention = std::get_if<Attention>(&node.kernel.work);
    if (attention != nullptr && IsEligible(attention->kv_dtype)) attention->kv_dtype = type;
  }

  Rewriter rewriter_;
  DType low_;
  std::vector<DType> written_;  // of each old node
};

}  // namespace

void Autocast(Graph& graph, DType low) { Casting(graph, low).Run(); }

}  // namespace gpueta
