#include "core/serving/step_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/passes/rewriter.h"
#include "core/importers/huggingface/huggingface_importer.h"

namespace gpueta {
namespace {

using Rows = StepKernel::Rows;

// Longer sequences and larger steps than these are refused, so that sums of
// lengths stay far from overflow.
constexpr std::int64_t kMaxLength = std::int64_t{1} << 26;
constexpr std::size_t kMaxSequences = 1 << 16;

absl::StatusOr<Graph> Import(std::string_view json, const std::string& name, const Deployment& deployment,
                             Attention::Phase phase) {
  HuggingFaceOptions options;
  options.phase = phase;
  options.cached_prefix = phase == Attention::Phase::kPrefill;
  options.last_logits_only = true;
  options.kv_dtype = deployment.kv_dtype;
  if (deployment.dtype.has_value()) {
    const bool of_weights = BitsOf(*deployment.dtype).weight < 16;
    (of_weights ? options.weight_dtype : options.dtype) = deployment.dtype;
  }
  GPUETA_ASSIGN_OR_RETURN(Graph graph, ImportHuggingFace(json, name, options));
  for (const Graph::Symbol& symbol : graph.symbols) {
    if (symbol.name != "batch" && symbol.name != "seq" && symbol.name != "kv_len") {
      return InvalidArgument("the model has an encoder ({}); steps are of models that only decode", symbol.name);
    }
  }
  return graph;
}

// Elements that kernels of each type read, of one rank.
std::map<DType, std::int64_t> ParametersByType(const Graph& graph) {
  std::map<DType, std::int64_t> parameters;
  for (const GraphNode& node : graph.nodes) parameters[node.kernel.dtype] += node.parameters;
  return parameters;
}

// Splits the graph; parameter_bytes go by the type of what each rank has less of.
absl::Status SplitOver(Graph& graph, const Parallelism& ranks) {
  if (ranks.tensor < 1 || ranks.expert < 1 || ranks.pipeline < 1) {
    return InvalidArgument("ranks: tensor {}, expert {}, pipeline {}: each must be at least 1", ranks.tensor,
                           ranks.expert, ranks.pipeline);
  }
  const std::int64_t whole_bytes = graph.parameter_bytes;
  const std::map<DType, std::int64_t> whole = ParametersByType(graph);
  GPUETA_RETURN_IF_ERROR(SplitTensors(graph, ranks));
  std::map<DType, std::int64_t> own = ParametersByType(graph);
  double saved = 0;  // bytes
  for (const auto& [dtype, parameters] : whole) {
    saved += static_cast<double>(parameters - own[dtype]) * BitsOf(dtype).weight / 8;
  }
  graph.parameter_bytes = whole_bytes - std::min(static_cast<std::int64_t>(saved), whole_bytes);
  return SplitStages(graph, ranks.pipeline);
}

SymInt Times(const SymInt& value, double factor) {
  constexpr std::int64_t kParts = 1024;
  return CeilDiv(value * std::llround(factor * kParts), kParts);
}

// What the busiest rank has of experts, and what it exchanges of their tokens.
absl::Status LoadExperts(Graph& graph, const Deployment& deployment) {
  const double imbalance = deployment.expert_imbalance;
  if (!(imbalance >= 1 && imbalance <= static_cast<double>(deployment.ranks.expert))) {
    return FieldError("expert_imbalance",
                      fmt::format("{} is not from 1 to {}, the expert ranks", imbalance, deployment.ranks.expert));
  }
  if (imbalance == 1) return absl::OkStatus();
  for (GraphNode& node : graph.nodes) {
    const auto* collective = std::get_if<Collective>(&node.kernel.work);
    if (node.kernel.op() == Op::kMoe) {
      SetDimOf(node, "num_tokens", Times(DimOf(node, "num_tokens"), imbalance));
    } else if (collective != nullptr && collective->op == "alltoall") {
      SetDimOf(node, "bytes", Times(DimOf(node, "bytes"), imbalance));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Kernel> BindNode(const GraphNode& node, const SymbolValues& values) {
  Kernel kernel = node.kernel;
  for (const GraphNode::SymbolicDim& symbolic : node.symbolic_dims) {
    GPUETA_ASSIGN_OR_RETURN(const std::int64_t value, symbolic.value.Evaluate(values));
    SetDim(kernel, symbolic.dim, value);
  }
  return kernel;
}

SymbolValues Values(std::int64_t batch, std::int64_t seq, std::int64_t kv_len) {
  return {{"batch", batch}, {"seq", seq}, {"kv_len", kv_len}};
}

bool SameWork(const absl::StatusOr<Kernel>& a, const absl::StatusOr<Kernel>& b) {
  return a.ok() && b.ok() && a->dtype == b->dtype && a->work == b->work;
}

bool DependsOn(const GraphNode& node, const std::string& symbol) {
  std::set<std::string> symbols;
  for (const GraphNode::SymbolicDim& dim : node.symbolic_dims) dim.value.CollectSymbols(symbols);
  return symbols.contains(symbol);
}

// Whether the work depends on batch·seq alone: probed where that product is
// the same, in both orders.
bool GoesByTokens(const GraphNode& node) {
  constexpr std::int64_t kPairs[][2] = {{1, 840}, {840, 1}, {8, 105}, {35, 24}};
  const absl::StatusOr<Kernel> first = BindNode(node, Values(kPairs[0][0], kPairs[0][1], 1024));
  return std::all_of(std::begin(kPairs), std::end(kPairs),
                     [&](const auto& pair) { return SameWork(first, BindNode(node, Values(pair[0], pair[1], 1024))); });
}

Rows RowsOf(const GraphNode& prefill) {
  if (prefill.kernel.op() == Op::kAttention || DependsOn(prefill, "kv_len")) return Rows::kChunk;
  if (!DependsOn(prefill, "seq")) return Rows::kLogits;
  return GoesByTokens(prefill) ? Rows::kPrefillTokens : Rows::kChunk;
}

// The same work for as many tokens, wherever they come from.
bool SameInBothPhases(const GraphNode& prefill, const GraphNode& decode) {
  return std::ranges::all_of(std::array<std::int64_t, 3>{1, 96, 8191}, [&](std::int64_t tokens) {
    return SameWork(BindNode(prefill, Values(1, tokens, tokens)), BindNode(decode, Values(tokens, 1, 4096)));
  });
}

bool SameKernel(const StepKernel& a, Rows rows, const GraphNode& node) {
  const auto same_dim = [](const GraphNode::SymbolicDim& x, const GraphNode::SymbolicDim& y) {
    return x.dim == y.dim && x.value == y.value;
  };
  return a.rows == rows && a.node.kernel.dtype == node.kernel.dtype && a.node.kernel.work == node.kernel.work &&
         std::ranges::equal(a.node.symbolic_dims, node.symbolic_dims, same_dim);
}

void AddKernel(std::vector<StepKernel>& kernels, Rows rows, const GraphNode& node) {
  const auto found =
      std::ranges::find_if(kernels, [&](const StepKernel& kernel) { return SameKernel(kernel, rows, node); });
  if (found == kernels.end()) {
    kernels.push_back({rows, node, 1});
    kernels.back().node.inputs.clear();
  } else {
    ++found->count;
  }
}

// Kernels of both graphs, those that tokens of both phases share once.
std::vector<StepKernel> Merge(const Graph& prefill, const Graph& decode) {
  std::multimap<std::string_view, const GraphNode*> decodes;
  for (const GraphNode& node : decode.nodes) {
    if (node.costing != Costing::kFree) decodes.emplace(node.kernel.name, &node);
  }
  std::vector<StepKernel> kernels;
  for (const GraphNode& node : prefill.nodes) {
    if (node.costing == Costing::kFree) continue;
    Rows rows = RowsOf(node);
    if (rows == Rows::kPrefillTokens || rows == Rows::kLogits) {
      const auto twin = decodes.find(node.kernel.name);
      if (twin != decodes.end() && (rows == Rows::kLogits || SameInBothPhases(node, *twin->second))) {
        decodes.erase(twin);
        if (rows == Rows::kPrefillTokens) rows = Rows::kTokens;
      }
    }
    AddKernel(kernels, rows, node);
  }
  for (const GraphNode& node : decode.nodes) {  // in their order
    const auto [begin, end] = decodes.equal_range(node.kernel.name);
    if (std::none_of(begin, end, [&](const auto& entry) { return entry.second == &node; })) continue;
    const bool attends = node.kernel.op() == Op::kAttention || DependsOn(node, "kv_len");
    AddKernel(kernels, attends ? Rows::kDecode : Rows::kDecodeTokens, node);
  }
  return kernels;
}

// Σ kv_heads·head_dim over the kernels that read the cache when decoding.
double CacheWidth(const std::vector<GraphNode>& nodes) {
  double sum = 0;
  for (const GraphNode& node : nodes) {
    if (const auto* attention = std::get_if<Attention>(&node.kernel.work)) {
      sum += static_cast<double>(attention->kv_heads) * static_cast<double>(attention->head_dim);
    }
  }
  return sum;
}

absl::Status CheckLengths(const EngineStep& step) {
  if (step.prefill.empty() && step.decode_context.empty()) {
    return FieldError("step", "has neither prefill chunks nor decoding sequences");
  }
  if (step.prefill.size() > kMaxSequences || step.decode_context.size() > kMaxSequences) {
    return FieldError("step", fmt::format("more than {} sequences", kMaxSequences));
  }
  if (step.speculative_tokens < 0 || step.speculative_tokens > 1024) {
    return FieldError("speculative_tokens", fmt::format("{} is not from 0 to 1024", step.speculative_tokens));
  }
  for (std::size_t i = 0; i < step.prefill.size(); ++i) {
    const PrefillChunk& chunk = step.prefill[i];
    if (chunk.new_tokens < 1 || chunk.new_tokens > kMaxLength || chunk.cached_tokens < 0 ||
        chunk.cached_tokens > kMaxLength) {
      return FieldError(fmt::format("prefill[{}]", i),
                        fmt::format("{} new and {} cached tokens; 1 and 0 to {} are possible", chunk.new_tokens,
                                    chunk.cached_tokens, kMaxLength));
    }
  }
  for (std::size_t i = 0; i < step.decode_context.size(); ++i) {
    if (step.decode_context[i] < 1 || step.decode_context[i] > kMaxLength) {
      return FieldError(fmt::format("decode_context[{}]", i),
                        fmt::format("{} is not from 1 to {}", step.decode_context[i], kMaxLength));
    }
  }
  return absl::OkStatus();
}

// Equal chunks, and how many there are of each.
std::vector<std::pair<PrefillChunk, std::int64_t>> GroupsOf(std::vector<PrefillChunk> chunks) {
  std::ranges::sort(chunks, [](const PrefillChunk& a, const PrefillChunk& b) {
    return std::pair(a.new_tokens, a.cached_tokens) < std::pair(b.new_tokens, b.cached_tokens);
  });
  std::vector<std::pair<PrefillChunk, std::int64_t>> groups;
  for (const PrefillChunk& chunk : chunks) {
    if (groups.empty() || groups.back().first != chunk) groups.emplace_back(chunk, 0);
    ++groups.back().second;
  }
  return groups;
}

// The kernels of one step. Of two kernels in a row that `either` marks, the
// slower one counts.
struct BoundStep {
  std::vector<Kernel> kernels;
  std::vector<std::int64_t> counts;
  std::vector<bool> either;

  void Add(Kernel kernel, std::int64_t count, bool with_next = false) {
    kernels.push_back(std::move(kernel));
    counts.push_back(count);
    either.push_back(with_next);
  }
};

absl::Status BindDecode(const StepKernel& own, const EngineStep& step, BoundStep& out) {
  const auto sequences = static_cast<std::int64_t>(step.decode_context.size());
  if (sequences == 0) return absl::OkStatus();
  const std::int64_t longest = *std::ranges::max_element(step.decode_context);
  GPUETA_ASSIGN_OR_RETURN(Kernel alone, BindKernel(own, Values(1, 1, longest), step.speculative_tokens));
  auto* attention = std::get_if<Attention>(&alone.work);
  if (attention == nullptr) {
    GPUETA_ASSIGN_OR_RETURN(Kernel all, BindNode(own.node, Values(sequences, 1, longest)));
    out.Add(std::move(all), own.count);
    return absl::OkStatus();
  }
  double seen = 0;
  const int kv_len = *FindDim(Op::kAttention, "kv_len");
  const auto symbolic =
      std::ranges::find_if(own.node.symbolic_dims, [&](const auto& dim) { return dim.dim == kv_len; });
  for (const std::int64_t context : step.decode_context) {
    if (symbolic == own.node.symbolic_dims.end()) {
      seen += static_cast<double>(attention->kv_len);
    } else if (context >= longest) {
      seen += static_cast<double>(attention->kv_len);
    } else {
      GPUETA_ASSIGN_OR_RETURN(const std::int64_t keys, symbolic->value.Evaluate(Values(1, 1, context)));
      seen += static_cast<double>(keys);
    }
  }
  Kernel uniform = alone;
  std::get<Attention>(uniform.work).batch = sequences;
  std::get<Attention>(uniform.work).kv_len =
      std::max<std::int64_t>(1, std::llround(seen / static_cast<double>(sequences)));
  const bool uneven = std::get<Attention>(uniform.work).kv_len < attention->kv_len;
  out.Add(std::move(uniform), own.count, uneven);
  if (uneven) out.Add(std::move(alone), own.count);
  return absl::OkStatus();
}

absl::StatusOr<BoundStep> BindStep(const std::vector<StepKernel>& kernels, const EngineStep& step) {
  BoundStep out;
  const auto chunks = GroupsOf(step.prefill);
  const auto by_rows = [&](const StepKernel& own, std::int64_t batch, std::int64_t seq) -> absl::Status {
    if (batch * seq == 0) return absl::OkStatus();
    GPUETA_ASSIGN_OR_RETURN(Kernel kernel, BindNode(own.node, Values(batch, seq, seq)));
    out.Add(std::move(kernel), own.count);
    return absl::OkStatus();
  };
  for (const StepKernel& own : kernels) {
    switch (own.rows) {
      case Rows::kTokens: GPUETA_RETURN_IF_ERROR(by_rows(own, 1, step.tokens())); break;
      case Rows::kLogits: GPUETA_RETURN_IF_ERROR(by_rows(own, step.logit_rows(), 1)); break;
      case Rows::kPrefillTokens: GPUETA_RETURN_IF_ERROR(by_rows(own, 1, step.prefill_tokens())); break;
      case Rows::kDecodeTokens: GPUETA_RETURN_IF_ERROR(by_rows(own, step.decode_tokens(), 1)); break;
      case Rows::kDecode: GPUETA_RETURN_IF_ERROR(BindDecode(own, step, out)); break;
      case Rows::kChunk:
        for (const auto& [chunk, count] : chunks) {
          const SymbolValues values = Values(count, chunk.new_tokens, chunk.new_tokens + chunk.cached_tokens);
          GPUETA_ASSIGN_OR_RETURN(Kernel kernel, BindNode(own.node, values));
          out.Add(std::move(kernel), own.count);
        }
        break;
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<Kernel> BindKernel(const StepKernel& kernel, const SymbolValues& values,
                                  std::int64_t speculative_tokens) {
  GPUETA_ASSIGN_OR_RETURN(Kernel bound, BindNode(kernel.node, values));
  if (auto* attention = std::get_if<Attention>(&bound.work); attention != nullptr && kernel.rows == Rows::kDecode) {
    attention->heads *= 1 + speculative_tokens;
  }
  return bound;
}

absl::StatusOr<StepModel> StepModel::Compile(std::string_view config_json, std::string display_name,
                                             const Deployment& deployment) {
  StepModel model;
  model.display_name_ = std::move(display_name);
  model.deployment_ = deployment;
  GPUETA_ASSIGN_OR_RETURN(Graph decode,
                          Import(config_json, model.display_name_, deployment, Attention::Phase::kDecode));
  GPUETA_ASSIGN_OR_RETURN(model.prefill_,
                          Import(config_json, model.display_name_, deployment, Attention::Phase::kPrefill));
  model.parameters_ = decode.parameters;
  model.warnings_ = decode.warnings;
  const double whole_width = CacheWidth(decode.nodes);
  GPUETA_RETURN_IF_ERROR(SplitOver(decode, deployment.ranks));
  GPUETA_RETURN_IF_ERROR(SplitOver(model.prefill_, deployment.ranks));
  for (Graph* graph : {&decode, &model.prefill_}) GPUETA_RETURN_IF_ERROR(LoadExperts(*graph, deployment));
  model.weight_bytes_ = decode.parameter_bytes;
  if (whole_width > 0) {
    model.kv_bytes_per_token_ = static_cast<double>(decode.kv_bytes_per_token) * CacheWidth(decode.nodes) /
                                whole_width / static_cast<double>(deployment.ranks.pipeline);
  }
  model.kernels_ = Merge(model.prefill_, decode);
  return model;
}

double StepModel::KvBytes(std::int64_t context) const {
  double width = 0;
  double kept = 0;
  for (const StepKernel& own : kernels_) {
    if (own.rows != Rows::kDecode) continue;
    const absl::StatusOr<Kernel> kernel = BindNode(own.node, Values(1, 1, context));
    const auto* attention = kernel.ok() ? std::get_if<Attention>(&kernel->work) : nullptr;
    if (attention == nullptr) continue;
    const auto w = static_cast<double>(own.count * attention->kv_heads * attention->head_dim);
    width += w;
    kept += w * static_cast<double>(attention->kv_len);
  }
  return width > 0 ? kv_bytes_per_token_ * kept / width : 0;
}

absl::StatusOr<std::int64_t> StepModel::ActivationBytes(std::int64_t tokens) const {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, Bind(prefill_, Values(1, tokens, tokens)));
  return MemoryBytes(prefill_, kernels) - prefill_.parameter_bytes;
}

absl::StatusOr<GraphEstimate> StepModel::Estimate(const EngineStep& step, const Predictor& predictor,
                                                  const EngineOverhead& overhead,
                                                  const EstimateOptions& options) const {
  GPUETA_RETURN_IF_ERROR(CheckLengths(step));
  GPUETA_ASSIGN_OR_RETURN(BoundStep bound, BindStep(kernels_, step));
  const EstimateOptions as_graph{
      .mode = ExecutionMode::kGraph, .estimator = options.estimator, .corrections = options.corrections};
  std::vector<gpueta::Estimate> estimates(bound.kernels.size());
  GPUETA_RETURN_IF_ERROR(predictor.EstimateKernels(bound.kernels, predictor.KernelOptionsOf(as_graph), estimates));
  std::vector<GraphPart> parts;
  for (std::size_t i = 0; i < bound.kernels.size(); ++i) {
    std::size_t use = i;
    if (bound.either[i]) {
      if (estimates[i + 1].latency_us.p50 > estimates[i].latency_us.p50) use = i + 1;
      ++i;
    }
    parts.push_back({std::move(bound.kernels[use]), bound.counts[use], estimates[use]});
  }
  GraphEstimate out = ComposeParts(std::move(parts), predictor.ExecutionOf(as_graph));
  Quantiles& us = out.latency_us;
  const double overhead_us = overhead.Of(step.tokens());
  for (double* quantile : {&us.p50, &us.p90, &us.p99}) *quantile += overhead_us;
  if (options.corrections != nullptr) {  // as Predictor::EstimateGraph
    out.correction = FactorAt(options.corrections->graphs, us.p50);
    for (double* quantile : {&us.p50, &us.p90, &us.p99}) *quantile *= out.correction;
  }
  out.warnings = warnings_;
  return out;
}

std::size_t StepModel::size_bytes() const {
  constexpr std::size_t kNode = 600;  // with its strings and expressions
  return (prefill_.nodes.size() + kernels_.size()) * kNode;
}

absl::StatusOr<OverheadFit> FitOverhead(const StepModel& model, const Predictor& predictor,
                                        std::span<const ObservedStep> records) {
  std::vector<StepRecord> known;
  known.reserve(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    auto predicted = model.Estimate(records[i].step, predictor);
    if (!predicted.ok()) return InField(fmt::format("records[{}].step", i), predicted.status());
    known.push_back({records[i].step.tokens(), predicted->latency_us.p50, records[i].latency_us});
  }
  OverheadFit fit;
  GPUETA_ASSIGN_OR_RETURN(fit.overhead, FitEngineOverhead(known));
  for (const StepRecord& r : known) {
    const auto ape = [&](double us) { return std::abs(us / r.observed_us - 1) / static_cast<double>(known.size()); };
    fit.mape_before += ape(r.kernels_us);
    fit.mape_after += ape(r.kernels_us + fit.overhead.Of(r.tokens));
  }
  return fit;
}

std::vector<std::pair<std::string, double>> BreakdownOf(const GraphEstimate& estimate) {
  std::vector<std::pair<std::string, double>> out;
  for (const GraphPart& part : estimate.parts) {
    const auto [op, phase] = FamilyOf(part.kernel);
    const std::string name = op == Op::kAttention ? fmt::format("{} attention", Name(phase)) : std::string(Name(op));
    auto found = std::ranges::find(out, name, [](const auto& entry) { return entry.first; });
    if (found == out.end()) found = out.insert(out.end(), {name, 0.0});
    found->second += static_cast<double>(part.count) * part.estimate.latency_us.p50;
  }
  return out;
}

}  // namespace gpueta
