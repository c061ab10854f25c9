#include "core/fit/synthetic_shapes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "core/ops/launch.h"

namespace gpueta {
namespace {

constexpr double kCrossShare = 0.3;  // of dims taken from another row
constexpr double kShiftShare = 0.5;  // of dims shifted
constexpr double kTiedShare = 0.8;   // of shapes whose tied dims stay tied
constexpr double kShiftLn = 0.25;    // standard deviation of the shift
constexpr std::size_t kAttemptsPerRow = 8;

struct Granularity {
  std::int64_t low = 0, high = 0, step = 1;
};

std::vector<Granularity> RangesOf(const TableData& data) {
  std::vector<Granularity> ranges;
  for (Eigen::Index d = 0; d < data.dims.cols(); ++d) {
    Granularity range;
    range.low = static_cast<std::int64_t>(data.dims.col(d).minCoeff());
    range.high = static_cast<std::int64_t>(data.dims.col(d).maxCoeff());
    std::int64_t step = 0;
    for (Eigen::Index r = 0; r < data.dims.rows(); ++r)
      step = std::gcd(step, static_cast<std::int64_t>(data.dims(r, d)));
    range.step = std::max<std::int64_t>(step, 1);
    ranges.push_back(range);
  }
  return ranges;
}

// Pairs of dims that are equal in every row (of self-attention, the lengths of
// queries and keys): the second follows the first.
std::vector<std::pair<int, int>> TiedDims(const TableData& data) {
  std::vector<std::pair<int, int>> tied;
  for (Eigen::Index a = 0; a < data.dims.cols(); ++a) {
    if (data.dims.col(a).minCoeff() == data.dims.col(a).maxCoeff()) continue;
    for (Eigen::Index b = a + 1; b < data.dims.cols(); ++b) {
      if (data.dims.col(a) == data.dims.col(b)) tied.emplace_back(static_cast<int>(a), static_cast<int>(b));
    }
  }
  return tied;
}

}  // namespace

TableData SyntheticShapes(const TableData& data, std::size_t count, std::uint64_t seed,
                          std::vector<Measurement>& storage) {
  const std::vector<Granularity> ranges = RangesOf(data);
  const std::vector<std::pair<int, int>> tied = TiedDims(data);
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::size_t> any_row(0, data.rows.size() - 1);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> normal(0, kShiftLn);
  storage.clear();
  storage.reserve(count);
  std::vector<std::size_t> parents;
  for (std::size_t attempt = 0; attempt < count * kAttemptsPerRow && storage.size() < count; ++attempt) {
    const std::size_t parent = any_row(random);
    const std::size_t other = any_row(random);
    Measurement row = *data.rows[parent];
    row.latency_us = 1;
    for (std::size_t d = 0; d < ranges.size(); ++d) {
      const Granularity& range = ranges[d];
      if (range.low == range.high) continue;
      const std::size_t source = uniform(random) < kCrossShare ? other : parent;
      auto value = static_cast<double>(GetDim(data.rows[source]->kernel, static_cast<int>(d)));
      if (uniform(random) < kShiftShare) value *= std::exp(normal(random));
      const auto stepped = static_cast<std::int64_t>(std::round(value / static_cast<double>(range.step))) * range.step;
      SetDim(row.kernel, static_cast<int>(d), std::clamp(stepped, range.low, range.high));
    }
    if (uniform(random) < kTiedShare) {
      for (const auto& [first, second] : tied) SetDim(row.kernel, second, GetDim(row.kernel, first));
    }
    // A dim that is part of the label stays with it.
    if (LabelOf(row.kernel) != LabelOf(data.rows[parent]->kernel) || !Validate(row.kernel).ok()) continue;
    row.kernel.launch = LaunchLike(data.rows[parent]->kernel, row.kernel);
    storage.push_back(std::move(row));
    parents.push_back(parent);
  }
  TableData out;
  out.key = data.key;
  out.labels = data.labels;
  const auto n = static_cast<Eigen::Index>(storage.size());
  out.dims.resize(n, data.dims.cols());
  out.ln_us = Eigen::VectorXd::Zero(n);
  for (Eigen::Index r = 0; r < n; ++r) {
    const auto i = static_cast<std::size_t>(r);
    out.rows.push_back(&storage[i]);
    out.machines.push_back(data.machines[parents[i]]);
    out.label_of_row.push_back(data.label_of_row[parents[i]]);
    for (Eigen::Index d = 0; d < data.dims.cols(); ++d)
      out.dims(r, d) = static_cast<double>(GetDim(storage[i].kernel, static_cast<int>(d)));
  }
  return out;
}

}  // namespace gpueta
