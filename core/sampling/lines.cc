#include "core/sampling/lines.h"

#include <algorithm>
#include <set>

#include "core/base/csv.h"
#include "core/base/errors.h"
#include "core/device/catalogue.h"

namespace gpueta {
namespace {

constexpr std::string_view kOp = "op";
constexpr std::string_view kDevice = "device";
constexpr std::string_view kPhase = "phase";
constexpr std::string_view kLayer = "layer";
constexpr std::string_view kName = "name";
constexpr std::string_view kCollective = "collective";
constexpr std::string_view kNotRead[] = {"lines", "draw"};

std::string_view OperatorOf(const Kernel& kernel) {
  if (const auto* vector = std::get_if<Vector>(&kernel.work)) return vector->op;
  if (const auto* custom = std::get_if<Custom>(&kernel.work)) return custom->op;
  if (const auto* collective = std::get_if<Collective>(&kernel.work)) return collective->op;
  return "";
}

bool IsBmm(Gemm::Layer layer) { return layer == Gemm::Layer::kBmm; }

// Dims that a file fixes only because it was exported for one size of input.
// The rows of a product of activations are a length, which is also a dim that
// stays: they are free only where the file says so.
bool GrowsWithTheInput(const Kernel& kernel, std::string_view dim) {
  if (dim == "m") {
    const auto* gemm = std::get_if<Gemm>(&kernel.work);
    return gemm != nullptr && !IsBmm(gemm->layer);
  }
  return dim == "batch" || dim == "query_len" || dim == "kv_len" || dim == "num_tokens" || dim == "rows";
}

Line LineOf(const GraphNode& node) {
  const Kernel& kernel = node.kernel;
  Line line{.op = kernel.op(), .label = std::string(OperatorOf(kernel)), .dtype = kernel.dtype};
  if (const auto* attention = std::get_if<Attention>(&kernel.work)) line.phase = attention->phase;
  if (const auto* gemm = std::get_if<Gemm>(&kernel.work)) line.layer = gemm->layer;
  const DimNames& names = DimNamesOf(kernel.op());
  for (int d = 0; d < names.size; ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (!GrowsWithTheInput(kernel, names.names[at])) line.dims[at] = GetDim(kernel, d);
  }
  for (const auto& symbolic : node.symbolic_dims) {
    line.dims[static_cast<std::size_t>(symbolic.dim)].reset();
    for (const auto& earlier : node.symbolic_dims) {
      if (earlier.dim >= symbolic.dim || !(earlier.value == symbolic.value)) continue;
      line.same_as[static_cast<std::size_t>(symbolic.dim)] = earlier.dim;
      break;
    }
  }
  return line;
}

class LineReaderOfOp {
 public:
  LineReaderOfOp(const CsvReader& csv, Op op, std::string_view device) : csv_(csv), op_(op), device_(device) {}

  // nullopt for a row about another op or device.
  absl::StatusOr<std::optional<Line>> Read() const {
    Line line{.op = op_};
    bool fixes = false;
    for (std::size_t c = 0; c < csv_.columns().size(); ++c) {
      const std::string_view column = csv_.columns()[c];
      const std::string_view text = csv_.cells()[c];
      if (text.empty() || std::ranges::find(kNotRead, column) != std::end(kNotRead)) continue;
      if (column == kOp && text != Name(op_)) return std::nullopt;
      if (column == kDevice && catalogue_.CanonicalSlug(text) != catalogue_.CanonicalSlug(device_)) return std::nullopt;
      if (column == kOp || column == kDevice) continue;
      if (const std::optional<int> dim = FindDim(op_, column); dim.has_value()) {
        GPUETA_ASSIGN_OR_RETURN(line.dims[static_cast<std::size_t>(*dim)], ReadDim(c, *dim));
        fixes = true;
      } else {
        GPUETA_RETURN_IF_ERROR(ReadKind(c, line));
      }
    }
    if (!fixes) return csv_.ErrorInRow(fmt::format("fixes no dim of {}; name at least one", Name(op_)));
    return line;
  }

