#include "core/graph/passes/fusion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

bool Runs(const GraphNode& node) { return node.costing != Costing::kFree; }

const Vector* VectorOf(const GraphNode& node) { return Runs(node) ? std::get_if<Vector>(&node.kernel.work) : nullptr; }

bool IsElementwise(const GraphNode& node) {
  const Vector* vector = VectorOf(node);
  return vector != nullptr && !InfoOf(vector->op).row_wise && vector->op != "embedding" && vector->op != "pool";
}

SymInt Elements(const GraphNode& node) { return DimOf(node, "rows") * DimOf(node, "cols"); }

// Full-size tensors that a vector operator reads.
std::int64_t OperandsOf(const GraphNode& node) { return GetDim(node.kernel, *FindDim(Op::kVector, "operands")); }

// A run of nodes of `rewriter` that becomes one.
class Run {
 public:
  explicit Run(Rewriter& rewriter) : rewriter_(rewriter) {}

  bool Joins(std::size_t i) const {
    if (members_.empty()) return true;
    const GraphNode& node = rewriter_.old(i);
    const GraphNode& first = rewriter_.old(members_.front());
    if (node.turn != first.turn || node.stage != first.stage) return false;
    const std::vector<int>& inputs = node.inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](int input) { return IsMember(input) || IsRead(input, i); });
  }
  void Add(std::size_t i) { members_.push_back(i); }

  // Writes the run as one node.
  void Close() {
    if (members_.size() == 1) rewriter_.Keep(members_[0]);
    if (members_.size() > 1) CloseMany();
    members_.clear();
  }

 private:
  bool IsMember(int node) const {
    return std::find(members_.begin(), members_.end(), static_cast<std::size_t>(node)) != members_.end();
  }

  // Whether an elementwise member reads it, too, for as many elements as `i`.
  bool IsRead(int input, std::size_t i) const {
    const GraphNode& node = rewriter_.old(i);
    return IsElementwise(node) && std::any_of(members_.begin(), members_.end(), [&](std::size_t member) {
             const GraphNode& other = rewriter_.old(member);
             return IsElementwise(other) && Elements(other) == Elements(node) &&
                    std::find(other.inputs.begin(), other.inputs.end(), input) != other.inputs.end();
           });
  }

  // Tensors that the run reads: each once, whatever stays in the run not at all.
  std::int64_t Reads() const {
    std::set<int> seen;
    std::int64_t unlisted = 0;  // inputs of the graph and parameters, which are no nodes
    for (const std::size_t i : members_) {
      const GraphNode& node = rewriter_.old(i);
      const std::set<int> inputs(node.inputs.begin(), node.inputs.end());
      std::int64_t operands = OperandsOf(node);
      for (const int input : inputs) {
        if (operands == 0) break;
        if (IsSmaller(input, node)) continue;
        if (!IsMember(input)) seen.insert(input);
        --operands;
      }
      unlisted += operands;
    }
    return static_cast<std::int64_t>(seen.size()) + unlisted;
  }

  // A mask, a scale: known to have fewer elements than what is computed with it.
  bool IsSmaller(int input, const GraphNode& node) const {
    const std::optional<Extent> extent = OutputExtent(rewriter_.old(static_cast<std::size_t>(input)));
    return extent.has_value() && extent->rows * extent->cols != Elements(node) &&
           IsKnownNonNegative(Elements(node) - extent->rows * extent->cols);
  }

  // Tensors of the size of `of` that it writes: what is read outside of it, and
  // what nothing reads.
  std::int64_t Writes(const GraphNode& of) const {
    return std::ranges::count_if(members_, [&](std::size_t i) {
      const std::optional<Extent> extent = OutputExtent(rewriter_.old(i));
      if (extent.has_value() && extent->rows * extent->cols != Elements(of)) return false;
      std::int64_t inside = 0;
      for (const std::size_t reader : members_)
        inside += std::ranges::count(rewriter_.old(reader).inputs, static_cast<int>(i));
      return inside == 0 || rewriter_.readers(i) > inside;
    });
  }

  void CloseMany() {
    // The row operator of most elements, else the largest elementwise one, of the
    // widest type.
    std::size_t chosen = members_[0];
    std::vector<int> inputs;
    std::int64_t parameters = 0;
    std::int64_t gradients = 0;
    for (const std::size_t i : members_) {
      const GraphNode& node = rewriter_.old(i);
      const GraphNode& best = rewriter_.old(chosen);
      const auto row_wise = [this](std::size_t at) { return InfoOf(VectorOf(rewriter_.old(at))->op).row_wise; };
      const bool wider = BitsOf(node.kernel.dtype).activation >= BitsOf(best.kernel.dtype).activation;
      const bool larger =
          Elements(node) == Elements(best) ? wider : IsKnownNonNegative(Elements(node) - Elements(best));
      if (row_wise(i) != row_wise(chosen) ? row_wise(i) : larger) chosen = i;
      parameters += node.parameters;
      gradients += node.gradients;
      for (const int input : node.inputs) {
        if (!IsMember(input)) inputs.push_back(rewriter_.Now(static_cast<std::size_t>(input)));
      }
    }
    GraphNode fused = rewriter_.old(chosen);
    const VectorOpInfo info = InfoOf(VectorOf(fused)->op);
    const std::int64_t writes = Writes(fused);
    if (!info.row_wise || (info.one_result_per_row && writes > 0)) {
      // Rows that are reduced and then written in full are normalised.
      std::get<Vector>(fused.kernel.work).op = info.row_wise ? "rmsnorm" : "add";
      SetDimOf(fused, "operands", std::max<std::int64_t>(1, Reads() + writes - 1));
    }
    fused.source_op = "fused";
    fused.inputs = inputs;
    fused.parameters = parameters;
    fused.gradients = gradients;
    const int now = rewriter_.Append(std::move(fused));
    for (const std::size_t i : members_) rewriter_.Replace(i, now);
  }

  Rewriter& rewriter_;
  std::vector<std::size_t> members_;
};

