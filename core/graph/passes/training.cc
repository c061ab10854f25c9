#include "core/graph/passes/training.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

// Full tensors that the gradient of a vector operator reads, a kernel each.
struct Pass {
  std::string_view op;
  std::int64_t operands;
};

std::vector<Pass> BackwardOf(const Vector& vector) {
  const std::string_view op = vector.op;
  const bool two = vector.operands > 1;
  if (op == "batchnorm") return {{"batchnorm", 2}};
  if (op == "layernorm" || op == "rmsnorm" || op == "groupnorm") return {{"mul", 2}, {"add", 1}};
  if (op == "add" || op == "sub") return {};  // both inputs take the gradient as it is
  if (op == "mul" || op == "div")
    return two ? std::vector<Pass>{{"mul", 2}, {"mul", 2}} : std::vector<Pass>{{"mul", 1}};
  if (op == "silu_mul") return {{"mul", 2}, {"mul", 2}};
  if (op == "pow") return {{"pow", 1}, {"mul", 1}, {"mul", 2}};
  for (const std::string_view linear : {"copy", "cast", "neg", "rope", "dropout", "embedding", "reduce"}) {
    if (op == linear) return {{"mul", 1}};
  }
  return {{"mul", 2}};  // softmax, activations, masks: gradient and one saved tensor
}

struct Extent {
  SymInt rows;
  SymInt cols;
};

std::optional<Extent> OutputOf(const GraphNode& node) {
  switch (node.kernel.op()) {
    case Op::kGemm: return Extent{DimOf(node, "batch") * DimOf(node, "m"), DimOf(node, "n")};
    case Op::kVector: return Extent{DimOf(node, "rows"), DimOf(node, "cols")};
    default: return std::nullopt;
  }
}

// Of the one tensor it reads; nullopt where that is not known.
std::optional<SymInt> ElementsRead(const GraphNode& node) {
  if (node.kernel.op() == Op::kGemm) return DimOf(node, "batch") * DimOf(node, "m") * DimOf(node, "k");
  if (node.kernel.op() == Op::kVector) return DimOf(node, "rows") * DimOf(node, "cols");
  return std::nullopt;
}

class Backward {
 public:
  explicit Backward(Graph& graph) : graph_(graph) {}

  // `readers`: the nodes that read the forward node's output.
  void Add(const GraphNode& forward, const std::vector<const GraphNode*>& readers) {
    saved_ = forward.inputs;
    Join(forward, readers);
    switch (forward.kernel.op()) {
      case Op::kGemm: Product(forward); break;
      case Op::kConv2d:
        // A model's input needs no gradient.
        if (!forward.inputs.empty()) Repeat(forward, "input_gradient");
        Repeat(forward, "weight_gradient");
        break;
      case Op::kAttention: Attention(forward); break;
      case Op::kMoe:
        Repeat(forward, "input_gradient");
        Repeat(forward, "weight_gradient");
        break;
      case Op::kVector: Passes(forward); break;
      case Op::kCollective: Repeat(forward, "backward"); break;
      case Op::kCustom:
        Repeat(forward, "backward");
        Repeat(forward, "backward");
        break;
    }
  }

 private:
  // A gradient kernel reads the gradient so far and what the forward kernel
  // read, which stays in memory until then.
  void Append(GraphNode node) {
    node.inputs = saved_;
    const int gradient = static_cast<int>(graph_.nodes.size()) - 1;
    if (std::find(saved_.begin(), saved_.end(), gradient) == saved_.end()) node.inputs.push_back(gradient);
    node.parameters = 0;
    graph_.nodes.push_back(std::move(node));
  }

  // Gradients that come back from several readers add up; those of parts of the
  // output are put side by side.
  void Join(const GraphNode& forward, const std::vector<const GraphNode*>& readers) {
    const std::optional<Extent> output = OutputOf(forward);
    if (!output.has_value() || readers.size() < 2) return;
    std::size_t whole = 0;
    for (const GraphNode* reader : readers) {
      const std::optional<SymInt> read = ElementsRead(*reader);
      if (!read.has_value() || IsKnownNonNegative(*read - output->rows * output->cols)) ++whole;
    }
    if (whole < readers.size()) Append(VectorLike(forward, "join_gradients", "copy", output->rows, output->cols, 1));
    for (std::size_t i = 1; i < whole; ++i) {
      Append(VectorLike(forward, "add_gradients", "add", output->rows, output->cols, 2));
    }
  }

  void Repeat(GraphNode node, std::string_view name) {
    node.kernel.name += std::string(".") += name;
    Append(std::move(node));
  }

  void Product(const GraphNode& forward) {
    const SymInt m = DimOf(forward, "m");
    const SymInt n = DimOf(forward, "n");
    const SymInt k = DimOf(forward, "k");
    const auto with = [&](const SymInt& a, const SymInt& b, const SymInt& c, Split split) {
      GraphNode node = forward;
      SetDimOf(node, "m", a);
      SetDimOf(node, "n", b);
      SetDimOf(node, "k", c);
      node.split = split;
      return node;
    };
    Repeat(with(m, k, n, forward.split), "input_gradient");
    Repeat(with(k, n, m, forward.split), "weight_gradient");
    const bool has_bias = SymInt(forward.parameters) == n * k + n;
    if (has_bias) Append(VectorLike(forward, "bias_gradient", "reduce", n, m, 1));
  }

