#include "core/fit/minimise.h"

#include <cmath>
#include <deque>

namespace gpueta {
namespace {

constexpr std::size_t kHistory = 8;
constexpr double kSufficientDecrease = 1e-4;
constexpr int kMaxBacktracks = 20;
constexpr double kConverged = 1e-8;  // relative

struct Correction {
  Eigen::VectorXd step, gradient_change;
  double inverse_curvature;
};

// −H·gradient by the two-loop recursion.
Eigen::VectorXd Direction(const std::deque<Correction>& history, const Eigen::VectorXd& gradient) {
  Eigen::VectorXd q = gradient;
  std::vector<double> alphas;
  for (auto c = history.rbegin(); c != history.rend(); ++c) {
    alphas.push_back(c->inverse_curvature * c->step.dot(q));
    q -= alphas.back() * c->gradient_change;
  }
  if (!history.empty()) {
    const Correction& last = history.back();
    q *= last.step.dot(last.gradient_change) / last.gradient_change.squaredNorm();
  } else {
    q /= std::max(1.0, q.norm());  // a first step of length 1 at most
  }
  for (const Correction& c : history) {
    const double beta = c.inverse_curvature * c.gradient_change.dot(q);
    q += (alphas.back() - beta) * c.step;
    alphas.pop_back();
  }
  return -q;
}

}  // namespace

Eigen::VectorXd Minimise(const std::function<double(const Eigen::VectorXd&, Eigen::VectorXd&)>& f, Eigen::VectorXd x,
                         const Eigen::VectorXd& low, const Eigen::VectorXd& high, int iterations) {
  Eigen::VectorXd gradient(x.size()), next_gradient(x.size());
  double value = f(x, gradient);
  std::deque<Correction> history;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    Eigen::VectorXd direction = Direction(history, gradient);
    if (direction.dot(gradient) >= 0) {
      history.clear();
      direction = -gradient / std::max(1.0, gradient.norm());
    }
    bool accepted = false;
    double step = 1;
    for (int attempt = 0; attempt < kMaxBacktracks && !accepted; ++attempt, step *= 0.5) {
      const Eigen::VectorXd next = (x + step * direction).cwiseMax(low).cwiseMin(high);
      const double next_value = f(next, next_gradient);
      if (!std::isfinite(next_value) || next_value > value + kSufficientDecrease * gradient.dot(next - x)) continue;
      const Eigen::VectorXd s = next - x;
      const Eigen::VectorXd y = next_gradient - gradient;
      if (s.dot(y) > 1e-12) {
        history.push_back({s, y, 1 / s.dot(y)});
        if (history.size() > kHistory) history.pop_front();
      }
      accepted = true;
      const bool done = value - next_value < kConverged * (std::abs(value) + 1);
      x = next;
      value = next_value;
      gradient = next_gradient;
      if (done) return x;
    }
    if (!accepted) break;
  }
  return x;
}

}  // namespace gpueta
