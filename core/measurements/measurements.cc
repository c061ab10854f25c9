#include "core/measurements/measurements.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "core/base/csv.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/measurements/columns.h"

namespace gpueta {
namespace {

using Column = MeasurementColumn;

// A kernel of the op with the default of every dim that has one.
Kernel PrototypeOf(Op op) {
  Kernel kernel;
  switch (op) {
    case Op::kGemm: kernel.work = Gemm{}; break;
    case Op::kConv2d: kernel.work = Conv2d{}; break;
    case Op::kAttention: kernel.work = Attention{}; break;
    case Op::kMoe: kernel.work = Moe{}; break;
    case Op::kVector: kernel.work = Vector{}; break;
    case Op::kCollective: kernel.work = Collective{}; break;
    case Op::kCustom: kernel.work = Custom{}; break;
  }
  for (const Column& column : ColumnsOf(op)) {
    if (column.role == ColumnRole::kDim && column.otherwise != kRequired) SetDim(kernel, column.dim, column.otherwise);
  }
  return kernel;
}

// The operator's name: of a custom kernel unless it is a vector or collective.
// AnyWork and AnyRow are const or not.
template <class AnyWork>
auto& OperatorOf(AnyWork& work) {
  if (auto* vector = std::get_if<Vector>(&work)) return vector->op;
  if (auto* collective = std::get_if<Collective>(&work)) return collective->op;
  return std::get<Custom>(work).op;
}

// A launch field or the number of launches; nullptr for other columns.
template <class AnyRow>
auto CountOf(ColumnRole role, AnyRow& row) -> decltype(&row.kernels) {
  switch (role) {
    case ColumnRole::kGridX: return &row.kernel.launch.grid_x;
    case ColumnRole::kGridY: return &row.kernel.launch.grid_y;
    case ColumnRole::kGridZ: return &row.kernel.launch.grid_z;
    case ColumnRole::kBlockX: return &row.kernel.launch.block_x;
    case ColumnRole::kKernels: return &row.kernels;
    default: return nullptr;
  }
}

constexpr std::array kAllLayers = {Gemm::Layer::kGemm, Gemm::Layer::kLinear, Gemm::Layer::kBmm};
constexpr std::array kAllPhases = {Attention::Phase::kPrefill, Attention::Phase::kDecode};

absl::Status ReadLatency(const CsvReader& csv, std::size_t cell, double& latency_us) {
  GPUETA_ASSIGN_OR_RETURN(latency_us, csv.Number(cell));
  if (!(latency_us > 0)) return csv.ErrorInCell(cell, "must be above 0");
  if (latency_us > kLargestLatencyUs) {
    return csv.ErrorInCell(cell,
                           fmt::format("{} µs is more than {}; is the unit right?", latency_us, kLargestLatencyUs));
  }
  return absl::OkStatus();
}

// Reads one row after another of a file whose columns are known.
class RowReader {
 public:
  RowReader(const CsvReader& csv, Op op, const std::vector<std::size_t>& indices, const ReadOptions& options)
      : csv_(csv), options_(options) {
    prototype_.kernel = PrototypeOf(op);
    for (const std::size_t index : indices) columns_.push_back(&ColumnsOf(op)[index]);
  }

  absl::StatusOr<Measurement> Read() {
    Measurement row = prototype_;
    row.line = csv_.line();
    has_timing_ = has_kv_dtype_ = false;
    for (std::size_t i = 0; i < columns_.size(); ++i) GPUETA_RETURN_IF_ERROR(ReadCell(i, *columns_[i], row));
    if (!has_timing_) row.timing = row.device.starts_with("cpu") ? Timing::kEager : Timing::kKernel;
    if (auto* attention = std::get_if<Attention>(&row.kernel.work); attention != nullptr && !has_kv_dtype_) {
      attention->kv_dtype = row.kernel.dtype;
    }
    if (const absl::Status status = Validate(row.kernel); !status.ok()) return csv_.ErrorInRow(MessageOf(status));
    return row;
  }

 private:
  // Whether the column need not be looked at.
  bool Ignored(const Column& column) const {
    return options_.ignore_latency && (column.role == ColumnRole::kLatency || column.role == ColumnRole::kKernels);
  }

