#include "core/graph/passes/training.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/passes/autocast.h"
#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

constexpr std::string_view kInputGradient = "input_gradient";
constexpr std::string_view kWeightGradient = "weight_gradient";
constexpr std::string_view kGradients = "backward";

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
  if (op == "cast") return {{"cast", vector.operands}};
  for (const std::string_view linear : {"copy", "neg", "rope", "dropout", "embedding", "reduce"}) {
    if (op == linear) return {{"mul", 1}};
  }
  return {{"mul", 2}};  // softmax, activations, masks: gradient and one saved tensor
}

// Of what is a matrix of its own.
std::optional<Extent> OutputOf(const GraphNode& node) {
  const Op op = node.kernel.op();
  return op == Op::kGemm || op == Op::kVector ? OutputExtent(node) : std::nullopt;
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
  void Add(GraphNode forward, const std::vector<const GraphNode*>& readers) {
    const std::int64_t parameters = forward.parameters;
    // A gradient comes back from the stage that the output was sent to.
    if (IsSend(forward)) ++forward.stage;
    AddKernels(forward, readers);
    // Where nothing runs of its own, the gradient is complete with the next kernel.
    gradients_ += parameters;
    if (graph_.nodes.back().turn == Turn::kBackward) graph_.nodes.back().gradients += std::exchange(gradients_, 0);
  }

 private:
  void AddKernels(const GraphNode& forward, const std::vector<const GraphNode*>& readers) {
    saved_ = forward.inputs;
    Join(forward, readers);
    switch (forward.kernel.op()) {
      case Op::kGemm: Product(forward); break;
      case Op::kConv2d:
        // A model's input needs no gradient.
        if (ReadsActivations(forward)) Repeat(forward, kInputGradient);
        Repeat(forward, kWeightGradient);
        break;
      case Op::kAttention: Attention(forward); break;
      case Op::kMoe:
        Repeat(forward, kInputGradient);
        Repeat(forward, kWeightGradient);
        break;
      case Op::kVector: Passes(forward); break;
      case Op::kCollective:
        saved_.clear();  // only gradients pass
        Repeat(forward, kGradients);
        break;
      case Op::kCustom:
        Repeat(forward, kGradients);
        Repeat(forward, kGradients);
        break;
    }
  }

  // Casts of the model's input and of parameters read no node.
  bool ReadsActivations(const GraphNode& node) const {
    return std::ranges::any_of(node.inputs, [this](int input) {
      const GraphNode& read = graph_.nodes[static_cast<std::size_t>(input)];
      return !read.inputs.empty() || (read.source_op != kAutocastOp && read.source_op != kParameterCastOp);
    });
  }

  static bool IsSend(const GraphNode& node) {
    const auto* collective = std::get_if<Collective>(&node.kernel.work);
    return collective != nullptr && collective->op == "send_recv";
  }

  // A gradient kernel reads the gradient so far and what the forward kernel
  // read, which stays in memory until then.
  void Append(GraphNode node) {
    node.inputs = saved_;
    const int gradient = static_cast<int>(graph_.nodes.size()) - 1;
    if (std::find(saved_.begin(), saved_.end(), gradient) == saved_.end()) node.inputs.push_back(gradient);
    node.parameters = 0;
    node.turn = Turn::kBackward;
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
    Repeat(with(m, k, n, forward.split), kInputGradient);
    Repeat(with(k, n, m, forward.split), kWeightGradient);
    if (HasBias(forward)) Append(VectorLike(forward, "bias_gradient", "reduce", n, m, 1));
  }

  void Attention(const GraphNode& forward) {
    Repeat(forward, kGradients);
    Repeat(forward, kGradients);
    GraphNode half = forward;
    const SymInt heads = DimOf(forward, "heads");
    const SymInt kv_heads = DimOf(forward, "kv_heads");
    const std::int64_t fewer = heads.constant().value_or(1) / 2;
    const std::int64_t fewer_kv = std::max<std::int64_t>(kv_heads.constant().value_or(1) / 2, 1);
    if (fewer > 0 && fewer % fewer_kv == 0) {
      SetDimOf(half, "heads", fewer);
      SetDimOf(half, "kv_heads", fewer_kv);
    }
    Repeat(std::move(half), kGradients);
  }

  void Passes(const GraphNode& forward) {
    const SymInt rows = DimOf(forward, "rows");
    const SymInt cols = DimOf(forward, "cols");
    const auto& vector = std::get<Vector>(forward.kernel.work);
    if (forward.source_op == kAutocastOp && forward.inputs.empty()) return;  // of the model's input
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
  std::int64_t gradients_ = 0;
};

}  // namespace

Gradient GradientOf(const Graph& graph, std::size_t node) {
  const GraphNode& at = graph.nodes[node];
  const Op op = at.kernel.op();
  if (at.turn != Turn::kBackward || op == Op::kGemm || op == Op::kVector || op == Op::kCollective)
    return Gradient::kNone;
  const auto is = [&at](std::string_view gradient) { return at.kernel.name.ends_with("." + std::string(gradient)); };
  if (is(kInputGradient)) return Gradient::kInput;
  if (is(kWeightGradient)) return Gradient::kWeights;
  if (!is(kGradients)) return Gradient::kNone;
  // Those of one forward kernel follow each other.
  const bool follows = node > 0 && graph.nodes[node - 1].turn == Turn::kBackward &&
                       graph.nodes[node - 1].kernel.op() == op && graph.nodes[node - 1].kernel.name == at.kernel.name;
  return follows ? Gradient::kPart : Gradient::kAll;
}

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
  graph.gradient_bytes = graph.parameter_bytes;
}

