#include "core/fit/transferred_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/fit/deviation_fit.h"
#include "core/fit/exact_model.h"
#include "core/fit/family_fit.h"
#include "core/fit/interval_fit.h"
#include "core/fit/network.h"
#include "core/fit/synthetic_shapes.h"
#include "core/fit/table_fit.h"
#include "core/fit/wave_fit.h"
#include "core/profile/transfer.h"

namespace gpueta {
namespace {

// How much of a device unlike any other is left open by being like one relative.
constexpr double kLikeOne = 0.15;
// Prior probability that relatives together say it, that they say it but for
// this share of the variance that they leave open, that none does, and that one
// of them does alone.
constexpr double kTogether = 0.25;
constexpr double kExactly = 0.25;
constexpr double kOpenExactly = 0.01;
constexpr double kNone = 0.25;
constexpr double kAlone = 0.25;
// Rows that the pool's error counts as where the rows' own is estimated.
constexpr double kRowsOfPrior = 10;
// Rows from which the exact model of them alone is tried, and what it is
// distilled over.
constexpr Eigen::Index kLeastForExact = 24;
constexpr std::size_t kSyntheticShapes = 10000;
constexpr Eigen::Index kRepeats = 8;  // of measured rows, so that they count
constexpr int kDistilEpochs = 80;
constexpr double kLeastNoise = 0.003;

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
  // A device that needs no correction is not to get one from the noise of a few rows.
  Inherited exactly = out.front().inherited;
  exactly.variance *= kOpenExactly;
  out.push_back({exactly, kExactly, {}});
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

// The posterior of a device's deviation, and the table it gives.
struct Posterior {
  std::vector<double> deviation;
  Eigen::VectorXd held_out_ln;
  double variance = 0;  // of errors at the rows, noise included
  Table table;
};

// `data` is relabelled.
Posterior PosteriorOf(const TableData& data, const Table& pooled, std::span<const DeviceSpec> pool,
                      const DeviceSpec& device, std::span<const std::string> without) {
  std::vector<Hypothesis> hypotheses = HypothesesOf(pooled, pool, device, without);
  for (Hypothesis& h : hypotheses)
    h.fit = FitDeviation(data, pooled, device, h.inherited.deviation, h.inherited.variance);
  Weigh(hypotheses);
  const DeviationFit fit = Mixed(hypotheses);
  Posterior out{.deviation = {fit.mean.begin(), fit.mean.end()}, .held_out_ln = fit.held_out_ln, .table = {}};
  Table& table = out.table;
  table = TableOf(pooled, device, out.deviation, 1);
  table.relatives = RelativesOf(hypotheses);
  // The pool's interval, by how much nearer the rows are than a device left out.
  const double noise = pooled.pooling.noise_ln;
  const auto rows = static_cast<double>(data.size());
  const double left_open = DeviationOf(data, pooled, device, fit).squaredNorm() / rows;
  const double expected = noise * noise + left_open;
  out.variance = (kRowsOfPrior * expected + fit.held_out_ln.squaredNorm()) / (kRowsOfPrior + rows);
  const double ratio = std::sqrt(out.variance) / std::hypot(noise, static_cast<double>(pooled.pooling.device_ln));
  table.interval.p90_ln = static_cast<float>(pooled.interval.p90_ln * ratio);
  table.interval.p99_ln = static_cast<float>(pooled.interval.p99_ln * ratio);
  constexpr double kMeanOfDeviation = 0.8;  // mean absolute value of a normal error over its deviation
  table.cv_mape = static_cast<float>(
      (kRowsOfPrior * kMeanOfDeviation * std::sqrt(expected) + rows * fit.held_out_ln.cwiseAbs().mean()) /
      (kRowsOfPrior + rows));
  return out;
}

// The share of the posterior in a mean with the exact model that makes errors
// on rows not seen least, as far as these rows can tell: what another share
// gains counts less one standard error of it.
double ShareOfPosterior(const Eigen::VectorXd& posterior_ln, const Eigen::VectorXd& exact_ln, std::size_t parameters) {
  // The form's parameters were fitted to the rows held out as well: what that
  // flatters, by generalised cross-validation.
  const auto n = static_cast<double>(exact_ln.size());
  const auto p = static_cast<double>(parameters);
  const double flattered = std::sqrt((n + p) / std::max(n - p, 1.0));
  constexpr int kSteps = 20;
  double best = 1, least = std::numeric_limits<double>::max();
  for (int step = kSteps; step >= 0; --step) {
    const double share = static_cast<double>(step) / kSteps;
    const Eigen::ArrayXd change =
        (share * posterior_ln + (1 - share) * flattered * exact_ln).cwiseAbs() - posterior_ln.cwiseAbs();
    const double mean = change.mean();
    const double at_most = mean + std::sqrt((change - mean).square().mean() / n);
    if (at_most >= least) continue;
    least = at_most;
    best = share;
  }
  return best;
}

// Distils the mean of posterior and exact model into the table's network.
void MixWithExact(const TableData& data, const Table& pooled, const DeviceSpec& device, std::uint64_t seed,
                  const Posterior& posterior, Table& table) {
  const std::vector<Variant> variants = FitFamily(data);
  const ExactModel exact = ExactModel::Fit(data, variants, seed);
  const double share = ShareOfPosterior(posterior.held_out_ln, exact.held_out_ln(),
                                        FormInfoOf(data.key.op, data.key.phase).params.size());
  if (share > 0.99) return;
  const auto lesson = [&](const TableData& shapes) {
    TableData relabelled = shapes;
    Relabel(pooled, relabelled);
    const Eigen::VectorXd mixed =
        share * PredictWithDeviation(relabelled, pooled, device, posterior.deviation) + (1 - share) * exact.Ln(shapes);
    Eigen::MatrixXf features = relabelled.Features().cast<float>();
    return std::pair(std::move(features),
                     Eigen::VectorXf((mixed - PredictFamily(relabelled, table.variants)).cast<float>()));
  };
  std::vector<Measurement> storage;
  const auto [shape_x, shape_y] = lesson(SyntheticShapes(data, kSyntheticShapes, seed, storage));
  const auto [row_x, row_y] = lesson(data);
  Eigen::MatrixXf x(shape_x.rows() + kRepeats * row_x.rows(), shape_x.cols());
  Eigen::VectorXf y(x.rows());
  x << shape_x, row_x.replicate(kRepeats, 1);
  y << shape_y, row_y.replicate(kRepeats, 1);
  table.residual = TrainNetwork(x, y, {.hidden = {32, 32}, .epochs = kDistilEpochs, .seed = seed});
  const Eigen::VectorXd lost = (row_y - EvaluateNetwork(table.residual, row_x)).cast<double>();
  const Eigen::VectorXd held_out = share * posterior.held_out_ln + (1 - share) * exact.held_out_ln() + lost;
  const std::vector<HeldOut> errors = HeldOutErrors(held_out);
  table.interval = IntervalOf(errors, std::max(std::sqrt(exact.noise_variance()), kLeastNoise));
  table.cv_mape = static_cast<float>(MapeOf(errors));
  for (Relative& relative : table.relatives) relative.weight *= static_cast<float>(share);
}

class PooledPrior : public Prior {
 public:
  PooledPrior(const Table& pooled, DeviceSpec device, std::vector<double> deviation)
      : pooled_(pooled), device_(std::move(device)), deviation_(std::move(deviation)) {}
  Eigen::VectorXd Ln(const TableData& data) const override {
    TableData relabelled = data;
    Relabel(pooled_, relabelled);
    return PredictWithDeviation(relabelled, pooled_, device_, deviation_);
  }
  Eigen::MatrixXd Features(const TableData& data) const override { return data.Features(); }