  bool MayBeEmpty(const Column& column) const {
    switch (column.role) {
      case ColumnRole::kDevice: return options_.ignore_latency;
      case ColumnRole::kDType:
      case ColumnRole::kPhase:
      case ColumnRole::kLabel:
      case ColumnRole::kLatency: return false;
      case ColumnRole::kDim: return column.otherwise != kRequired;
      default: return true;
    }
  }

  absl::Status ReadCell(std::size_t cell, const Column& column, Measurement& row) {
    const std::string_view text = csv_.cells()[cell];
    Work& work = row.kernel.work;
    if (Ignored(column)) return absl::OkStatus();
    if (text.empty()) return MayBeEmpty(column) ? absl::OkStatus() : csv_.ErrorInCell(cell, "is empty");
    switch (column.role) {
      case ColumnRole::kDevice: row.device = text; break;
      case ColumnRole::kSource: row.source = text; break;
      case ColumnRole::kTiming: has_timing_ = true; return csv_.Named(cell, kAllTimings, row.timing);
      case ColumnRole::kDType: return csv_.Named(cell, kAllDTypes, row.kernel.dtype);
      case ColumnRole::kKvDType:
        has_kv_dtype_ = true;
        return csv_.Named(cell, kAllDTypes, std::get<Attention>(work).kv_dtype);
      case ColumnRole::kPhase: return csv_.Named(cell, kAllPhases, std::get<Attention>(work).phase);
      case ColumnRole::kLayer: return csv_.Named(cell, kAllLayers, std::get<Gemm>(work).layer);
      case ColumnRole::kLabel: OperatorOf(work) = text; break;
      case ColumnRole::kBackend: std::get<Collective>(work).backend = text; break;
      case ColumnRole::kDistribution: std::get<Moe>(work).distribution = text; break;
      case ColumnRole::kDim: {
        GPUETA_ASSIGN_OR_RETURN(const std::int64_t value, csv_.Integer(cell));
        SetDim(row.kernel, column.dim, value);
        break;
      }
      case ColumnRole::kKernel: row.kernel.launch.kernel = text; break;
      case ColumnRole::kGridX:
      case ColumnRole::kGridY:
      case ColumnRole::kGridZ:
      case ColumnRole::kBlockX:
      case ColumnRole::kKernels: {
        std::int64_t& count = *CountOf(column.role, row);
        GPUETA_ASSIGN_OR_RETURN(count, csv_.Integer(cell));
        if (count < 0) return csv_.ErrorInCell(cell, "must not be negative");
        break;
      }
      case ColumnRole::kLatency: return ReadLatency(csv_, cell, row.latency_us);
    }
    return absl::OkStatus();
  }

  const CsvReader& csv_;
  ReadOptions options_;
  Measurement prototype_;
  std::vector<const Column*> columns_;
  bool has_timing_ = false;
  bool has_kv_dtype_ = false;
};

// Whether the row says something in this column.
bool Needs(const Column& column, const Measurement& row) {
  if (column.role == ColumnRole::kDim) return GetDim(row.kernel, column.dim) != column.otherwise;
  if (column.role == ColumnRole::kKernel) return !row.kernel.launch.kernel.empty();
  const auto* count = CountOf(column.role, row);
  return count != nullptr && *count != 0;
}

absl::Status AppendCell(const Column& column, const Measurement& row, std::string& line) {
  if (column.role == ColumnRole::kLatency && (!std::isfinite(row.latency_us) || row.latency_us < 0)) {
    return InvalidArgument("latency {} µs cannot be written", row.latency_us);
  }
  return AppendCsvCell(TextOf(column, row), line);
}

}  // namespace

std::string TextOf(const MeasurementColumn& column, const Measurement& row) {
  const Work& work = row.kernel.work;
  switch (column.role) {
    case ColumnRole::kDevice: return row.device;
    case ColumnRole::kSource: return row.source;
    case ColumnRole::kTiming: return std::string(Name(row.timing));
    case ColumnRole::kDType: return std::string(Name(row.kernel.dtype));
    case ColumnRole::kKvDType: return std::string(Name(std::get<Attention>(work).kv_dtype));
    case ColumnRole::kPhase: return std::string(Name(std::get<Attention>(work).phase));
    case ColumnRole::kLayer: return std::string(Name(std::get<Gemm>(work).layer));
    case ColumnRole::kLabel: return OperatorOf(work);
    case ColumnRole::kBackend: return std::get<Collective>(work).backend;
    case ColumnRole::kDistribution: return std::get<Moe>(work).distribution;
    case ColumnRole::kDim: return std::to_string(GetDim(row.kernel, column.dim));
    case ColumnRole::kKernel: return row.kernel.launch.kernel;
    case ColumnRole::kGridX:
    case ColumnRole::kGridY:
    case ColumnRole::kGridZ:
    case ColumnRole::kBlockX:
    case ColumnRole::kKernels: {
      const std::int64_t count = *CountOf(column.role, row);
      return count == 0 ? "" : std::to_string(count);
    }
    case ColumnRole::kLatency: {
      std::string text;
      if (row.latency_us > 0) AppendDecimal(row.latency_us, text);
      return text;
    }
  }
  return "";
}

absl::Status ReadMeasurements(std::istream& in, std::string_view file_name, const ReadOptions& options,
                              const std::function<absl::Status(Measurement&&)>& row) {
  GPUETA_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(in, file_name));
  GPUETA_ASSIGN_OR_RETURN(const Op op, OpOfColumns(csv));
  std::vector<CsvColumn> known;
  for (const Column& column : ColumnsOf(op)) {
    const bool waived =
        options.ignore_latency && (column.role == ColumnRole::kLatency || column.role == ColumnRole::kDevice);
    known.push_back({column.name, column.required && !waived});
  }
  GPUETA_ASSIGN_OR_RETURN(const std::vector<std::size_t> indices, MatchColumns(csv, known));
  RowReader reader(csv, op, indices, options);
  while (csv.Next()) {
    GPUETA_ASSIGN_OR_RETURN(Measurement measurement, reader.Read());
    GPUETA_RETURN_IF_ERROR(row(std::move(measurement)));
  }
  return csv.status();
}

