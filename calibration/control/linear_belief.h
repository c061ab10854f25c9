// What is believed of a linear relation: a guess to start with, sharpened by
// observations.
#pragma once

#include <array>
#include <cstddef>

namespace gpueta {

// y = Σ slope_i · x_i + noise, with a normal distribution over the slopes.
// Bayesian linear regression, one observation at a time (Bishop 2006, 3.3).
template <std::size_t N>
class LinearBelief {
 public:
  using Vector = std::array<double, N>;
  struct Normal {
    double mean = 0;
    double variance = 0;
  };

  // The slopes are independent at first, with these means and deviations.
  LinearBelief(const Vector& means, const Vector& deviations) : means_(means) {
    for (std::size_t i = 0; i < N; ++i) covariance_[i][i] = deviations[i] * deviations[i];
  }

  void Observe(const Vector& x, double y, double noise_variance) {
    const Vector spread = Times(x);
    const double scale = 1 / (Dot(x, spread) + noise_variance);
    const double surprise = y - Dot(x, means_);
    for (std::size_t i = 0; i < N; ++i) {
      means_[i] += scale * surprise * spread[i];
      for (std::size_t j = 0; j < N; ++j) covariance_[i][j] -= scale * spread[i] * spread[j];
    }
  }

  // y at x, without noise.
  Normal At(const Vector& x) const { return {.mean = Dot(x, means_), .variance = Dot(x, Times(x))}; }

  const Vector& means() const { return means_; }

 private:
  static double Dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (std::size_t i = 0; i < N; ++i) sum += a[i] * b[i];
    return sum;
  }
  Vector Times(const Vector& x) const {
    Vector product{};
    for (std::size_t i = 0; i < N; ++i) product[i] = Dot(covariance_[i], x);
    return product;
  }

  Vector means_;
  std::array<Vector, N> covariance_{};
};

}  // namespace gpueta
