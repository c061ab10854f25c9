#include "core/fit/deviation_fit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "core/fit/family_fit.h"
#include "core/fit/network.h"
#include "core/profile/transfer.h"

namespace gpueta {
namespace {

constexpr int kIterations = 8;
constexpr double kHuber = 1.3;      // deviations of noise beyond which errors count linearly
constexpr double kStep = 0.02;      // of the numerical derivatives, in ln
constexpr double kMostScale = 1.5;  // scales stay within a factor of e^1.5

std::vector<double> Values(const Eigen::VectorXd& v) { return {v.begin(), v.end()}; }

// Derivative of ln(latency) in each value of a deviation: [row][value].
Eigen::MatrixXd Derivatives(const TableData& data, const Table& pooled, const DeviceSpec& device,
                            const Eigen::VectorXd& at, const Eigen::MatrixXd& units) {
  Eigen::MatrixXd out(data.size(), at.size());
  TableData scaled = data;
  const DeviceScale sheet = ScaleOf(device, data.key);
  const auto form_at = [&](const Eigen::VectorXd& deviation) {
    scaled.scales.assign(data.rows.size(), Deviating(sheet, Values(deviation)));
    return PredictFamily(scaled, pooled.variants);
  };
  for (Eigen::Index i = 0; i < static_cast<Eigen::Index>(kScaleDeviations); ++i) {
    Eigen::VectorXd up = at, down = at;
    up[i] += kStep;
    down[i] -= kStep;
    out.col(i) = (form_at(up) - form_at(down)) / (2 * kStep);
  }
  out.rightCols(units.cols()) = units;
  return out;
}

Eigen::MatrixXd UnitsOf(const TableData& data, const Table& pooled) {
  if (pooled.residual.weights.empty()) return Eigen::MatrixXd(data.size(), 0);
  return LastHiddenUnits(pooled.residual, data.Features().cast<float>());
}

}  // namespace

void Relabel(const Table& pooled, TableData& data) {
  std::vector<int> index;
  for (const std::string& label : data.labels) {
    const auto it = std::find_if(pooled.variants.begin(), pooled.variants.end(),
                                 [&](const Variant& variant) { return variant.label == label; });
    index.push_back(it == pooled.variants.end() ? 0 : static_cast<int>(it - pooled.variants.begin()));
  }
  for (int& label : data.label_of_row) label = index[static_cast<std::size_t>(label)];
  data.labels.clear();
  for (const Variant& variant : pooled.variants) data.labels.push_back(variant.label);
}

Eigen::VectorXd PredictWithDeviation(const TableData& data, const Table& pooled, const DeviceSpec& device,
                                     std::span<const double> deviation) {
  TableData scaled = data;
  scaled.scales.assign(data.rows.size(), Deviating(ScaleOf(device, data.key), deviation));
  Eigen::VectorXd ln = PredictFamily(scaled, pooled.variants);
  if (pooled.residual.weights.empty() || data.rows.empty()) return ln;
  const Eigen::MatrixXf features = data.Features().cast<float>();
  const Eigen::Map<const Eigen::VectorXd> weights(deviation.data() + kScaleDeviations,
                                                  static_cast<Eigen::Index>(deviation.size() - kScaleDeviations));
  ln += EvaluateNetwork(pooled.residual, features).cast<double>();
  ln += LastHiddenUnits(pooled.residual, features) * weights;
  return ln;
}

DeviationFit FitDeviation(const TableData& data, const Table& pooled, const DeviceSpec& device,
                          std::span<const double> expected, double variance) {
  const auto values = static_cast<Eigen::Index>(pooled.pooling.deviation_sd.size());
  const double noise = pooled.pooling.noise_ln;
  const Eigen::Map<const Eigen::VectorXd> prior(expected.data(), values);
  Eigen::VectorXd precision(values);
  for (Eigen::Index i = 0; i < values; ++i) {
    const double sd = pooled.pooling.deviation_sd[static_cast<std::size_t>(i)];
    precision[i] = 1 / std::max(variance * sd * sd, 1e-12);
  }
  const Eigen::MatrixXd units = UnitsOf(data, pooled);
  DeviationFit fit;
  fit.mean = prior;
  Eigen::VectorXd residual, weights;
  Eigen::MatrixXd derivatives;
  Eigen::LLT<Eigen::MatrixXd> normal;
  const auto evaluate = [&] {
    residual = data.ln_us - PredictWithDeviation(data, pooled, device, Values(fit.mean));
    weights = (kHuber * noise / residual.array().abs().max(1e-12)).min(1.0);
    derivatives = Derivatives(data, pooled, device, fit.mean, units);
    Eigen::MatrixXd hessian = derivatives.transpose() * weights.asDiagonal() * derivatives / (noise * noise);
    hessian.diagonal() += precision;
    normal.compute(hessian);
  };
  for (int i = 0; i < kIterations; ++i) {
    evaluate();
    const Eigen::VectorXd gradient = derivatives.transpose() * (weights.asDiagonal() * residual) / (noise * noise) +
                                     precision.cwiseProduct(prior - fit.mean);
    const Eigen::VectorXd step = normal.solve(gradient);
    fit.mean += step;
    for (Eigen::Index s = 0; s < static_cast<Eigen::Index>(kScaleDeviations); ++s)
      fit.mean[s] = std::clamp(fit.mean[s], -kMostScale, kMostScale);
    if (step.cwiseAbs().maxCoeff() < 1e-4) break;
  }
  evaluate();
  fit.covariance = normal.solve(Eigen::MatrixXd::Identity(values, values));
  // Huber's loss of the rows, the prior's density, and the volume left of it.
  double loss = 0;
  for (double r : residual) {
    const double e = std::abs(r) / noise;
    loss += e <= kHuber ? e * e / 2 : kHuber * (e - kHuber / 2);
  }
  const Eigen::VectorXd moved = fit.mean - prior;
  double ln_volume = precision.array().log().sum() / 2;
  for (Eigen::Index i = 0; i < values; ++i) ln_volume -= std::log(normal.matrixL()(i, i));
  fit.ln_evidence = -loss - moved.dot(precision.cwiseProduct(moved)) / 2 + ln_volume;
  fit.held_out_ln.resize(data.size());
  for (Eigen::Index r = 0; r < data.size(); ++r) {
    const double leverage =
        weights[r] * derivatives.row(r).dot(fit.covariance * derivatives.row(r).transpose()) / (noise * noise);
    fit.held_out_ln[r] = residual[r] / std::max(1 - leverage, 0.05);
  }
  return fit;
}

Eigen::VectorXd DeviationOf(const TableData& data, const Table& pooled, const DeviceSpec& device,
                            const DeviationFit& fit) {
  const Eigen::MatrixXd derivatives = Derivatives(data, pooled, device, fit.mean, UnitsOf(data, pooled));
  return (derivatives * fit.covariance).cwiseProduct(derivatives).rowwise().sum().cwiseMax(0).cwiseSqrt();
}

}  // namespace gpueta
