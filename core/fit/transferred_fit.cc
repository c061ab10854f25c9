#include "core/fit/transferred_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/fit/deviation_fit.h"
#include "core/fit/family_fit.h"
#include "core/fit/table_fit.h"
#include "core/profile/transfer.h"

namespace gpueta {
namespace {

// How much of a device unlike any other is left open by being like one relative.
constexpr double kLikeOne = 0.15;
// Prior probability that relatives together say it, that none does, and that
// one of them does alone.
constexpr double kTogether = 0.5;
constexpr double kNone = 0.25;
constexpr double kAlone = 0.25;
// Rows that the pool's error counts as where the rows' own is estimated.
constexpr double kRowsOfPrior = 10;
// Rows from which the device's own say more than others' do.
constexpr Eigen::Index kMostlyOwn = 100;

// One thing that relatives may say.
struct Hypothesis {
  Inherited inherited;
  double probability = 0;
  DeviationFit fit;
};

std::vector<Hypothesis> HypothesesOf(const Table& pooled, std::span<const DeviceSpec> pool, const DeviceSpec& device,
                                     std::span<const std::string> without) {
  std::vector<Hypothesis> out;
  out.push_back({InheritedBy(pooled, pool, device, without), kTogether, {}});
  Inherited nothing;
  nothing.deviation.assign(pooled.pooling.deviation_sd.size(), 0);
  out.push_back({nothing, kNone, {}});
  for (const Deviation& known : pooled.pooling.deviations) {
    if (std::find(without.begin(), without.end(), known.device) != without.end()) continue;
    Inherited alone;
    alone.deviation.assign(known.values.begin(), known.values.end());
    alone.variance = kLikeOne;
    alone.relatives = {{known.device, 1}};
    out.push_back({alone, kAlone / static_cast<double>(pooled.pooling.deviations.size()), {}});
  }
  return out;
}

// Posterior probabilities from evidences.
void Weigh(std::vector<Hypothesis>& hypotheses) {
  double best = hypotheses.front().fit.ln_evidence;
  for (const Hypothesis& h : hypotheses) best = std::max(best, h.fit.ln_evidence);
  double sum = 0;
  for (Hypothesis& h : hypotheses) sum += h.probability *= std::exp(h.fit.ln_evidence - best);
  for (Hypothesis& h : hypotheses) h.probability /= sum;
}

// The mixture's mean and covariance; errors of rows held out are averaged too.
DeviationFit Mixed(const std::vector<Hypothesis>& hypotheses) {
  DeviationFit mixed;
  const DeviationFit& first = hypotheses.front().fit;
  mixed.mean = Eigen::VectorXd::Zero(first.mean.size());
  mixed.covariance = Eigen::MatrixXd::Zero(first.mean.size(), first.mean.size());
  mixed.held_out_ln = Eigen::VectorXd::Zero(first.held_out_ln.size());
  for (const Hypothesis& h : hypotheses) {
    mixed.mean += h.probability * h.fit.mean;
    mixed.held_out_ln += h.probability * h.fit.held_out_ln;
  }
  for (const Hypothesis& h : hypotheses) {
    const Eigen::VectorXd apart = h.fit.mean - mixed.mean;
    mixed.covariance += h.probability * (h.fit.covariance + apart * apart.transpose());
  }
  return mixed;
}

std::vector<Relative> RelativesOf(const std::vector<Hypothesis>& hypotheses) {
  constexpr float kLeastWeight = 0.01F;
  std::map<std::string, float> weights;
  for (const Hypothesis& h : hypotheses) {
    for (const Relative& relative : h.inherited.relatives)
      weights[relative.device] += static_cast<float>(h.probability) * relative.weight;
  }
  std::vector<Relative> out;
  for (const auto& [device, weight] : weights) {
    if (std::abs(weight) >= kLeastWeight) out.push_back({device, weight});
  }
  std::stable_sort(out.begin(), out.end(), [](const Relative& a, const Relative& b) { return a.weight > b.weight; });
  return out;
}

}  // namespace

Table FitTransferred(TableData data, const Table& pooled, std::span<const DeviceSpec> pool, const DeviceSpec& device,
                     std::span<const std::string> without) {
  Relabel(pooled, data);
  std::vector<Hypothesis> hypotheses = HypothesesOf(pooled, pool, device, without);
  for (Hypothesis& h : hypotheses)
    h.fit = FitDeviation(data, pooled, device, h.inherited.deviation, h.inherited.variance);
  Weigh(hypotheses);
  const DeviationFit fit = Mixed(hypotheses);
  const std::vector<double> deviation(fit.mean.begin(), fit.mean.end());
  Table table = TableOf(pooled, device, deviation, 1);
  table.relatives = RelativesOf(hypotheses);
  table.transferred = data.size() < kMostlyOwn;
  table.rows = data.size();
  for (Eigen::Index d = 0; d < data.dims.cols(); ++d) {
    table.dim_min[static_cast<std::size_t>(d)] =
        std::min(table.dim_min[static_cast<std::size_t>(d)], data.dims.col(d).minCoeff());
    table.dim_max[static_cast<std::size_t>(d)] =
        std::max(table.dim_max[static_cast<std::size_t>(d)], data.dims.col(d).maxCoeff());
  }
  table.floor_us = static_cast<float>(std::exp(
      std::min(data.ln_us.minCoeff(), PredictWithDeviation(data, pooled, device, deviation).minCoeff())));
  // The pool's interval, by how much nearer the rows are than a device left out.
  const double noise = pooled.pooling.noise_ln;
  const double left_open = DeviationOf(data, pooled, device, fit).squaredNorm() / static_cast<double>(data.size());
  const double expected = noise * noise + left_open;
  const double squares = (kRowsOfPrior * expected + fit.held_out_ln.squaredNorm()) /
                         (kRowsOfPrior + static_cast<double>(data.size()));
  const double ratio = std::sqrt(squares) / std::hypot(noise, static_cast<double>(pooled.pooling.device_ln));
  table.interval.p90_ln = static_cast<float>(pooled.interval.p90_ln * ratio);
  table.interval.p99_ln = static_cast<float>(pooled.interval.p99_ln * ratio);
  double absolute = 0;
  for (const double ln : fit.held_out_ln) absolute += std::abs(std::expm1(-ln));
  table.cv_mape = static_cast<float>((kRowsOfPrior * std::min(1.0, 0.8 * std::sqrt(expected)) + absolute) /
                                     (kRowsOfPrior + static_cast<double>(data.size())));
  const Eigen::VectorXd predicted = PredictWithDeviation(data, pooled, device, deviation);
  RememberMeasured(data, predicted, noise / 4, std::sqrt(squares), table);
  table.interval.measured_p90_ln = std::min(static_cast<float>(noise / 2), table.interval.p90_ln);
  table.interval.measured_p99_ln = std::min(static_cast<float>(noise * 1.5), table.interval.p99_ln);
  table.inter_gpu.clear();
  return table;
}

}  // namespace gpueta