// Where elementwise code alone reads a linear layer, its bias is added there.
void TakeBiases(Graph& graph) {
  enum class Readers : std::uint8_t { kNone, kElementwise, kOthers };
  std::vector<Readers> readers(graph.nodes.size(), Readers::kNone);
  for (const GraphNode& node : graph.nodes) {
    for (const int input : node.inputs) {
      Readers& of = readers[static_cast<std::size_t>(input)];
      of = IsElementwise(node) && of != Readers::kOthers ? Readers::kElementwise : Readers::kOthers;
    }
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    auto* gemm = std::get_if<Gemm>(&graph.nodes[i].kernel.work);
    if (gemm != nullptr && gemm->layer == Gemm::Layer::kLinear && readers[i] == Readers::kElementwise &&
        HasBias(graph.nodes[i]))
      gemm->layer = Gemm::Layer::kGemm;
  }
}

}  // namespace

void FuseElementwise(Graph& graph) {
  TakeBiases(graph);
  Rewriter rewriter(graph);
  Run run(rewriter);
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    if (VectorOf(rewriter.old(i)) == nullptr) {
      run.Close();
      rewriter.Keep(i);
      continue;
    }
    if (!run.Joins(i)) run.Close();
    run.Add(i);
  }
  run.Close();
  rewriter.Finish();
}

void FuseEpilogues(Graph& graph) {
  Rewriter rewriter(graph);
  std::vector<bool> takes(rewriter.size());  // what ends in a product that more can go into
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    const GraphNode& node = rewriter.old(i);
    const Op op = node.kernel.op();
    if (op == Op::kGemm || op == Op::kConv2d) {
      takes[i] = true;
      GraphNode fused = node;
      fused.folded = Folded::kNothing;  // it stays in there
      rewriter.Keep(i, std::move(fused));
      continue;
    }
    if (IsElementwise(node) && node.inputs.size() == 1) {
      const auto input = static_cast<std::size_t>(node.inputs[0]);
      const bool one_operand = DimOf(node, "operands") == SymInt(1);
      if (takes[input] && rewriter.readers(input) == 1 && one_operand) {
        rewriter.Replace(i, rewriter.Now(input));
        takes[i] = true;
        continue;
      }
    }
    rewriter.Keep(i);
  }
  rewriter.Finish();
}

