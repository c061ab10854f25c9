// Measured kernels: the canonical CSV and its table type.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/measurements/columns.h"
#include "core/ops/kernel.h"
#include "core/ops/timing.h"

namespace gpueta {

// One row of a measurement CSV.
struct Measurement {
  std::string device;  // slug
  std::string source;  // where the row comes from
  Timing timing = Timing::kKernel;
  Kernel kernel;
  double latency_us = 0;     // 0 when latencies were not read
  std::int64_t kernels = 0;  // launches of the op, 0 if unknown; measured, so never an input of an estimate
  std::int64_t line = 0;     // in its file, the header being line 1
};

struct ReadOptions {
  // Skip the columns latency_us and kernels without looking at them, and accept
  // files that lack latency_us or device (the row's device is then empty): what
  // `predict --kernels` and `plan` do.
  bool ignore_latency = false;
};

// Latencies above this (11 days) are taken for a wrong unit.
inline constexpr double kLargestLatencyUs = 1e12;

// Reads a CSV of one op, row by row, calling `row` for each. The header says
// which op it is (columns.h lists them); column order is free. Columns source,
// timing, kernel, grid_*, block_x, kernels, kv_dtype, layer and dims with a
// default may be absent, and their cells empty: timing is then kernel (eager
// on devices whose slug begins with "cpu"), kv_dtype the row's dtype, layer
// gemm. Every kernel passes Validate.
//
// Stops at the first error: INVALID_ARGUMENT with file, line and column for a
// missing or unknown column, a bad number, NaN, a latency that is not positive
// or a dim out of range; whatever `row` returns if that is not OK.
absl::Status ReadMeasurements(std::istream& in, std::string_view file_name, const ReadOptions& options,
                              const std::function<absl::Status(Measurement&&)>& row);

// What the row has in a column of its op, as the CSV writes it but unquoted;
// empty where the row says nothing.
std::string TextOf(const MeasurementColumn& column, const Measurement& row);

// The rows of a file in order. NOT_FOUND if it cannot be opened.
absl::StatusOr<std::vector<Measurement>> ReadMeasurementFile(const std::string& path, const ReadOptions& options = {});

// The op of a file by its header line; INVALID_ARGUMENT listing the known
// headers.
absl::StatusOr<Op> OpOfHeader(std::string_view header_line);

// Header and rows of the canonical CSV. Columns outside the canonical header
// (dilation, uneven padding, the launch of an op that has none) are added only
// if a row needs them. Latencies have 6 significant digits, never an exponent;
// a latency of 0 is an empty cell. INVALID_ARGUMENT for no measurements, more
// than one op, a latency that is negative or not finite, or text with control
// characters; UNAVAILABLE when `out` fails.
absl::Status WriteMeasurements(std::ostream& out, const std::vector<Measurement>& measurements);

// The same to files: `path` itself for rows of one op, else PATH.OP.csv for
// each op. Each file is written all or nothing.
absl::Status WriteMeasurementFiles(const std::string& path, const std::vector<Measurement>& measurements);

}  // namespace gpueta