 private:
  const Table& pooled_;
  DeviceSpec device_;
  std::vector<double> deviation_;
};

}  // namespace

std::unique_ptr<Prior> FitPooledPrior(const TableData& data, const Table& pooled, std::span<const DeviceSpec> pool,
                                      const DeviceSpec& device, std::span<const std::string> without) {
  TableData relabelled = data;
  Relabel(pooled, relabelled);
  return std::make_unique<PooledPrior>(pooled, device,
                                       PosteriorOf(relabelled, pooled, pool, device, without).deviation);
}

Table FitTransferred(const TableData& data, const Table& pooled, std::span<const DeviceSpec> pool,
                     const DeviceSpec& device, std::span<const std::string> without, std::uint64_t seed) {
  TableData relabelled = data;
  Relabel(pooled, relabelled);
  const Posterior posterior = PosteriorOf(relabelled, pooled, pool, device, without);
  Table table = posterior.table;
  if (data.size() >= kLeastForExact) MixWithExact(data, pooled, device, seed, posterior, table);
  table.transferred = true;
  table.rows = data.size();
  table.inter_gpu.clear();
  table.kernel_configs = FitKernelConfigs(data);
  for (Eigen::Index d = 0; d < data.dims.cols(); ++d) {
    double& low = table.dim_min[static_cast<std::size_t>(d)];
    double& high = table.dim_max[static_cast<std::size_t>(d)];
    low = std::min(low, data.dims.col(d).minCoeff());
    high = std::max(high, data.dims.col(d).maxCoeff());
  }
  const Eigen::VectorXd predicted = PredictFamily(relabelled, table.variants) +
                                    EvaluateNetwork(table.residual, relabelled.Features().cast<float>()).cast<double>();
  table.floor_us = static_cast<float>(std::exp(std::min(data.ln_us.minCoeff(), predicted.minCoeff())));
  const double noise = pooled.pooling.noise_ln;
  RememberMeasured(data, predicted, noise / 4, std::sqrt(posterior.variance), table);
  table.interval.measured_p90_ln = std::min(static_cast<float>(noise / 2), table.interval.p90_ln);
  table.interval.measured_p99_ln = std::min(static_cast<float>(noise * 1.5), table.interval.p99_ln);
  return table;
}

}  // namespace gpueta