absl::Status RecomputeLayers(Graph& graph) {
  const auto in_layer = [](const GraphNode& node) { return node.layer >= 0 && node.turn == Turn::kForward; };
  if (std::ranges::none_of(graph.nodes, in_layer))
    return InvalidArgument("--recompute: no kernel says which layer it is of");
  // A stack starts over at layer 0: layers are told apart by their runs of nodes.
  std::vector<int> run_of(graph.nodes.size(), -1);
  std::vector<std::vector<std::size_t>> runs;
  const GraphNode* before = nullptr;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.turn != Turn::kForward) continue;
    if (in_layer(node)) {
      if (before == nullptr || before->layer != node.layer) runs.emplace_back();
      run_of[i] = static_cast<int>(runs.size()) - 1;
      runs.back().push_back(i);
    }
    before = &node;
  }
  Rewriter rewriter(graph);
  std::vector<int> again(rewriter.size(), -1);  // new index of a forward node's second run
  std::vector<char> has_run(runs.size());
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    const GraphNode& node = rewriter.old(i);
    if (node.turn != Turn::kBackward) {
      rewriter.Keep(i);
      continue;
    }
    for (const int input : node.inputs) {
      const int run = run_of[static_cast<std::size_t>(input)];
      // What the gradient of a later layer reads of this one is that layer's input.
      if (run < 0 || has_run[static_cast<std::size_t>(run)] != 0 ||
          node.layer != rewriter.old(runs[static_cast<std::size_t>(run)].front()).layer)
        continue;
      has_run[static_cast<std::size_t>(run)] = 1;
      for (const std::size_t forward : runs[static_cast<std::size_t>(run)]) {
        GraphNode repeated = rewriter.old(forward);
        repeated.kernel.name += ".again";
        repeated.turn = Turn::kBackward;
        repeated.parameters = 0;
        for (int& read : repeated.inputs) {
          const auto at = static_cast<std::size_t>(read);
          read = again[at] >= 0 ? again[at] : rewriter.Now(at);
        }
        again[forward] = rewriter.Append(std::move(repeated));
      }
    }
    const int now = rewriter.Keep(i);
    for (const int input : node.inputs) {
      const auto at = static_cast<std::size_t>(input);
      if (again[at] >= 0 && rewriter.old(at).layer == node.layer)
        rewriter.ReplaceInput(now, rewriter.Now(at), again[at]);
    }
  }
  rewriter.Finish();
  return absl::OkStatus();
}

void AccumulateGradients(Graph& graph) {
  // Forward nodes in the order in which their gradients are complete.
  std::vector<GraphNode> reading;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const GraphNode& node = graph.nodes[i];
    if (node.parameters > 0 && node.costing != Costing::kFree) reading.push_back(node);
  }
  // Norms have a scale and a shift of the same size.
  const auto tensors_of = [](const GraphNode& node) {
    return node.kernel.op() == Op::kVector && node.parameters > 1 ? 2 : 1;
  };
  constexpr std::int64_t kWideBytes = 4;
  const auto pass_over = [&](const GraphNode& node, bool clear) {
    const std::int64_t elements = (node.parameters + tensors_of(node) - 1) / tensors_of(node);
    GraphNode pass = VectorLike(node, clear ? "clear" : "accumulate", clear ? "clear_gradient" : "accumulate_gradient",
                                1, elements, clear ? 1 : 2);
    // As the parameters themselves are, whatever type their kernel runs in.
    if (graph.parameter_bytes >= kWideBytes * graph.parameters && BitsOf(pass.kernel.dtype).weight < 8 * kWideBytes)
      pass.kernel.dtype = DType::kFp32;
    pass.turn = clear ? Turn::kStep : Turn::kBackward;
    return pass;
  };
  Rewriter rewriter(graph);
  int last = -1;
  std::size_t done = 0;
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    GraphNode node = rewriter.old(i);
    const std::int64_t gradients = std::exchange(node.gradients, 0);
    last = rewriter.Keep(i, std::move(node));
    for (std::int64_t added = 0; added < gradients && done < reading.size(); ++done) {
      added += reading[done].parameters;
      for (int t = 0; t < tensors_of(reading[done]); ++t) {
        GraphNode pass = pass_over(reading[done], false);
        pass.inputs = {last};
        if (t == 0) pass.gradients = reading[done].parameters;
        last = rewriter.Append(std::move(pass));
      }
    }
  }
  for (const GraphNode& node : reading) {
    for (int t = 0; t < tensors_of(node); ++t) {
      GraphNode pass = pass_over(node, true);
      pass.inputs = {last};
      last = rewriter.Append(std::move(pass));
    }
  }
  rewriter.Finish();
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
  step.source_op = kOptimiserOp;
  step.turn = Turn::kStep;
  SetDimOf(step, "rows", (graph.parameters + kColumns - 1) / kColumns);
  SetDimOf(step, "cols", kColumns);
  SetDimOf(step, "operands", operands);
  const int stages = StagesOf(graph);
  for (step.stage = 0; step.stage < stages; ++step.stage) {
    step.inputs.clear();
    for (std::size_t i = graph.nodes.size(); i-- > 0 && step.inputs.empty();) {
      if (graph.nodes[i].stage == step.stage) step.inputs = {static_cast<int>(i)};
    }
    graph.nodes.push_back(step);
  }
  constexpr std::int64_t kMoments = 2 * 4;  // in fp32
  constexpr std::int64_t kMaster = 4;       // a copy of 16-bit parameters in fp32
  std::int64_t each = optimiser == Optimiser::kSgd ? 0 : kMoments;
  if (graph.parameter_bytes < kMaster * graph.parameters) each += kMaster;
  graph.optimiser_bytes = each * graph.parameters;
}

}  // namespace gpueta