 private:
  absl::StatusOr<std::int64_t> ReadDim(std::size_t cell, int dim) const {
    GPUETA_ASSIGN_OR_RETURN(const std::int64_t value, csv_.Integer(cell));
    if (value < SmallestDim(op_, dim))
      return csv_.ErrorInCell(cell, fmt::format("must be at least {}", SmallestDim(op_, dim)));
    return value;
  }
  absl::Status ReadKind(std::size_t cell, Line& line) const {
    const std::string_view column = csv_.columns()[cell];
    if (column == kPhase && op_ == Op::kAttention) {
      return csv_.Named(cell, std::array{Attention::Phase::kPrefill, Attention::Phase::kDecode}, line.phase.emplace());
    }
    if (column == kLayer && op_ == Op::kGemm) {
      return csv_.Named(cell, std::array{Gemm::Layer::kGemm, Gemm::Layer::kLinear, Gemm::Layer::kBmm},
                        line.layer.emplace());
    }
    const bool named = op_ == Op::kVector || op_ == Op::kCustom;
    if ((column == kName && named) || (column == kCollective && op_ == Op::kCollective)) {
      line.label = csv_.cells()[cell];
      return absl::OkStatus();
    }
    return csv_.ErrorInCell(cell, fmt::format("is not a dim of {}; leave it empty", Name(op_)));
  }

  const CsvReader& csv_;
  Op op_;
  std::string_view device_;
  const Catalogue& catalogue_ = Catalogue::BuiltIn();
};

std::vector<CsvColumn> KnownColumns() {
  std::vector<CsvColumn> known = {{kOp}, {kDevice}, {kPhase}, {kLayer}, {kName}, {kCollective}};
  for (std::string_view column : kNotRead) known.push_back({column});
  std::set<std::string_view> dims;
  for (Op op : kAllOps) {
    const DimNames& names = DimNamesOf(op);
    dims.insert(names.names.begin(), names.names.begin() + names.size);
  }
  for (std::string_view dim : dims) known.push_back({dim});
  return known;
}

void AddOnce(Line line, std::vector<Line>& lines) {
  if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
}

}  // namespace

bool IsOn(const Line& line, const Kernel& kernel) {
  if (kernel.op() != line.op) return false;
  if (!line.label.empty() && line.label != OperatorOf(kernel)) return false;
  if (const auto* attention = std::get_if<Attention>(&kernel.work);
      attention != nullptr && line.phase.has_value() && *line.phase != attention->phase)
    return false;
  if (const auto* gemm = std::get_if<Gemm>(&kernel.work);
      gemm != nullptr && line.layer.has_value() && IsBmm(*line.layer) != IsBmm(gemm->layer))
    return false;
  for (int d = 0; d < DimNamesOf(line.op).size; ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (line.dims[at].has_value() && *line.dims[at] != GetDim(kernel, d)) return false;
    if (line.same_as[at].has_value() && GetDim(kernel, *line.same_as[at]) != GetDim(kernel, d)) return false;
  }
  return true;
}

std::vector<Line> LinesOf(const Graph& graph, Op op) {
  std::vector<Line> lines;
  for (const GraphNode& node : graph.nodes) {
    if (node.costing != Costing::kFree && node.kernel.op() == op) AddOnce(LineOf(node), lines);
  }
  return lines;
}

absl::StatusOr<std::vector<Line>> ReadLines(std::istream& in, std::string_view file_name, Op op,
                                            std::string_view device) {
  GPUETA_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(in, file_name));
  GPUETA_RETURN_IF_ERROR(MatchColumns(csv, KnownColumns()).status());
  const LineReaderOfOp reader(csv, op, device);
  std::vector<Line> lines;
  while (csv.Next()) {
    GPUETA_ASSIGN_OR_RETURN(std::optional<Line> line, reader.Read());
    if (line.has_value()) AddOnce(*std::move(line), lines);
  }
  GPUETA_RETURN_IF_ERROR(csv.status());
  if (lines.empty()) return InvalidArgument("{}: holds no line of {} on {}", file_name, Name(op), device);
  return lines;
}

std::vector<std::size_t> RowsOn(std::span<const Line> lines, std::span<const Measurement> rows) {
  std::vector<std::size_t> on;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::ranges::any_of(lines, [&](const Line& line) { return IsOn(line, rows[i].kernel); })) on.push_back(i);
  }
  return on;
}

}  // namespace gpueta
