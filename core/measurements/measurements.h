// Measured kernels: the canonical CSV and its table type.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/kernel.h"
#include "core/ops/table_key.h"

namespace gpueta {

// One row of a measurement CSV.
struct Measurement {
  std::string device;  // slug
  std::string source;  // where the row comes from
  Timing timing = Timing::kKernel;
  Kernel kernel;
  double latency_us = 0;  // 0 when latencies were not read
  std::int64_t line = 0;  // in its file, the header being line 1
};

struct ReadOptions {
  // Skip the latency column without looking at it, and accept files that have
  // none: what `predict --kernels` and `plan` do.
  bool ignore_latency = false;
};

// Reads a CSV of one op, row by row, calling `row` for each. The header says
// which op it is (data/README.md lists the headers); column order is free.
// Stops at the first error: INVALID_ARGUMENT with file, line and column for a
// missing or unknown column, a bad number, NaN, a latency that is not positive
// or a dim out of range; whatever `row` returns if that is not OK.
absl::Status ReadMeasurements(std::istream& in, std::string_view file_name, const ReadOptions& options,
                              const std::function<absl::Status(Measurement&&)>& row);
absl::StatusOr<std::vector<Measurement>> ReadMeasurementFile(const std::string& path, const ReadOptions& options = {});

// The op of a file by its header line; INVALID_ARGUMENT listing the known
// headers.
absl::StatusOr<Op> OpOfHeader(std::string_view header_line);

// Header and rows of the canonical CSV. All measurements must be of one op.
// Columns for dims outside the canonical header (dilation, uneven padding) are
// added only if a row needs them. Latencies have 6 significant digits, never
// an exponent.
absl::Status WriteMeasurements(std::ostream& out, const std::vector<Measurement>& measurements);

}  // namespace gpueta
