#include "core/graph/graph.h"

#include <algorithm>
#include <set>

#include "absl/strings/cord.h"
#include "core/base/errors.h"
#include "core/base/sha256.h"

namespace gpueta {
namespace {

// 64 bits: among a million models two share a hash with probability 3·10⁻⁸.
constexpr std::size_t kHashDigits = 16;

// The error of one node, with its name for people who do not count nodes.
absl::Status InNode(const Graph& graph, std::size_t index, const absl::Status& status) {
  const absl::Status located = InField(fmt::format("nodes[{}]", index), status);
  const GraphNode& node = graph.nodes[index];
  absl::Status named(located.code(), fmt::format("{} (node \"{}\", {})", MessageOf(located), node.kernel.name,
                                                 node.source_op.empty() ? Name(node.kernel.op()) : node.source_op));
  located.ForEachPayload(
      [&named](absl::string_view type, const absl::Cord& payload) { named.SetPayload(type, payload); });
  return named;
}

absl::StatusOr<std::set<std::string>> DeclaredSymbols(const Graph& graph) {
  std::set<std::string> declared;
  for (std::size_t i = 0; i < graph.symbols.size(); ++i) {
    const Graph::Symbol& symbol = graph.symbols[i];
    const std::string field = fmt::format("symbols[{}]", i);
    if (!IsSymbolName(symbol.name)) {
      return FieldError(field, fmt::format("\"{}\" is no identifier", symbol.name));
    }
    if (symbol.default_value < 0) return FieldError(field, "the default value is negative; 0 means none");
    if (!declared.insert(symbol.name).second) {
      return FieldError(field, fmt::format("\"{}\" is declared twice", symbol.name));
    }
  }
  return declared;
}

std::string FieldOfDim(const GraphNode& node, int dim) {
  return fmt::format("symbolic_dims.{}", DimNamesOf(node.kernel.op()).names[static_cast<std::size_t>(dim)]);
}

absl::Status CheckNode(const GraphNode& node, std::size_t index, const std::set<std::string>& declared) {
  for (int input : node.inputs) {
    if (input >= 0 && static_cast<std::size_t>(input) < index) continue;
    return FieldError("inputs", fmt::format("{} is not a node before this one; nodes stand in topological order and "
                                            "form no cycle",
                                            input));
  }
  if (node.parameters < 0) return FieldError("parameters", "is negative");
  if (node.stage < 0 || node.stage >= kMaxStages)
    return FieldError("stage", fmt::format("must be from 0 to {}", kMaxStages - 1));
  GPUETA_RETURN_IF_ERROR(ValidateKernel(node));
  for (const GraphNode::SymbolicDim& dim : node.symbolic_dims) {
    std::set<std::string> used;
    dim.value.CollectSymbols(used);
    for (const std::string& symbol : used) {
      if (declared.contains(symbol)) continue;
      return FieldError(FieldOfDim(node, dim.dim), fmt::format("the graph declares no symbol \"{}\"", symbol));
    }
  }
  return absl::OkStatus();
}

// Defaults overlaid by `values`.
absl::StatusOr<SymbolValues> Complete(const Graph& graph, const SymbolValues& values) {
  SymbolValues complete;
  std::set<std::string_view> declared;
  for (const Graph::Symbol& symbol : graph.symbols) {
    declared.insert(symbol.name);
    if (symbol.default_value > 0) complete[symbol.name] = symbol.default_value;
  }
  for (const auto& [name, value] : values) {
    if (!declared.contains(name)) return FieldError(name, "the graph has no symbol of this name");
    if (value < 0) return FieldError(name, fmt::format("is {}, must be at least 0", value));
    complete[name] = value;
  }
  return complete;
}

// What HashOf hashes: every field with its length or count before it, so that
// different graphs never give the same bytes. Integers are little-endian.
class Encoder {
 public:
  void Add(std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift);
  }
  void Add(std::string_view text) {
    Add(static_cast<std::int64_t>(text.size()));
    bytes_ += text;
  }
  template <class Range, class AddElement>
  void AddAll(const Range& range, AddElement add_element) {
    Add(static_cast<std::int64_t>(range.size()));
    for (const auto& element : range) add_element(element);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

void Encode(const Kernel& kernel, Encoder& encoder) {
  encoder.Add(kernel.name);
  encoder.Add(Name(kernel.dtype));
  encoder.Add(Name(kernel.op()));
  const DimNames& dims = DimNamesOf(kernel.op());
  for (int i = 0; i < dims.size; ++i) {
    encoder.Add(dims.names[static_cast<std::size_t>(i)]);
    encoder.Add(GetDim(kernel, i));
  }
  encoder.Add(LabelOf(kernel));
  if (const auto* attention = std::get_if<Attention>(&kernel.work)) {
    encoder.Add(Name(attention->phase));
    encoder.Add(Name(attention->kv_dtype));
  }
  if (const auto* collective = std::get_if<Collective>(&kernel.work)) encoder.Add(collective->backend);
  const Launch& launch = kernel.launch;
  encoder.Add(launch.kernel);
  for (std::int64_t extent : {launch.grid_x, launch.grid_y, launch.grid_z, launch.block_x}) encoder.Add(extent);
}

void Encode(const GraphNode& node, Encoder& encoder) {
  Encode(node.kernel, encoder);
  std::vector<GraphNode::SymbolicDim> dims = node.symbolic_dims;
  std::sort(dims.begin(), dims.end(), [](const auto& a, const auto& b) { return a.dim < b.dim; });
  encoder.AddAll(dims, [&](const GraphNode::SymbolicDim& dim) {
    encoder.Add(dim.dim);
    encoder.Add(dim.value.ToString());
  });
  encoder.AddAll(node.inputs, [&](int input) { encoder.Add(input); });
  encoder.Add(node.source_op);
  encoder.Add(static_cast<std::int64_t>(node.costing));
  encoder.Add(node.parameters);
}

}  // namespace

absl::Status ValidateKernel(const GraphNode& node) {
  const Op op = node.kernel.op();
  const DimNames& names = DimNamesOf(op);
  std::set<int> symbolic;
  for (const GraphNode::SymbolicDim& dim : node.symbolic_dims) {
    if (dim.dim < 0 || dim.dim >= names.size) {
      return FieldError("symbolic_dims", fmt::format("{} has no dim {}", Name(op), dim.dim));
    }
    if (!symbolic.insert(dim.dim).second) return FieldError(FieldOfDim(node, dim.dim), "is given twice");
    if (dim.value.overflowed()) {
      return FieldError(FieldOfDim(node, dim.dim), "the expression is too large or leaves the range of 64 bits");
    }
  }
  if (node.costing == Costing::kFree) return absl::OkStatus();
  if (symbolic.empty()) return InField("kernel", Validate(node.kernel));
  for (int i = 0; i < names.size; ++i) {
    const std::int64_t value = GetDim(node.kernel, i);
    const std::int64_t smallest = SmallestDim(op, i);
    if (symbolic.contains(i) || value >= smallest) continue;
    return FieldError(fmt::format("kernel.{}.{}", Name(op), names.names[static_cast<std::size_t>(i)]),
                      fmt::format("is {}, must be at least {}", value, smallest));
  }
  return absl::OkStatus();
}

absl::Status Validate(const Graph& graph) {
  if (graph.nodes.empty()) return FieldError("nodes", "is empty; a graph needs at least one node");
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  if (graph.parameters < 0 || graph.parameters > kMost) return FieldError("parameters", "must be between 0 and 2^60");
  for (const auto& [field, bytes] :
       {std::pair("parameter_bytes", graph.parameter_bytes), std::pair("gradient_bytes", graph.gradient_bytes),
        std::pair("optimiser_bytes", graph.optimiser_bytes)}) {
    if (bytes < 0 || bytes > kMost) return FieldError(field, "must be between 0 and 2^60");
  }
  if (graph.microbatches < 1 || graph.microbatches > kMaxMicrobatches)
    return FieldError("microbatches", fmt::format("must be from 1 to {}", kMaxMicrobatches));
  if (graph.active_parameters < 0 || graph.active_parameters > kMost) {
    return FieldError("active_parameters", "must be between 0 and 2^60");
  }
  if (graph.kv_bytes_per_token < 0 || graph.kv_bytes_per_token > kMost) {
    return FieldError("kv_bytes_per_token", "must be between 0 and 2^60");
  }
  GPUETA_ASSIGN_OR_RETURN(const std::set<std::string> declared, DeclaredSymbols(graph));
  if (graph.input_bytes.overflowed())
    return FieldError("input_bytes", "the expression is too large or leaves the range of 64 bits");
  std::set<std::string> used;
  graph.input_bytes.CollectSymbols(used);
  for (const std::string& symbol : used) {
    if (!declared.contains(symbol))
      return FieldError("input_bytes", fmt::format("the graph declares no symbol \"{}\"", symbol));
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const absl::Status status = CheckNode(graph.nodes[i], i, declared);
    if (!status.ok()) return InNode(graph, i, status);
  }
  constexpr std::int64_t kMostPasses = 1 << 17;
  if (graph.microbatches * StagesOf(graph) > kMostPasses)
    return FieldError("microbatches", fmt::format("times {} stages must be at most {}", StagesOf(graph), kMostPasses));
  return absl::OkStatus();
}

namespace {

// Operators that do not go along columns have no rows: a tensor of images is
// written with rows of 14 pixels, but what was measured has rows of tokens, and
// its cost of a row would be paid for each. So rows are taken together until they
// are as long as those.
void LengthenRows(Vector& vector) {
  constexpr std::int64_t kLeastCols = 1024;
  constexpr std::int64_t kMostTried = 4096;
  if (vector.op == "embedding" || InfoOf(vector.op).row_wise || vector.rows < 2 || vector.cols < 1) return;
  for (std::int64_t together = (kLeastCols + vector.cols - 1) / vector.cols;
       together < std::min(vector.rows, kMostTried) && vector.cols < kLeastCols; ++together) {
    if (vector.rows % together != 0) continue;
    vector.rows /= together;
    vector.cols *= together;
  }
}

}  // namespace

absl::StatusOr<Kernel> Bind(const GraphNode& node, const SymbolValues& values) {
  Kernel kernel = node.kernel;
  for (const GraphNode::SymbolicDim& dim : node.symbolic_dims) {
    const absl::StatusOr<std::int64_t> value = dim.value.Evaluate(values);
    const std::string_view name = DimNamesOf(kernel.op()).names[static_cast<std::size_t>(dim.dim)];
    if (absl::IsOutOfRange(value.status())) {
      return FieldError(fmt::format("kernel.{}.{}", Name(kernel.op()), name),
                        fmt::format("{}: {}", dim.value.ToString(), MessageOf(value.status())));
    }
    if (!value.ok()) return value.status();
    SetDim(kernel, dim.dim, *value);
  }
  if (node.costing != Costing::kFree) GPUETA_RETURN_IF_ERROR(InField("kernel", Validate(kernel)));
  if (auto* vector = std::get_if<Vector>(&kernel.work)) LengthenRows(*vector);
  return kernel;
}

absl::StatusOr<std::vector<Kernel>> Bind(const Graph& graph, const SymbolValues& values) {
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues complete, Complete(graph, values));
  std::vector<Kernel> kernels;
  kernels.reserve(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    absl::StatusOr<Kernel> kernel = Bind(graph.nodes[i], complete);
    if (!kernel.ok()) return InNode(graph, i, kernel.status());
    kernels.push_back(*std::move(kernel));
  }
  return kernels;
}

absl::StatusOr<std::int64_t> InputBytes(const Graph& graph, const SymbolValues& values) {
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues complete, Complete(graph, values));
  const absl::StatusOr<std::int64_t> bytes = graph.input_bytes.Evaluate(complete);
  if (!bytes.ok()) return InField("input_bytes", bytes.status());
  if (*bytes < 0) return FieldError("input_bytes", fmt::format("is {}, must be at least 0", *bytes));
  return *bytes;
}

