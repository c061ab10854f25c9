// Which shapes to measure next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/spec.h"
#include "core/measurements/measurements.h"

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

// As ChooseSpaceFilling, but by what the measured rows teach: a Gaussian process
// on what the family form leaves over, and the candidates that most reduce its
// variance, weighted by how much it errs nearby. Tables with too few measured
// rows are filled first.
absl::StatusOr<std::vector<std::size_t>> ChooseActive(std::span<const Measurement> candidates,
                                                      std::span<const Measurement> measured, const DeviceSpec& spec,
                                                      std::size_t budget, std::uint64_t seed);

// Shares of a budget for groups of candidates: by count^0.75, at least one each
// while it lasts, never more than there are.
std::vector<std::size_t> SplitBudget(const std::vector<std::vector<std::size_t>>& groups, std::size_t budget);

// Shapes of an op as models have them, for nodes that have no candidate file:
// `count` kernels, deterministic by seed. INVALID_ARGUMENT for an op without a
// generator (collective, custom).
absl::StatusOr<std::vector<Kernel>> GenerateShapes(Op op, DType dtype, std::size_t count, std::uint64_t seed);

}  // namespace gpueta