void FuseResidualNorms(Graph& graph) {
  Rewriter rewriter(graph);
  const auto is_norm = [&](std::size_t i) {
    const Vector* vector = VectorOf(rewriter.old(i));
    return vector != nullptr && (vector->op == "layernorm" || vector->op == "rmsnorm");
  };
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    const GraphNode& node = rewriter.old(i);
    const Vector* vector = VectorOf(node);
    const bool before_norm = i + 1 < rewriter.size() && is_norm(i + 1) &&
                             rewriter.old(i + 1).inputs == std::vector<int>{static_cast<int>(i)} &&
                             Elements(rewriter.old(i + 1)) == (vector != nullptr ? Elements(node) : SymInt(0));
    if (vector != nullptr && vector->op == "add" && before_norm) {
      GraphNode fused = rewriter.old(i + 1);
      SetDimOf(fused, "operands", DimOf(node, "operands") + DimOf(fused, "operands"));
      fused.inputs.clear();
      for (const int input : node.inputs) fused.inputs.push_back(rewriter.Now(static_cast<std::size_t>(input)));
      const int now = rewriter.Append(std::move(fused));
      rewriter.Replace(i, now);
      rewriter.Replace(i + 1, now);
      ++i;
      continue;
    }
    rewriter.Keep(i);
  }
  rewriter.Finish();
}

namespace {

// Scores, softmax and context of one attention, by index.
struct WrittenOut {
  std::size_t scores = 0;
  std::size_t context = 0;
  std::vector<std::size_t> between;
};

bool IsBmm(const GraphNode& node) {
  const auto* gemm = std::get_if<Gemm>(&node.kernel.work);
  return Runs(node) && gemm != nullptr && DimOf(node, "batch") != SymInt(1);
}

// From a product of scores along single readers to the product that reads the
// softmax of it.
std::optional<WrittenOut> Follow(const Rewriter& rewriter, const std::vector<int>& reader, std::size_t scores) {
  WrittenOut found{.scores = scores};
  bool softmax = false;
  std::size_t at = scores;
  const SymInt pairs =
      DimOf(rewriter.old(scores), "batch") * DimOf(rewriter.old(scores), "m") * DimOf(rewriter.old(scores), "n");
  while (rewriter.readers(at) == 1) {
    at = static_cast<std::size_t>(reader[at]);
    const GraphNode& node = rewriter.old(at);
    if (softmax && IsBmm(node)) {
      if (DimOf(node, "k") != DimOf(rewriter.old(scores), "n") ||
          DimOf(node, "m") != DimOf(rewriter.old(scores), "m")) {
        return std::nullopt;
      }
      found.context = at;
      return found;
    }
    if (Runs(node)) {
      const Vector* vector = VectorOf(node);
      if (vector == nullptr || Elements(node) != pairs) return std::nullopt;
      softmax = softmax || vector->op == "softmax";
    }
    found.between.push_back(at);
  }
  return std::nullopt;
}

// Batch and heads of a batch of heads: the constant factor is the heads.
std::pair<SymInt, SymInt> BatchAndHeads(const SymInt& both) {
  std::set<std::string> symbols;
  both.CollectSymbols(symbols);
  for (const std::string& symbol : symbols) {
    const std::optional<SymInt> heads = ExactDiv(both, SymInt::Symbol(symbol));
    if (heads.has_value() && heads->constant().has_value()) return {SymInt::Symbol(symbol), *heads};
  }
  return both.constant().has_value() ? std::pair(SymInt(1), both) : std::pair(both, SymInt(1));
}

GraphNode AttentionFor(const GraphNode& scores, const GraphNode& context) {
  GraphNode node = context;
  node.symbolic_dims.clear();
  const bool decodes = DimOf(scores, "m") == SymInt(1);
  node.kernel.work = Attention{.phase = decodes ? Attention::Phase::kDecode : Attention::Phase::kPrefill,
                               .kv_dtype = scores.kernel.dtype};
  node.source_op = "Attention";
  const auto [batch, heads] = BatchAndHeads(DimOf(scores, "batch"));
  SetDimOf(node, "batch", batch);
  SetDimOf(node, "heads", heads);
  SetDimOf(node, "kv_heads", heads);
  SetDimOf(node, "query_len", DimOf(scores, "m"));
  SetDimOf(node, "kv_len", DimOf(scores, "n"));
  SetDimOf(node, "head_dim", FloorDiv(DimOf(scores, "k") + DimOf(context, "n") + 1, 2));
  return node;
}

}  // namespace