absl::StatusOr<std::vector<Measurement>> ReadMeasurementFile(const std::string& path, const ReadOptions& options) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("{}: cannot be opened: {}", path, std::strerror(errno));
  std::vector<Measurement> rows;
  GPUETA_RETURN_IF_ERROR(ReadMeasurements(in, path, options, [&](Measurement&& row) {
    rows.push_back(std::move(row));
    return absl::OkStatus();
  }));
  return rows;
}

absl::StatusOr<Op> OpOfHeader(std::string_view header_line) {
  std::istringstream in{std::string(header_line)};
  GPUETA_ASSIGN_OR_RETURN(const CsvReader csv, CsvReader::Open(in, "header"));
  return OpOfColumns(csv);
}

absl::Status WriteMeasurements(std::ostream& out, const std::vector<Measurement>& measurements) {
  if (measurements.empty()) return InvalidArgument("there are no measurements to write");
  const Op op = measurements.front().kernel.op();
  std::vector<const Column*> columns;
  std::string line;
  for (const Column& column : ColumnsOf(op)) {
    const bool needed = std::ranges::any_of(measurements, [&](const Measurement& row) { return Needs(column, row); });
    if (!column.canonical && !needed) continue;
    columns.push_back(&column);
    line += (line.empty() ? "" : ",") + std::string(column.name);
  }
  out << line << '\n';
  for (const Measurement& row : measurements) {
    if (row.kernel.op() != op) {
      return InvalidArgument("a file holds one op, got {} and {}", Name(op), Name(row.kernel.op()));
    }
    line.clear();
    for (const Column* column : columns) {
      if (column != columns.front()) line += ',';
      GPUETA_RETURN_IF_ERROR(AppendCell(*column, row, line));
    }
    line += '\n';
    out << line;
  }
  return out.flush() ? absl::OkStatus() : Unavailable("measurements cannot be written; is the disk full?");
}

absl::Status WriteMeasurementFiles(const std::string& path, const std::vector<Measurement>& measurements) {
  if (measurements.empty()) return InvalidArgument("{}: there are no measurements to write", path);
  std::map<Op, std::vector<Measurement>> by_op;
  for (const Measurement& row : measurements) by_op[row.kernel.op()].push_back(row);
  for (const auto& [op, rows] : by_op) {
    std::ostringstream csv;
    GPUETA_RETURN_IF_ERROR(WriteMeasurements(csv, rows));
    GPUETA_RETURN_IF_ERROR(
        WriteWholeFile(by_op.size() == 1 ? path : fmt::format("{}.{}.csv", path, Name(op)), csv.str()));
  }
  return absl::OkStatus();
}

}  // namespace gpueta
