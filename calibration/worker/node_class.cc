#include "calibration/worker/node_class.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/measurements/table_of.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"

namespace gpueta {
namespace {

constexpr double kLeastDeviation = 0.05;
constexpr double kDeviations = 4;
constexpr double kDeviationsPerMad = 1.4826;
constexpr std::size_t kLeastNodes = 3;
// A median over fewer kernels says little of a table.
constexpr std::size_t kLeastKernels = 8;

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

// Rows of one kernel in one table, by the node that measured it.
struct SameKernel {
  Measurement row;
  std::map<std::string, std::vector<double>> us_by_node;

  // The median over nodes but those left out; 0 where none is left.
  double MedianUs(const std::set<std::string>& without) const {
    std::vector<double> medians;
    for (const auto& [node, us] : us_by_node) {
      if (!without.contains(node)) medians.push_back(MedianOf(us));
    }
    return medians.empty() ? 0 : MedianOf(medians);
  }
};

using Kernels = std::map<std::string, SameKernel>;  // by description

// ln of each node's median ratio to the median of all.
std::map<std::string, std::pair<double, std::size_t>> RatiosOf(const Kernels& kernels) {
  std::map<std::string, std::vector<double>> ratios;
  for (const auto& [description, kernel] : kernels) {
    if (kernel.us_by_node.size() < kLeastNodes) continue;
    const double of_class = kernel.MedianUs({});
    for (const auto& [node, us] : kernel.us_by_node) ratios[node].push_back(std::log(MedianOf(us) / of_class));
  }
  std::map<std::string, std::pair<double, std::size_t>> medians;
  for (const auto& [node, values] : ratios) medians[node] = {MedianOf(values), values.size()};
  return medians;
}

}  // namespace

NodeClass ClassOf(std::span<const NodeMeasurements> nodes) {
  std::map<TableKey, Kernels> tables;
  for (const NodeMeasurements& node : nodes) {
    for (const Measurement& row : node.rows) {
      const std::optional<TableKey> key = TableOf(row);
      if (!key.has_value()) continue;
      SameKernel& kernel = tables[*key][gpueta::Describe(row.kernel)];
      if (kernel.us_by_node.empty()) kernel.row = row;
      kernel.us_by_node[node.node].push_back(row.latency_us);
    }
  }
  NodeClass result;
  for (const auto& [key, kernels] : tables) {
    const auto ratios = RatiosOf(kernels);
    std::vector<double> sizes;
    for (const auto& [node, ratio] : ratios) sizes.push_back(std::abs(ratio.first));
    const double deviation = sizes.empty() ? 0 : kDeviationsPerMad * MedianOf(sizes);
    std::set<std::string> outliers;
    for (const auto& [node, ratio] : ratios) {
      const double size = std::abs(ratio.first);
      const bool outlier =
          ratio.second >= kLeastKernels && size > std::log1p(kLeastDeviation) && size > kDeviations * deviation;
      if (outlier) outliers.insert(node);
      result.deviations.push_back(
          {.node = node, .key = key, .kernels = ratio.second, .ratio = std::exp(ratio.first), .outlier = outlier});
    }
    for (const auto& [description, kernel] : kernels) {
      Measurement row = kernel.row;
      row.latency_us = kernel.MedianUs(outliers);
      if (row.latency_us > 0) result.rows.push_back(std::move(row));
    }
  }
  std::ranges::stable_sort(result.deviations, {}, &NodeDeviation::node);
  return result;
}

std::vector<NodeDeviation> DeviationsFrom(const Profile& of_class, const NodeMeasurements& node) {
  const Predictor predictor(of_class.spec, std::make_shared<const CompiledProfile>(LoadedProfile{.profile = of_class}),
                            nullptr);
  std::map<TableKey, std::vector<double>> ratios;
  for (const Measurement& row : node.rows) {
    const std::optional<TableKey> key = TableOf(row);
    if (!key.has_value() || of_class.Find(*key) == nullptr) continue;
    const absl::StatusOr<Estimate> estimate = predictor.EstimateKernel(row.kernel, {.timing = row.timing});
    if (estimate.ok()) ratios[*key].push_back(std::log(row.latency_us / estimate->latency_us.p50));
  }
  std::vector<NodeDeviation> deviations;
  for (const auto& [key, values] : ratios) {
    const double ratio = MedianOf(values);
    // The table's own error, of a median over so many kernels.
    const double error = of_class.Find(key)->cv_mape / std::sqrt(static_cast<double>(values.size()));
    const double size = std::abs(ratio);
    deviations.push_back({.node = node.node,
                          .key = key,
                          .kernels = values.size(),
                          .ratio = std::exp(ratio),
                          .outlier = values.size() >= kLeastKernels && size > std::log1p(kLeastDeviation) &&
                                     size > kDeviations * error});
  }
  return deviations;
}

std::string Describe(const NodeDeviation& deviation) {
  return fmt::format("{} is {:.0f} % {} than its class in {} (over {} kernels)", deviation.node,
                     100 * std::abs(deviation.ratio - 1), deviation.ratio > 1 ? "slower" : "faster",
                     gpueta::Describe(deviation.key), deviation.kernels);
}

}  // namespace gpueta
