// The columns of each op's measurement CSV: the one list that reader and
// writer follow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/csv.h"
#include "core/ops/kernel.h"

namespace gpueta {

// What a column holds.
enum class ColumnRole : std::uint8_t {
  kDevice,
  kSource,
  kTiming,
  kDType,
  kKvDType,
  kPhase,
  kLayer,
  kLabel,  // Vector.op, Collective.op or Custom.op
  kBackend,
  kDistribution,
  kDim,
  kKernel,
  kGridX,
  kGridY,
  kGridZ,
  kBlockX,
  kKernels,
  kLatency,
};

struct MeasurementColumn {
  std::string_view name;
  ColumnRole role = ColumnRole::kDim;
  int dim = 0;                 // position in the op's dim list; kDim only
  std::int64_t otherwise = 0;  // the dim where no cell is given; kRequired if one must be
  bool required = false;       // the file must have the column
  bool canonical = true;       // of the canonical header; the others are written only where a row needs them
};

// In canonical order, the other columns at their natural place among them.
std::span<const MeasurementColumn> ColumnsOf(Op op);

// The op whose columns the file has; INVALID_ARGUMENT listing the canonical
// headers if no op, or more than one, fits.
absl::StatusOr<Op> OpOfColumns(const CsvReader& csv);

}  // namespace gpueta