absl::StatusOr<GraphCounts> CountsOf(const Graph& graph, const SymbolValues& values) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, Bind(graph, values));
  GraphCounts counts;
  Count macs;
  Count bytes;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing == Costing::kFree) continue;
    const Counts kernel = CountsOf(kernels[i]);
    macs = macs + MacsOf(kernels[i], kernel);
    bytes = bytes + kernel.bytes();
    ++counts.kernels[std::string(Name(kernels[i].op()))];
  }
  const Count flops = 2 * macs;
  if (flops.overflowed() || bytes.overflowed()) {
    return InvalidArgument("the graph does more than 2^62 operations or moves more than 2^62 bytes; check the symbols");
  }
  counts.macs = macs.value();
  counts.flops = flops.value();
  counts.bytes = bytes.value();
  return counts;
}

int StagesOf(const Graph& graph) {
  int last = 0;
  for (const GraphNode& node : graph.nodes) last = std::max(last, node.stage);
  return last + 1;
}

std::string HashOf(const Graph& graph) {
  Encoder encoder;
  encoder.AddAll(graph.symbols, [&](const Graph::Symbol& symbol) {
    encoder.Add(symbol.name);
    encoder.Add(symbol.default_value);
  });
  encoder.AddAll(graph.nodes, [&](const GraphNode& node) { Encode(node, encoder); });
  encoder.Add(graph.parameters);
  encoder.Add(graph.parameter_bytes);
  encoder.AddAll(graph.source_op_counts, [&](const auto& count) {
    encoder.Add(count.first);
    encoder.Add(count.second);
  });
  encoder.AddAll(graph.inputs, [&](const std::string& input) { encoder.Add(input); });
  // Only where there is any: graphs of one device keep their names.
  Encoder placed;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const auto* collective = std::get_if<Collective>(&node.kernel.work);
    const std::int64_t stride = collective == nullptr ? 1 : collective->stride;
    if (node.stream == DeviceStream::kCompute && node.turn == Turn::kForward && node.stage == 0 && stride == 1)
      continue;
    for (const std::int64_t value : {static_cast<std::int64_t>(i), static_cast<std::int64_t>(node.stream),
                                     static_cast<std::int64_t>(node.turn), std::int64_t{node.stage}, stride})
      placed.Add(value);
  }
  if (graph.microbatches != 1 || graph.gradient_bytes != 0 || graph.optimiser_bytes != 0) {
    for (const std::int64_t value : {graph.microbatches, graph.gradient_bytes, graph.optimiser_bytes})
      placed.Add(value);
  }
  if (!placed.bytes().empty()) encoder.Add(placed.bytes());
  return Hex(Sha256(encoder.bytes()), kHashDigits);
}

}  // namespace gpueta
