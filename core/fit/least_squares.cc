#include "core/fit/least_squares.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <vector>

namespace gpueta {
namespace {

constexpr double kEdge = 0.02;       // starts stay this far from their bounds, as a share of the range
constexpr double kStep = 1e-4;       // of the numerical derivatives, in logit units
constexpr double kConverged = 1e-7;  // relative decrease of the loss at which to stop
constexpr double kMaxLogit = 30;

double ToLogit(const ParamSpec& param, double theta) {
  const double share = std::clamp((theta - param.low) / (param.high - param.low), kEdge * 0.05, 1 - kEdge * 0.05);
  return std::log(share / (1 - share));
}

double FromLogit(const ParamSpec& param, double z) {
  return param.low + (param.high - param.low) / (1 + std::exp(-std::clamp(z, -kMaxLogit, kMaxLogit)));
}

}  // namespace

std::vector<double> FitBounded(std::span<const ParamSpec> params, std::span<const double> start,
                               const std::vector<bool>& free, std::size_t residual_count,
                               const std::function<void(std::span<const double>, std::span<double>)>& residuals,
                               const BoundedFitOptions& options) {
  std::vector<std::size_t> index;  // of the free parameters
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (free[i]) index.push_back(i);
  }
  std::vector<double> theta(start.begin(), start.end());
  const auto p = static_cast<Eigen::Index>(index.size());
  const auto n = static_cast<Eigen::Index>(residual_count);
  if (p == 0 || n == 0) return theta;

  Eigen::VectorXd z(p);
  for (Eigen::Index i = 0; i < p; ++i)
    z[i] = ToLogit(params[index[static_cast<std::size_t>(i)]], theta[index[static_cast<std::size_t>(i)]]);
  const Eigen::VectorXd z_start = z;

  const auto evaluate = [&](const Eigen::VectorXd& at, Eigen::VectorXd& r) {
    for (Eigen::Index i = 0; i < p; ++i) {
      theta[index[static_cast<std::size_t>(i)]] = FromLogit(params[index[static_cast<std::size_t>(i)]], at[i]);
    }
    residuals(theta, std::span(r.data(), static_cast<std::size_t>(n)));
    for (double& value : r) {
      if (!std::isfinite(value)) value = 1e3;  // far away: never chosen
    }
  };
  const double f2 = options.loss_scale * options.loss_scale;
  const auto loss_of = [&](const Eigen::VectorXd& at, const Eigen::VectorXd& r) {
    const double data = (2 * f2 * ((1 + r.array().square() / f2).sqrt() - 1)).sum();
    return data + options.pull * options.pull * (at - z_start).squaredNorm();
  };

  Eigen::VectorXd r(n), shifted(n), trial(n);
  evaluate(z, r);
  double loss = loss_of(z, r);
  double damping = 1e-2;
  Eigen::MatrixXd jacobian(n, p);
  for (int iteration = 0; iteration < options.max_iterations; ++iteration) {
    for (Eigen::Index i = 0; i < p; ++i) {
      Eigen::VectorXd at = z;
      at[i] += kStep;
      evaluate(at, shifted);
      jacobian.col(i) = (shifted - r) / kStep;
    }
    // First-order reweighting of the soft-L1 loss.
    const Eigen::VectorXd weights = (1 + r.array().square() / f2).rsqrt();
    Eigen::MatrixXd normal = jacobian.transpose() * weights.asDiagonal() * jacobian;
    Eigen::VectorXd gradient = jacobian.transpose() * (weights.asDiagonal() * r);
    normal.diagonal().array() += options.pull * options.pull;
    gradient += options.pull * options.pull * (z - z_start);
    bool improved = false;
    for (int attempt = 0; attempt < 12 && !improved; ++attempt) {
      Eigen::MatrixXd damped = normal;
      damped.diagonal().array() += damping * (normal.diagonal().array() + 1e-9);
      const Eigen::VectorXd next = z - damped.ldlt().solve(gradient);
      evaluate(next, trial);
      const double next_loss = loss_of(next, trial);
      if (std::isfinite(next_loss) && next_loss < loss) {
        improved = true;
        const bool done = loss - next_loss < kConverged * loss;
        z = next;
        r = trial;
        loss = next_loss;
        damping = std::max(damping * 0.3, 1e-9);
        if (done) iteration = options.max_iterations;
      } else {
        damping *= 4;
      }
    }
    if (!improved) break;
  }
  evaluate(z, r);  // leaves theta at the optimum
  return theta;
}

Eigen::VectorXd SolveNonnegative(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  const Eigen::Index n = a.cols();
  Eigen::VectorXd x = Eigen::VectorXd::Zero(n);
  std::vector<bool> passive(static_cast<std::size_t>(n), false);
  const Eigen::MatrixXd gram = a.transpose() * a;
  const Eigen::VectorXd ab = a.transpose() * b;
  const double tolerance = 1e-10 * std::max(1.0, ab.cwiseAbs().maxCoeff());
  const auto solve_passive = [&] {
    std::vector<Eigen::Index> set;
    for (Eigen::Index i = 0; i < n; ++i) {
      if (passive[static_cast<std::size_t>(i)]) set.push_back(i);
    }
    Eigen::VectorXd s = Eigen::VectorXd::Zero(n);
    const Eigen::VectorXd part = Eigen::MatrixXd(gram(set, set)).ldlt().solve(Eigen::VectorXd(ab(set)));
    for (std::size_t i = 0; i < set.size(); ++i) s[set[i]] = part[static_cast<Eigen::Index>(i)];
    return s;
  };
  for (Eigen::Index round = 0; round < 3 * n; ++round) {
    const Eigen::VectorXd gradient = ab - gram * x;
    Eigen::Index best = -1;
    for (Eigen::Index i = 0; i < n; ++i) {
      if (!passive[static_cast<std::size_t>(i)] && gradient[i] > tolerance &&
          (best < 0 || gradient[i] > gradient[best]))
        best = i;
    }
    if (best < 0) break;
    passive[static_cast<std::size_t>(best)] = true;
    for (;;) {
      const Eigen::VectorXd s = solve_passive();
      double step = 1;
      Eigen::Index blocking = -1;
      for (Eigen::Index i = 0; i < n; ++i) {
        if (!passive[static_cast<std::size_t>(i)] || s[i] > 0) continue;
        const double room = x[i] - s[i] > 0 ? x[i] / (x[i] - s[i]) : 0;
        if (room <= step) {
          step = room;
          blocking = i;
        }
      }
      x += step * (s - x);
      if (blocking < 0) break;
      x[blocking] = 0;
      passive[static_cast<std::size_t>(blocking)] = false;
    }
  }
  return x.cwiseMax(0);
}

}  // namespace gpueta
