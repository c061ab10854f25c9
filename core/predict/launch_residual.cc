#include "core/predict/launch_residual.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "core/ops/forms.h"
#include "core/ops/launch.h"
#include "core/predict/wave.h"

namespace gpueta {
namespace {

constexpr double kClamp = 4;  // of standardised inputs, as in training

struct Output {
  double ln = 0;
  double spread = 1;
};

double Dot(const float* weights, std::span<const double> x) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(weights[i]) * x[i];
  return sum;
}

Output Evaluate(const Residual& residual, std::span<const double> inputs) {
  std::vector<double> x(inputs.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::clamp((inputs[i] - residual.feature_mean[i]) * residual.feature_scale[i], -kClamp, kClamp);
  const float* weights = residual.weights.data();
  for (const int width : residual.hidden) {
    const auto outputs = static_cast<std::size_t>(width);
    const float* biases = weights + outputs * x.size();
    std::vector<double> next(outputs);
    for (std::size_t o = 0; o < outputs; ++o) next[o] = std::max(0.0, Dot(weights + o * x.size(), x) + biases[o]);
    weights = biases + outputs;
    x = std::move(next);
  }
  Output out{Dot(weights, x) + weights[x.size()], 1};
  if (!residual.spread_weights.empty()) {
    const float* spread = residual.spread_weights.data();
    out.spread = std::clamp<double>(Dot(spread, x) + spread[x.size()], kMinSpread, kMaxSpread);
  }
  return out;
}

// Summed over dims; those that may be 0 count from 1.
double OctavesOutside(const Table& table, std::span<const double> dims) {
  double octaves = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const double low = std::max(table.dim_min[d], 1.0), high = std::max(table.dim_max[d], 1.0);
    const double value = std::max(dims[d], 1.0);
    octaves += std::max({std::log2(low / value), std::log2(value / high), 0.0});
  }
  return octaves;
}

}  // namespace

std::optional<Quantiles> LatencyOfLaunch(const Table& table, int variant, const Kernel& kernel,
                                         const Machine<double>& machine) {
  if (table.launch_residual.weights.empty()) return std::nullopt;
  const auto launch = LaunchFeatures(kernel, machine);
  if (!launch.has_value()) return std::nullopt;
  const TableKey& key = table.key;
  std::vector<double> dims(static_cast<std::size_t>(DimNamesOf(key.op).size));
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<double>(GetDim(kernel, static_cast<int>(d)));
  const std::size_t features = FormInfoOf(key.op, key.phase).features.size();
  std::vector<double> inputs(features + table.variants.size(), 0.0);
  FormFeatures(key.op, key.phase, machine, dims, std::span(inputs).first(features));
  inputs[features + static_cast<std::size_t>(variant)] = 1;
  inputs.insert(inputs.end(), launch->begin(), launch->end());
  const Output residual = Evaluate(table.launch_residual, inputs);
  const auto& stored = table.variants[static_cast<std::size_t>(variant)].theta;
  const std::vector<double> theta(stored.begin(), stored.end());
  const double octaves = OctavesOutside(table, dims);
  const double form_us = CustomLatencyUs(kernel, machine, table.kernel_configs)
                             .value_or(FormLatencyUs(key.op, key.phase, machine, theta, dims));
  const double p50 = form_us * std::exp(residual.ln / (1 + octaves));
  const double growth = table.launch_interval.growth_per_octave * octaves;
  return Quantiles{p50, p50 * std::exp(table.launch_interval.p90_ln * residual.spread + growth),
                   p50 * std::exp(table.launch_interval.p99_ln * residual.spread + growth)};
}

}  // namespace gpueta
