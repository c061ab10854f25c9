#include "core/fit/network.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace gpueta {
namespace {

using Matrix = Eigen::MatrixXf;  // one column a point from here on

constexpr float kClamp = 4.0F;
constexpr float kBeta1 = 0.9F;
constexpr float kBeta2 = 0.99F;
constexpr float kEpsilon = 1e-8F;
constexpr double kWarmUpShare = 0.3;  // of the one-cycle schedule
constexpr double kFirstRate = 0.1;    // as a share of the largest
constexpr float kWeightDecay = 1e-5F;
constexpr float kHuge = 1e30F;
// An input that varies less than this is constant: scaling it up would amplify
// the rounding of the features.
constexpr double kConstant = 1e-4;

struct Layer {
  Matrix weights;  // [output][input]
  Eigen::VectorXf biases;
  // Adam's running moments.
  Matrix weights_m, weights_v;
  Eigen::VectorXf biases_m, biases_v;
};

std::vector<Layer> InitialLayers(Eigen::Index inputs, const std::vector<int>& hidden, std::mt19937_64& random) {
  std::vector<Layer> layers;
  std::vector<int> widths = hidden;
  widths.push_back(1);
  for (int width : widths) {
    // He initialisation; the last layer starts near 0.
    const float scale = std::sqrt(2.0F / static_cast<float>(inputs)) * (&width == &widths.back() ? 0.1F : 1.0F);
    std::normal_distribution<float> normal(0, scale);
    Layer layer;
    layer.weights = Matrix::NullaryExpr(width, inputs, [&] { return normal(random); });
    layer.biases = Eigen::VectorXf::Zero(width);
    layer.weights_m = layer.weights_v = Matrix::Zero(width, inputs);
    layer.biases_m = layer.biases_v = Eigen::VectorXf::Zero(width);
    layers.push_back(std::move(layer));
    inputs = width;
  }
  return layers;
}

template <class Value>
void AdamStep(Value& value, Value& m, Value& v, const Value& gradient, float rate, float correction1,
              float correction2) {
  m = kBeta1 * m + (1 - kBeta1) * gradient;
  v = (kBeta2 * v.array() + (1 - kBeta2) * gradient.array().square()).matrix();
  value.array() -=
      rate * ((m.array() / correction1) / ((v.array() / correction2).sqrt() + kEpsilon) + kWeightDecay * value.array());
}

double RateAt(double progress, double largest) {
  if (progress < kWarmUpShare) return largest * (kFirstRate + (1 - kFirstRate) * progress / kWarmUpShare);
  const double rest = (progress - kWarmUpShare) / (1 - kWarmUpShare);
  return largest * std::max(0.5 * (1 + std::cos(3.14159265358979 * rest)), 1e-3);
}

// 1 where a ReLU lets its input through, 0 elsewhere, by operations that have
// vector forms: comparisons do not.
auto Passed(const Matrix& activations) { return (activations.array() * kHuge).min(1.0F); }

// Activations of every layer; the last is the output.
std::vector<Matrix> Forward(const std::vector<Layer>& layers, const Matrix& x) {
  std::vector<Matrix> activations = {x};
  for (std::size_t l = 0; l < layers.size(); ++l) {
    Matrix next = layers[l].weights * activations.back();
    if (l + 1 < layers.size()) {
      next = (next.colwise() + layers[l].biases).cwiseMax(0.0F);
    } else {
      next.colwise() += layers[l].biases;
    }
    activations.push_back(std::move(next));
  }
  return activations;
}

Matrix Standardised(const Matrix& x, const std::vector<float>& mean, const std::vector<float>& scale) {
  Matrix out = x.transpose();
  for (Eigen::Index i = 0; i < out.rows(); ++i) {
    const auto u = static_cast<std::size_t>(i);
    out.row(i) = ((out.row(i).array() - mean[u]) * scale[u]).max(-kClamp).min(kClamp);
  }
  return out;
}

std::vector<Layer> LayersOf(const Residual& residual) {
  std::vector<Layer> layers;
  std::vector<int> widths = residual.hidden;
  widths.push_back(1);
  auto inputs = static_cast<Eigen::Index>(residual.feature_mean.size());
  const float* next = residual.weights.data();
  for (int width : widths) {
    Layer layer;
    layer.weights =
        Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(next, width, inputs);
    next += width * inputs;
    layer.biases = Eigen::Map<const Eigen::VectorXf>(next, width);
    next += width;
    layers.push_back(std::move(layer));
    inputs = width;
  }
  return layers;
}

}  // namespace

