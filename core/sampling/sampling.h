// Which shapes to measure next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/spec.h"
#include "core/measurements/measurements.h"
#include "core/ops/table_key.h"
#include "core/sampling/lines.h"

namespace gpueta {

// Indices of `budget` candidates, none of them among `measured`, that fill the
// space of shapes: clusters in standardised log dims, one candidate nearest to
// each centre; the budget is split over tables and labels by count^0.75.
// Latencies of candidates are not read. Deterministic by seed. Fewer indices
// when there are fewer candidates. INVALID_ARGUMENT for candidates of more
// than one op.
absl::StatusOr<std::vector<std::size_t>> ChooseSpaceFilling(std::span<const Measurement> candidates,
                                                            std::span<const Measurement> measured, std::size_t budget,
                                                            std::uint64_t seed);

// What is expected of measuring the chosen rows of one table. All of it in
// ln(latency), root mean square over the candidates: 0.02 is about 2 %.
struct Expectation {
  TableKey key;              // the first of several that teach each other
  std::size_t measured = 0;  // rows
  std::size_t chosen = 0;    // rows
  double noise_ln = 0;       // between measurements of one kernel; without repeats what is usual at most
  double before_ln = 0;      // the model's own error: all that noise does not explain
  double after_ln = 0;       // the same with the chosen rows measured
  bool settled = false;      // fewer rows were chosen: before_ln is small against the noise
};

struct ActiveChoice {
  std::vector<std::size_t> rows;      // sorted
  std::vector<Expectation> expected;  // by table; empty where the space was filled
};

// As ChooseSpaceFilling, but by what the measured rows teach: a Gaussian process
// on what the family form leaves over, and the candidates that most reduce its
// variance over all candidates, weighted by how much it errs nearby. All
// measured rows teach, also where no candidate is; variance counts only at
// candidates. Tables with too few measured rows are filled first. Stops early
// where the model's own error is small against the noise.
absl::StatusOr<ActiveChoice> ChooseActive(std::span<const Measurement> candidates,
                                          std::span<const Measurement> measured, const DeviceSpec& spec,
                                          std::size_t budget, std::uint64_t seed);

// Shares of a budget for groups of candidates: by count^0.75, at least one each
// while it lasts, never more than there are.
std::vector<std::size_t> SplitBudget(const std::vector<std::vector<std::size_t>>& groups, std::size_t budget);

// Shapes of an op as models have them, for nodes that have no candidate file:
// `count` kernels, deterministic by seed. With a spec some of them stand on
// either side of where that device's latency steps: tiles, waves, the L2.
// INVALID_ARGUMENT for an op without a generator (collective, custom).
absl::StatusOr<std::vector<Kernel>> GenerateShapes(Op op, DType dtype, std::size_t count, std::uint64_t seed,
                                                   const DeviceSpec* spec = nullptr);

// The same along lines, `count` over all of them: what a line leaves free is
// drawn as GenerateShapes does. `dtype` where a line names none.
absl::StatusOr<std::vector<Kernel>> GenerateShapesOn(std::span<const Line> lines, DType dtype, std::size_t count,
                                                     std::uint64_t seed, const DeviceSpec* spec = nullptr);

}  // namespace gpueta
