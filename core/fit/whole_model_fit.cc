#include "core/fit/whole_model_fit.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <compare>
#include <set>
#include <tuple>
#include <utility>

#include "core/fit/least_squares.h"
#include "core/fit/model_residual_fit.h"
#include "core/fit/order_statistic.h"

namespace gpueta {
namespace {

// Of ln(time): what the form errs by on a machine it knows.
constexpr double kNoise = 0.12;
constexpr double kLeastNoise = 0.06;
// Errors are not normal: noise is taken for this much more than their median says.
constexpr double kNoiseFactor = 1.3;
constexpr double kLossScale = 0.2;
constexpr int kIterations = 12;
constexpr double kStep = 1e-3;  // of numerical derivatives

// FitBounded pulls in logits of the position between bounds, which are four
// deviations from the start: near it a logit is two deviations.
constexpr double kPull = 2 * kNoise;
// A machine's own times agree with each other better than machines do.
constexpr double kUpdatePull = 2 * 0.06;

// Machines of a pool are held this much nearer to the typical one than a machine
// nobody knows: what they share belongs to the common parameters.
constexpr double kHeld = 0.6;

std::string MachineName(const ModelTime& time) { return time.device + "\n" + time.run; }

WholeModel::Departure DepartureAt(std::span<const double> values) {
  WholeModel::Departure departure{};
  std::copy_n(values.begin(), departure.size(), departure.begin());
  return departure;
}

}  // namespace

std::vector<CountedKernel> PartsOf(std::span<const Kernel> kernels) {
  std::vector<CountedKernel> parts;
  const auto key = [](const RunKernel& k) { return std::tuple(k.kind, k.traffic, k.dtype, k.flops, k.bytes, k.depth); };
  std::map<decltype(key(RunKernel{})), std::size_t> seen;
  for (const Kernel& kernel : kernels) {
    const RunKernel run = RunKernelOf(kernel);
    const auto [at, added] = seen.emplace(key(run), parts.size());
    if (added) parts.push_back({run, 0});
    ++parts[at->second].count;
  }
  return parts;
}

double WholeModelLn(const ModelTime& time, const DeviceSpec& spec, std::span<const double> theta,
                    const WholeModel::Departure& departure) {
  std::map<DType, RunForm> forms;
  double device_us = 0;
  double issues = 0;
  const bool training = std::any_of(time.parts.begin(), time.parts.end(),
                                    [](const CountedKernel& part) { return IsOfTraining(part.kernel); });
  for (const CountedKernel& part : time.parts) {
    auto form = forms.find(part.kernel.dtype);
    if (form == forms.end())
      form = forms.emplace(part.kernel.dtype, RunForm(spec, part.kernel.dtype, theta, departure)).first;
    device_us += part.count * form->second.Time(part.kernel).us;
    issues += part.count * IssueWeight(part.kernel, theta, training);
  }
  return std::log(OverlapUs(device_us, issues * std::exp(departure[WholeModel::kLaunch])) + StepFixedUs(theta) +
                  time.input_bytes * std::exp(departure[WholeModel::kCopy]));
}

WholeModel FitWholeModels(std::span<const ModelTime> times, const std::map<std::string, DeviceSpec>& specs) {
  std::map<std::string, std::size_t> machines;
  std::map<std::string, std::set<std::string>> runs_of;
  for (const ModelTime& time : times) {
    machines.emplace(MachineName(time), 0);
    runs_of[time.device].insert(time.run);
  }
  WholeModel out;
  for (auto& [name, index] : machines) {
    index = out.machines.size();
    const std::size_t end = name.find('\n');
    out.machines.push_back({name.substr(0, end), name.substr(end + 1), {}, 0});
  }
  const std::span<const ParamSpec> common = WholeModelParams();
  std::vector<ParamSpec> params(common.begin(), common.end());
  for (std::size_t m = 0; m < machines.size(); ++m) {
    for (ParamSpec param : DepartureParams()) {
      param.low = param.start - kHeld * (param.start - param.low);
      param.high = param.start + kHeld * (param.high - param.start);
      params.push_back(param);
    }
  }
  std::vector<double> start;
  for (const ParamSpec& param : params) start.push_back(param.start);
  std::map<std::string, DeviceSpec> full;
  for (const auto& [slug, spec] : specs) full[slug] = WithInferredCells(spec);

  const auto departure_of = [&](std::span<const double> values, const ModelTime& time) {
    const std::size_t at = common.size() + WholeModel::kDepartures * machines.at(MachineName(time));
    return DepartureAt(values.subspan(at, WholeModel::kDepartures));
  };
  const auto error_of = [&](std::span<const double> values, const ModelTime& time) {
    return WholeModelLn(time, full.at(time.device), values.first(common.size()), departure_of(values, time)) -
           std::log(time.latency_us);
  };
  const std::vector<double> fitted =
      FitBounded(params, start, std::vector<bool>(params.size(), true), times.size(),
                 [&](std::span<const double> values, std::span<double> residuals) {
                   for (std::size_t i = 0; i < times.size(); ++i) {
                     const double weight = 1 / std::sqrt(static_cast<double>(runs_of.at(times[i].device).size()));
                     residuals[i] = weight * error_of(values, times[i]);
                   }
                 },
                 {.loss_scale = kLossScale, .pull = kPull, .max_iterations = kIterations});
  out.theta.assign(fitted.begin(), fitted.begin() + static_cast<std::ptrdiff_t>(common.size()));
  Eigen::VectorXd errors(static_cast<Eigen::Index>(times.size()));
  std::vector<ModelFeatures> models;
  for (std::size_t i = 0; i < times.size(); ++i) {
    WholeModel::Machine& machine = out.machines[machines.at(MachineName(times[i]))];
    machine.departure = departure_of(fitted, times[i]);
    ++machine.rows;
    errors[static_cast<Eigen::Index>(i)] = -error_of(fitted, times[i]);
    models.push_back(FeaturesOf(times[i].parts));
  }
  out.models = FitModelResidual(models, errors);
  out.noise_ln = std::max(kNoiseFactor * 1.4826 * Median(errors.cwiseAbs()), kLeastNoise);
  out.rows = static_cast<std::int64_t>(times.size());
  return out;
}

WholeModel UpdateWholeModel(const WholeModel& prior, std::span<const ModelTime> times, const DeviceSpec& sheet) {
  const DeviceSpec spec = WithInferredCells(sheet);
  constexpr std::size_t kValues = WholeModel::kDepartures;
  std::vector<ParamSpec> params;
  std::vector<double> start(prior.departure.begin(), prior.departure.end());
  for (std::size_t v = 0; v < kValues; ++v) {
    const double deviation = std::sqrt(prior.covariance[v][v]);
    params.push_back({DepartureParams()[v].name, start[v], start[v] - 4 * deviation, start[v] + 4 * deviation});
  }
  const auto n = static_cast<Eigen::Index>(times.size());
  std::vector<double> deviation_ln, precision_of;
  for (const ModelTime& time : times) {
    const ModelDeviation deviation = DeviationOf(prior, FeaturesOf(time.parts));
    deviation_ln.push_back(deviation.ln);
    precision_of.push_back(1 / std::max(deviation.variance, kLeastNoise * kLeastNoise));
  }
  const double typical_deviation = std::max(prior.noise_ln, kLeastNoise);
  const std::vector<double> mode = FitBounded(
      params, start, std::vector<bool>(kValues, true), times.size(),
      [&](std::span<const double> values, std::span<double> residuals) {
        for (std::size_t i = 0; i < times.size(); ++i) {
          const double ln = WholeModelLn(times[i], spec, prior.theta, DepartureAt(values)) + deviation_ln[i];
          residuals[i] = typical_deviation * std::sqrt(precision_of[i]) * (ln - std::log(times[i].latency_us));
        }
      },
      {.loss_scale = kLossScale, .pull = kUpdatePull, .max_iterations = kIterations});
  WholeModel out = prior;
  out.departure = DepartureAt(mode);
  out.rows = static_cast<std::int64_t>(times.size());

  Eigen::MatrixXd derivatives(n, kValues);
  for (std::size_t v = 0; v < kValues; ++v) {
    WholeModel::Departure up = out.departure, down = out.departure;
    up[v] += kStep;
    down[v] -= kStep;
    for (std::size_t i = 0; i < times.size(); ++i) {
      derivatives(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(v)) =
          (WholeModelLn(times[i], spec, prior.theta, up) - WholeModelLn(times[i], spec, prior.theta, down)) /
          (2 * kStep);
    }
  }
  const Eigen::VectorXd precisions = Eigen::Map<const Eigen::VectorXd>(precision_of.data(), n);
  Eigen::Matrix4d precision = derivatives.transpose() * precisions.asDiagonal() * derivatives;
  for (std::size_t v = 0; v < kValues; ++v)
    precision(static_cast<Eigen::Index>(v), static_cast<Eigen::Index>(v)) += 1 / prior.covariance[v][v];
  const Eigen::Matrix4d covariance = precision.llt().solve(Eigen::Matrix4d::Identity());
  for (std::size_t v = 0; v < kValues; ++v) {
    for (std::size_t w = 0; w < kValues; ++w)
      out.covariance[v][w] = covariance(static_cast<Eigen::Index>(v), static_cast<Eigen::Index>(w));
  }
  return out;
}

}  // namespace gpueta