void FuseAttention(Graph& graph) {
  Rewriter rewriter(graph);
  std::vector<int> reader(rewriter.size(), -1);
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    for (const int input : rewriter.old(i).inputs) reader[static_cast<std::size_t>(input)] = static_cast<int>(i);
  }
  std::map<std::size_t, WrittenOut> by_context;
  std::vector<bool> gone(rewriter.size());
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    if (!IsBmm(rewriter.old(i)) || gone[i]) continue;
    const std::optional<WrittenOut> found = Follow(rewriter, reader, i);
    if (!found.has_value()) continue;
    gone[i] = true;
    for (const std::size_t between : found->between) gone[between] = true;
    by_context.emplace(found->context, *found);
  }
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    if (gone[i]) continue;
    const auto at = by_context.find(i);
    if (at == by_context.end()) {
      rewriter.Keep(i);
      continue;
    }
    GraphNode fused = AttentionFor(rewriter.old(at->second.scores), rewriter.old(i));
    fused.inputs.clear();
    const auto read = [&](const GraphNode& node) {
      for (const int input : node.inputs) {
        if (!gone[static_cast<std::size_t>(input)])
          fused.inputs.push_back(rewriter.Now(static_cast<std::size_t>(input)));
      }
    };
    read(rewriter.old(at->second.scores));
    for (const std::size_t between : at->second.between) read(rewriter.old(between));
    read(rewriter.old(i));
    rewriter.Replace(i, rewriter.Append(std::move(fused)));
  }
  rewriter.Finish();
}

void MergeProducts(Graph& graph) {
  Rewriter rewriter(graph);
  // The products of each input, by their m and k; batch 1 only.
  std::map<std::string, std::vector<std::size_t>> groups;
  std::map<std::size_t, std::string> key_of;
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    const GraphNode& node = rewriter.old(i);
    if (node.kernel.op() != Op::kGemm || !Runs(node) || node.inputs.size() != 1 || node.parameters == 0) continue;
    if (DimOf(node, "batch") != SymInt(1) || node.split == Split::kRows) continue;
    std::string key = std::to_string(node.inputs[0]) + "/" + DimOf(node, "m").ToString() + "/" +
                      DimOf(node, "k").ToString() + "/" + std::string(Name(node.kernel.dtype));
    groups[key].push_back(i);
    key_of[i] = std::move(key);
  }
  std::map<std::string, int> written;
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    const auto key = key_of.find(i);
    if (key == key_of.end() || groups[key->second].size() == 1) {
      rewriter.Keep(i);
      continue;
    }
    const auto [at, first] = written.emplace(key->second, 0);
    if (!first) {
      rewriter.Replace(i, at->second);
      continue;
    }
    GraphNode merged = rewriter.old(i);
    SymInt n = 0;
    merged.parameters = 0;
    for (const std::size_t member : groups[key->second]) {
      n = n + DimOf(rewriter.old(member), "n");
      merged.parameters += rewriter.old(member).parameters;
    }
    SetDimOf(merged, "n", n);
    at->second = rewriter.Keep(i, std::move(merged));
  }
  rewriter.Finish();
}

}  // namespace gpueta