  void Attention(const GraphNode& forward) {
    Repeat(forward, "backward");
    Repeat(forward, "backward");
    GraphNode half = forward;
    const SymInt heads = DimOf(forward, "heads");
    const SymInt kv_heads = DimOf(forward, "kv_heads");
    const std::int64_t fewer = heads.constant().value_or(1) / 2;
    const std::int64_t fewer_kv = std::max<std::int64_t>(kv_heads.constant().value_or(1) / 2, 1);
    if (fewer > 0 && fewer % fewer_kv == 0) {
      SetDimOf(half, "heads", fewer);
      SetDimOf(half, "kv_heads", fewer_kv);
    }
    Repeat(std::move(half), "backward");
  }

  void Passes(const GraphNode& forward) {
    const SymInt rows = DimOf(forward, "rows");
    const SymInt cols = DimOf(forward, "cols");
    const auto& vector = std::get<Vector>(forward.kernel.work);
    for (const Pass& pass : BackwardOf(vector)) {
      Append(VectorLike(forward, "backward", pass.op, rows, cols, pass.operands));
    }
    if (vector.op == "embedding" && forward.parameters > 0 && cols.constant().value_or(0) > 0) {
      // The table's gradient is dense: cleared, then written where tokens were.
      Append(VectorLike(forward, "clear_gradient", "copy", forward.parameters / *cols.constant(), cols, 1));
    }
  }

  Graph& graph_;
  std::vector<int> saved_;
};

}  // namespace

void AddBackward(Graph& graph) {
  const std::vector<GraphNode> forward = graph.nodes;
  Backward backward(graph);
  std::vector<std::vector<const GraphNode*>> readers(forward.size());
  for (const GraphNode& node : forward) {
    for (const int input : node.inputs) readers[static_cast<std::size_t>(input)].push_back(&node);
  }
  for (std::size_t i = forward.size(); i-- > 0;) {
    if (forward[i].costing != Costing::kFree) backward.Add(forward[i], readers[i]);
  }
  graph.parameter_bytes *= 2;  // gradients
}

void AccumulateGradients(Graph& graph) {
  const std::size_t forward = graph.nodes.size();
  for (std::size_t i = 0; i < forward; ++i) {
    const GraphNode node = graph.nodes[i];
    if (node.parameters <= 0 || node.costing == Costing::kFree) continue;
    // Norms have a scale and a shift of the same size.
    const bool norm = node.kernel.op() == Op::kVector && node.parameters > 1;
    const std::int64_t tensors = norm ? 2 : 1;
    for (std::int64_t t = 0; t < tensors; ++t) {
      const std::int64_t elements = (node.parameters + tensors - 1) / tensors;
      for (const bool clear : {true, false}) {
        GraphNode pass = VectorLike(node, clear ? "clear" : "accumulate",
                                    clear ? "clear_gradient" : "accumulate_gradient", 1, elements, clear ? 1 : 2);
        pass.inputs = {static_cast<int>(graph.nodes.size()) - 1};
        graph.nodes.push_back(std::move(pass));
      }
    }
  }
}

std::optional<Optimiser> ParseOptimiser(std::string_view name) {
  if (name == "none") return Optimiser::kNone;
  if (name == "sgd") return Optimiser::kSgd;
  if (name == "adam") return Optimiser::kAdam;
  if (name == "adamw") return Optimiser::kAdamW;
  return std::nullopt;
}

void AddOptimiserStep(Graph& graph, Optimiser optimiser) {
  if (optimiser == Optimiser::kNone || graph.parameters == 0) return;
  constexpr std::int64_t kColumns = 1024;
  // Tensors read and written besides one: SGD p, g → p; Adam p, g, m, v → p, m, v.
  const std::int64_t operands = optimiser == Optimiser::kSgd ? 2 : 6;
  GraphNode step;
  step.kernel.name = "optimiser";
  step.kernel.dtype = DType::kFp32;
  step.kernel.work = Vector{.op = optimiser == Optimiser::kSgd ? "add" : "adam"};
  step.source_op = "Optimiser";
  SetDimOf(step, "rows", (graph.parameters + kColumns - 1) / kColumns);
  SetDimOf(step, "cols", kColumns);
  SetDimOf(step, "operands", operands);
  if (!graph.nodes.empty()) step.inputs = {static_cast<int>(graph.nodes.size()) - 1};
  graph.nodes.push_back(std::move(step));
  constexpr std::int64_t kStateBytes = 2 * 4;  // two moments in fp32
  if (optimiser != Optimiser::kSgd) graph.parameter_bytes += kStateBytes * graph.parameters;
}

}  // namespace gpueta
