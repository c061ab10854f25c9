#include "core/measurements/columns.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using Columns = std::vector<MeasurementColumn>;

constexpr MeasurementColumn Text(std::string_view name, ColumnRole role, bool required = false) {
  return {.name = name, .role = role, .required = required};
}

template <class Dims>
void AddDims(const Dims& dims, Columns& columns) {
  int position = 0;
  for (const auto& dim : dims) {
    columns.push_back({.name = dim.name,
                       .role = ColumnRole::kDim,
                       .dim = position++,
                       .otherwise = dim.otherwise,
                       .required = dim.required(),
                       .canonical = dim.in_csv});
  }
}

void AddDTypes(Op op, Columns& columns) {
  columns.push_back(Text("dtype", ColumnRole::kDType, true));
  if (op == Op::kAttention) columns.push_back(Text("kv_dtype", ColumnRole::kKvDType));
}

// What is computed, between the timing and the launch.
void AddWork(Op op, Columns& columns) {
  if (op == Op::kCollective) {
    columns.push_back(Text("backend", ColumnRole::kBackend, true));
    columns.push_back(Text("collective", ColumnRole::kLabel, true));
  }
  AddDTypes(op, columns);
  switch (op) {
    case Op::kGemm:
      columns.push_back(Text("layer", ColumnRole::kLayer));
      AddDims(kGemmDims, columns);
      break;
    case Op::kConv2d: AddDims(kConv2dDims, columns); break;
    case Op::kAttention:
      columns.push_back(Text("phase", ColumnRole::kPhase, true));
      AddDims(kAttentionDims, columns);
      break;
    case Op::kMoe:
      AddDims(kMoeDims, columns);
      columns.push_back(Text("distribution", ColumnRole::kDistribution, true));
      break;
    case Op::kVector:
      columns.push_back(Text("name", ColumnRole::kLabel, true));
      AddDims(kVectorDims, columns);
      break;
    case Op::kCollective: AddDims(kCollectiveDims, columns); break;
    case Op::kCustom:
      columns.push_back(Text("name", ColumnRole::kLabel, true));
      AddDims(kCustomDims, columns);
      break;
  }
}

// The public tables name an attention's kernel but not its grid, and neither
// for a MoE or a collective, which are many kernels.
void AddLaunch(Op op, Columns& columns) {
  const bool many_kernels = op == Op::kMoe || op == Op::kCollective;
  const bool geometry = !many_kernels && op != Op::kAttention;
  columns.push_back({.name = "kernel", .role = ColumnRole::kKernel, .canonical = !many_kernels});
  columns.push_back({.name = "grid_x", .role = ColumnRole::kGridX, .canonical = geometry});
  columns.push_back({.name = "grid_y", .role = ColumnRole::kGridY, .canonical = geometry});
  columns.push_back({.name = "grid_z", .role = ColumnRole::kGridZ, .canonical = geometry});
  columns.push_back({.name = "block_x", .role = ColumnRole::kBlockX, .canonical = geometry});
  columns.push_back({.name = "kernels", .role = ColumnRole::kKernels, .canonical = geometry});
}

Columns MakeColumns(Op op) {
  Columns columns = {Text("device", ColumnRole::kDevice, true), Text("source", ColumnRole::kSource),
                     Text("timing", ColumnRole::kTiming)};
  AddWork(op, columns);
  AddLaunch(op, columns);
  columns.push_back(Text("latency_us", ColumnRole::kLatency, true));
  return columns;
}

std::string CanonicalHeader(Op op) {
  std::string header;
  for (const MeasurementColumn& column : ColumnsOf(op)) {
    if (!column.canonical) continue;
    if (!header.empty()) header += ',';
    header += column.name;
  }
  return header;
}

// Columns that say what is computed, not how it was measured.
bool TellsOp(const MeasurementColumn& column) {
  switch (column.role) {
    case ColumnRole::kDim:
    case ColumnRole::kLabel:
    case ColumnRole::kLayer:
    case ColumnRole::kPhase:
    case ColumnRole::kKvDType:
    case ColumnRole::kBackend:
    case ColumnRole::kDistribution: return true;
    default: return false;
  }
}

}  // namespace

std::span<const MeasurementColumn> ColumnsOf(Op op) {
  static const std::array<Columns, kAllOps.size()> all = [] {
    std::array<Columns, kAllOps.size()> columns;
    for (const Op each : kAllOps) columns[static_cast<std::size_t>(each)] = MakeColumns(each);
    return columns;
  }();
  return all[static_cast<std::size_t>(op)];
}

absl::StatusOr<Op> OpOfColumns(const CsvReader& csv) {
  // The op with the most of its columns here, so that one missing or misspelt
  // column is reported as such. With less than half of them it is some other
  // kind of file.
  std::vector<Op> best;
  std::int64_t best_given = 0;
  for (const Op op : kAllOps) {
    std::int64_t given = 0;
    std::int64_t wanted = 0;
    for (const MeasurementColumn& column : ColumnsOf(op)) {
      if (!TellsOp(column)) continue;
      const bool has = std::ranges::find(csv.columns(), column.name) != csv.columns().end();
      given += has ? 1 : 0;
      wanted += column.canonical ? 1 : 0;
    }
    if (2 * given < wanted || given < best_given) continue;
    if (given > best_given) best.clear();
    best_given = given;
    best.push_back(op);
  }
  if (best.size() == 1) return best.front();
  std::string headers;
  for (const Op op : kAllOps) headers += fmt::format("; {}: {}", Name(op), CanonicalHeader(op));
  return csv.ErrorInRow("the header is of no kind of measurement; the known headers are" + headers.substr(1));
}

}  // namespace gpueta
