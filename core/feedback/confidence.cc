#include "core/feedback/confidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>
#include <unordered_map>

namespace gpueta {
namespace {

constexpr int kResamples = 400;  // the ends of the interval are then known to about a tenth of its width
constexpr double kTail = 0.025;  // on each side
constexpr double kZ = 1.959964;  // normal quantile of 1 − kTail
constexpr std::array kQuantiles = {0.5, 0.9, 0.99};

// The rows of each shape, shapes numbered in order of first occurrence.
struct Shapes {
  std::vector<std::uint32_t> of_row;
  std::vector<double> rows;  // of each shape
  std::size_t size() const { return rows.size(); }
};

Shapes ShapesOf(std::span<const PredictedAndObserved> pairs) {
  Shapes shapes;
  std::unordered_map<std::uint32_t, std::uint32_t> number;
  for (const PredictedAndObserved& pair : pairs) {
    const auto [it, is_new] = number.try_emplace(pair.shape, static_cast<std::uint32_t>(shapes.rows.size()));
    if (is_new) shapes.rows.push_back(0);
    shapes.rows[it->second] += 1;
    shapes.of_row.push_back(it->second);
  }
  return shapes;
}

std::vector<double> SumsOf(const Shapes& shapes, const std::vector<double>& values) {
  std::vector<double> sums(shapes.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[shapes.of_row[i]] += values[i];
  return sums;
}

using Times = std::vector<std::uint32_t>;  // how often each shape was drawn

// Calls visit(times) for each resample.
template <class Visit>
void ForEachResample(std::size_t shapes, std::uint64_t seed, const Visit& visit) {
  std::mt19937_64 random(seed);
  Times times(shapes);
  for (int i = 0; i < kResamples; ++i) {
    std::fill(times.begin(), times.end(), 0);
    // Two draws from each 64 bits: shape = 32 bits · shapes / 2^32.
    for (std::size_t s = 0; s < shapes; s += 2) {
      const std::uint64_t bits = random();
      ++times[(bits & 0xffffffffU) * shapes >> 32];
      if (s + 1 < shapes) ++times[(bits >> 32) * shapes >> 32];
    }
    visit(times);
  }
}

double Weighted(const Times& times, const std::vector<double>& values) {
  return std::inner_product(times.begin(), times.end(), values.begin(), 0.0);
}

// The tail at which percentiles of resamples of few shapes stand: as Student's
// t is wider than the normal, and a resample's variance less than the sample's
// by (g − 1)/g (Hesterberg, The American Statistician 69, 2015, section 5.3).
// Tends to kTail.
double TailFor(std::size_t shapes) {
  const double free = static_cast<double>(shapes) - 1;
  // Quantile of Student's t from the normal's (Cornish-Fisher; Abramowitz &
  // Stegun 26.7.5); 2e-3 off at 9 degrees of freedom, less above.
  const double z3 = kZ * kZ * kZ;
  const double t = kZ + (z3 + kZ) / (4 * free) + (5 * z3 * kZ * kZ + 16 * z3 + 3 * kZ) / (96 * free * free);
  return 0.5 * std::erfc(t * std::sqrt((free + 1) / free) / std::numbers::sqrt2);
}

Range PercentileRange(std::vector<double> values, std::size_t shapes) {
  std::sort(values.begin(), values.end());
  const double tail = TailFor(shapes);
  return {QuantileOfSorted(values, tail), QuantileOfSorted(values, 1 - tail)};
}

// Errors in ascending order with the shape each is of.
struct SortedErrors {
  std::vector<double> ape;
  std::vector<std::uint32_t> shape;
};

SortedErrors Sort(const std::vector<double>& ape, const Shapes& shapes) {
  std::vector<std::size_t> order(ape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ape[a] < ape[b]; });
  SortedErrors sorted;
  for (const std::size_t i : order) {
    sorted.ape.push_back(ape[i]);
    sorted.shape.push_back(shapes.of_row[i]);
  }
  return sorted;
}

// kQuantiles of the resample; the upper of the two nearest ranks, which among
// many is as good as between them.
std::array<double, kQuantiles.size()> QuantilesOf(const SortedErrors& sorted, const Times& times, double rows) {
  std::array<double, kQuantiles.size()> out{};
  double seen = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < sorted.ape.size() && next < kQuantiles.size(); ++i) {
    seen += times[sorted.shape[i]];
    while (next < kQuantiles.size() && seen > kQuantiles[next] * (rows - 1)) out[next++] = sorted.ape[i];
  }
  return out;
}

// Whether the largest of so many errors is above the quantile with a chance of
// 1 − kTail.
bool CanBound(double quantile, std::size_t shapes) { return std::pow(quantile, static_cast<double>(shapes)) <= kTail; }

// Of the share of rows where `hit` is 1. A share that all shapes agree on says
// as much as there are shapes.
Range ShareRange(const Shapes& shapes, const std::vector<double>& hit) {
  const auto n = static_cast<double>(hit.size());
  const auto g = static_cast<double>(shapes.size());
  const double p = std::reduce(hit.begin(), hit.end()) / n;
  const std::vector<double> hits = SumsOf(shapes, hit);
  double squares = 0;
  for (std::size_t s = 0; s < shapes.size(); ++s) squares += std::pow(hits[s] - p * shapes.rows[s], 2);
  const double variance = g / (g - 1) * squares / (n * n);
  const double independent = variance > 0 ? std::clamp(p * (1 - p) / variance, 1.0, n) : g;
  const double z2 = kZ * kZ / independent;
  const double centre = (p + z2 / 2) / (1 + z2);
  const double half = std::sqrt(z2 * (p * (1 - p) + z2 / 4)) / (1 + z2);
  // At 0 and 1 an end is the share itself but for rounding.
  return {std::max(0.0, std::min(p, centre - half)), std::min(1.0, std::max(p, centre + half))};
}

std::vector<double> ErrorsOf(std::span<const PredictedAndObserved> pairs) {
  std::vector<double> errors;
  for (const PredictedAndObserved& pair : pairs) errors.push_back(pair.predicted_us.p50 / pair.observed_us - 1);
  return errors;
}

std::vector<double> Absolute(std::vector<double> values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

std::vector<double> HitsOf(std::span<const PredictedAndObserved> pairs, double Quantiles::*quantile) {
  std::vector<double> hits;
  for (const PredictedAndObserved& pair : pairs)
    hits.push_back(pair.observed_us <= pair.predicted_us.*quantile ? 1 : 0);
  return hits;
}

}  // namespace

ErrorIntervals IntervalsOf(std::span<const PredictedAndObserved> pairs, std::uint64_t seed) {
  const Shapes shapes = ShapesOf(pairs);
  ErrorIntervals out{.shapes = static_cast<std::int64_t>(shapes.size())};
  if (shapes.size() < kFewestShapes) return out;
  const std::vector<double> errors = ErrorsOf(pairs);
  const std::vector<double> ape = Absolute(errors);
  const std::vector<double> error_sums = SumsOf(shapes, errors);
  const std::vector<double> ape_sums = SumsOf(shapes, ape);
  const SortedErrors sorted = Sort(ape, shapes);
  std::vector<double> mape;
  std::vector<double> bias;
  std::array<std::vector<double>, kQuantiles.size()> quantiles;
  ForEachResample(shapes.size(), seed, [&](const Times& times) {
    const double rows = Weighted(times, shapes.rows);
    mape.push_back(Weighted(times, ape_sums) / rows);
    bias.push_back(Weighted(times, error_sums) / rows);
    const auto values = QuantilesOf(sorted, times, rows);
    for (std::size_t q = 0; q < kQuantiles.size(); ++q) quantiles[q].push_back(values[q]);
  });
  out.mape = PercentileRange(std::move(mape), shapes.size());
  out.bias = PercentileRange(std::move(bias), shapes.size());
  const std::array to = {&out.median, &out.ape_p90, &out.ape_p99};
  for (std::size_t q = 0; q < kQuantiles.size(); ++q) {
    if (CanBound(kQuantiles[q], shapes.size())) *to[q] = PercentileRange(std::move(quantiles[q]), shapes.size());
  }
  out.below_p50 = ShareRange(shapes, HitsOf(pairs, &Quantiles::p50));
  out.below_p90 = ShareRange(shapes, HitsOf(pairs, &Quantiles::p90));
  out.below_p99 = ShareRange(shapes, HitsOf(pairs, &Quantiles::p99));
  return out;
}

PairedErrors ComparePaired(std::span<const PredictedAndObserved> first, std::span<const PredictedAndObserved> second,
                           std::uint64_t seed) {
  PairedErrors out;
  if (first.empty()) return out;
  std::vector<double> difference = Absolute(ErrorsOf(second));
  const std::vector<double> ape = Absolute(ErrorsOf(first));
  for (std::size_t i = 0; i < ape.size(); ++i) {
    difference[i] -= ape[i];
    out.first_nearer += difference[i] > 0 ? 1 : 0;
    out.second_nearer += difference[i] < 0 ? 1 : 0;
  }
  const Shapes shapes = ShapesOf(first);
  const std::vector<double> sums = SumsOf(shapes, difference);
  out.difference = std::reduce(sums.begin(), sums.end()) / static_cast<double>(first.size());
  if (shapes.size() < kFewestShapes) return out;
  std::vector<double> means;
  ForEachResample(shapes.size(), seed,
                  [&](const Times& times) { means.push_back(Weighted(times, sums) / Weighted(times, shapes.rows)); });
  out.interval = PercentileRange(std::move(means), shapes.size());
  return out;
}

bool ShowsDifference(const PairedErrors& paired) {
  return paired.interval.has_value() && (paired.interval->low > 0 || paired.interval->high < 0);
}

}  // namespace gpueta