Residual TrainNetwork(const Eigen::MatrixXf& x, const Eigen::VectorXf& y, const TrainOptions& options) {
  const Eigen::Index n = x.rows();
  Residual residual;
  residual.hidden = options.hidden;
  for (Eigen::Index i = 0; i < x.cols(); ++i) {
    const Eigen::ArrayXd column = x.col(i).cast<double>();
    const double mean = column.mean();
    const double deviation = std::sqrt((column - mean).square().mean());
    residual.feature_mean.push_back(static_cast<float>(mean));
    residual.feature_scale.push_back(deviation > kConstant ? static_cast<float>(1 / deviation) : 0.0F);
  }
  std::mt19937_64 random(options.seed);
  const Matrix inputs = Standardised(x, residual.feature_mean, residual.feature_scale);
  std::vector<Layer> layers = InitialLayers(x.cols(), options.hidden, random);
  layers.back().biases[0] = y.mean();

  std::vector<Eigen::Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const Eigen::Index batches = (n + options.batch_rows - 1) / options.batch_rows;
  const auto total_steps = static_cast<double>(batches * options.epochs);
  const auto delta = static_cast<float>(options.huber_delta);
  Eigen::Index step = 0;
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    for (Eigen::Index b = 0; b < batches; ++b, ++step) {
      const Eigen::Index begin = b * options.batch_rows;
      const Eigen::Index rows = std::min<Eigen::Index>(options.batch_rows, n - begin);
      const std::vector<Eigen::Index> pick(order.begin() + begin, order.begin() + begin + rows);
      const Matrix batch = inputs(Eigen::all, pick);
      const Eigen::VectorXf target = y(pick);
      const std::vector<Matrix> activations = Forward(layers, batch);
      const auto rate = static_cast<float>(RateAt(static_cast<double>(step) / total_steps, options.learning_rate));
      const auto t = static_cast<float>(step + 1);
      const float correction1 = 1 - std::pow(kBeta1, t);
      const float correction2 = 1 - std::pow(kBeta2, t);
      // Gradient of the Huber loss.
      Matrix gradient =
          (activations.back().row(0) - target.transpose()).cwiseMax(-delta).cwiseMin(delta) / static_cast<float>(rows);
      for (std::size_t l = layers.size(); l-- > 0;) {
        Layer& layer = layers[l];
        const Matrix weight_gradient = gradient * activations[l].transpose();
        const Eigen::VectorXf bias_gradient = gradient * Eigen::VectorXf::Ones(rows);
        if (l > 0) {
          gradient = (layer.weights.transpose() * gradient).eval();
          gradient.array() *= Passed(activations[l]);
        }
        AdamStep(layer.weights, layer.weights_m, layer.weights_v, weight_gradient, rate, correction1, correction2);
        AdamStep(layer.biases, layer.biases_m, layer.biases_v, bias_gradient, rate, correction1, correction2);
      }
    }
  }
  for (const Layer& layer : layers) {
    for (Eigen::Index o = 0; o < layer.weights.rows(); ++o) {
      for (Eigen::Index i = 0; i < layer.weights.cols(); ++i) residual.weights.push_back(layer.weights(o, i));
    }
    residual.weights.insert(residual.weights.end(), layer.biases.begin(), layer.biases.end());
  }
  return residual;
}

namespace {

// Units of the last hidden layer and a constant: [row][unit].
Eigen::MatrixXd LastHidden(const Residual& residual, const Eigen::MatrixXf& x) {
  const std::vector<Matrix> activations =
      Forward(LayersOf(residual), Standardised(x, residual.feature_mean, residual.feature_scale));
  const Matrix& hidden = activations[activations.size() - 2];
  Eigen::MatrixXd units(x.rows(), hidden.rows() + 1);
  units.leftCols(hidden.rows()) = hidden.transpose().cast<double>();
  units.rightCols(1).setOnes();
  return units;
}

}  // namespace

void FitSpread(const Eigen::MatrixXf& x, const Eigen::VectorXd& spread, Residual& residual) {
  constexpr double kRidge = 1e-3;  // of the mean diagonal: units may be dead
  const double mean = spread.mean();
  if (residual.weights.empty() || !(mean > 0)) return;
  const Eigen::MatrixXd units = LastHidden(residual, x);
  Eigen::MatrixXd gram = units.transpose() * units;
  gram.diagonal().array() += kRidge * gram.diagonal().mean();
  const Eigen::VectorXd weights = gram.ldlt().solve(units.transpose() * (spread / mean));
  residual.spread_weights.assign(weights.begin(), weights.end());
}

Eigen::VectorXd EvaluateSpread(const Residual& residual, const Eigen::MatrixXf& x) {
  if (residual.spread_weights.empty()) return Eigen::VectorXd::Ones(x.rows());
  const Eigen::Map<const Eigen::VectorXf> weights(residual.spread_weights.data(),
                                                  static_cast<Eigen::Index>(residual.spread_weights.size()));
  return (LastHidden(residual, x) * weights.cast<double>()).cwiseMax(kMinSpread).cwiseMin(kMaxSpread);
}

Eigen::VectorXf EvaluateNetwork(const Residual& residual, const Eigen::MatrixXf& x) {
  if (residual.weights.empty()) return Eigen::VectorXf::Zero(x.rows());
  return Forward(LayersOf(residual), Standardised(x, residual.feature_mean, residual.feature_scale))
      .back()
      .row(0)
      .transpose();
}

}  // namespace gpueta
