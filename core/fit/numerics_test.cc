// The numerical parts on problems whose answer is known.
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <random>

#include "core/fit/gaussian_process.h"
#include "core/fit/least_squares.h"
#include "core/fit/minimise.h"
#include "core/fit/network.h"
#include "core/predict/compiled_residual.h"

namespace gpueta {
namespace {

constexpr ParamSpec kLine[] = {{"offset", 1, 0, 100, false}, {"slope", 1, 0.01, 50, false}};

// Residuals of ln(offset + slope·x) against ln(y).
auto LineResiduals(const std::vector<double>& x, const std::vector<double>& y) {
  return [&x, &y](std::span<const double> theta, std::span<double> out) {
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = std::log((theta[0] + theta[1] * x[i]) / y[i]);
  };
}

TEST(FitBoundedTest, RecoversTheParameters) {
  std::vector<double> x, y;
  for (int i = 1; i <= 50; ++i) {
    x.push_back(i);
    y.push_back(7 + 3.5 * i);
  }
  const auto theta =
      FitBounded(kLine, std::vector<double>{1, 1}, {true, true}, x.size(), LineResiduals(x, y), {.pull = 1e-4});
  EXPECT_NEAR(theta[0], 7, 0.05);
  EXPECT_NEAR(theta[1], 3.5, 0.01);
}

TEST(FitBoundedTest, AFewWildRowsMoveItLittle) {
  std::vector<double> x, y;
  for (int i = 1; i <= 100; ++i) {
    x.push_back(i);
    y.push_back((7 + 3.5 * i) * (i % 25 == 0 ? 3.0 : 1.0));
  }
  const auto theta =
      FitBounded(kLine, std::vector<double>{1, 1}, {true, true}, x.size(), LineResiduals(x, y), {.pull = 1e-3});
  EXPECT_NEAR(theta[1], 3.5, 0.1);
}

TEST(FitBoundedTest, StaysInsideTheBounds) {
  const std::vector<double> x = {1, 2, 3}, y = {1000, 2000, 3000};  // the slope would be 1000
  const auto theta = FitBounded(kLine, std::vector<double>{1, 1}, {true, true}, x.size(), LineResiduals(x, y));
  EXPECT_LE(theta[1], 50);
}

TEST(FitBoundedTest, ParametersThatAreNotFreeStay) {
  const std::vector<double> x = {1, 2, 3}, y = {10, 20, 30};
  const auto theta = FitBounded(kLine, std::vector<double>{2, 1}, {false, true}, x.size(), LineResiduals(x, y));
  EXPECT_EQ(theta[0], 2);
  EXPECT_GT(theta[1], 5);
}

TEST(SolveNonnegativeTest, EqualsTheFreeSolutionWhereThatIsPositive) {
  Eigen::MatrixXd a(4, 2);
  a << 1, 1, 1, 2, 1, 3, 1, 4;
  const Eigen::VectorXd b = a * Eigen::Vector2d(2, 3);
  EXPECT_NEAR((SolveNonnegative(a, b) - Eigen::Vector2d(2, 3)).norm(), 0, 1e-9);
}

// At the minimum the gradient is 0 where x > 0 and not negative where x = 0.
TEST(SolveNonnegativeTest, MeetsTheOptimalityConditions) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 200; ++trial) {
    const Eigen::MatrixXd a = Eigen::MatrixXd::NullaryExpr(12, 5, [&] { return normal(random); });
    const Eigen::VectorXd b = Eigen::VectorXd::NullaryExpr(12, [&] { return normal(random); });
    const Eigen::VectorXd x = SolveNonnegative(a, b);
    const Eigen::VectorXd gradient = a.transpose() * (a * x - b);
    for (Eigen::Index i = 0; i < 5; ++i) {
      ASSERT_GE(x[i], 0);
      ASSERT_GE(gradient[i], -1e-8);
      ASSERT_NEAR(x[i] * gradient[i], 0, 1e-8);
    }
  }
}

TEST(MinimiseTest, FindsTheMinimumOfABanana) {
  const auto rosenbrock = [](const Eigen::VectorXd& x, Eigen::VectorXd& g) {
    const double a = 1 - x[0], b = x[1] - x[0] * x[0];
    g[0] = -2 * a - 400 * x[0] * b;
    g[1] = 200 * b;
    return a * a + 100 * b * b;
  };
  const Eigen::VectorXd x =
      Minimise(rosenbrock, Eigen::Vector2d(-1.2, 1), Eigen::Vector2d(-5, -5), Eigen::Vector2d(5, 5), 200);
  EXPECT_NEAR((x - Eigen::Vector2d(1, 1)).norm(), 0, 1e-3);
}

TEST(MinimiseTest, StopsAtABound) {
  const auto square = [](const Eigen::VectorXd& x, Eigen::VectorXd& g) {
    g = 2 * x;
    return x.squaredNorm();
  };
  const Eigen::VectorXd x = Minimise(square, Eigen::VectorXd::Constant(1, 4), Eigen::VectorXd::Constant(1, 2),
                                     Eigen::VectorXd::Constant(1, 9), 50);
  EXPECT_DOUBLE_EQ(x[0], 2);
}

struct Surface {
  Eigen::MatrixXd x;
  Eigen::VectorXd y;
};

Surface Wavy(Eigen::Index n, unsigned seed, double noise) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Surface s{Eigen::MatrixXd::NullaryExpr(n, 2, [&] { return normal(random); }), Eigen::VectorXd(n)};
  for (Eigen::Index i = 0; i < n; ++i)
    s.y[i] = 0.3 * std::sin(2 * s.x(i, 0)) + 0.1 * s.x(i, 1) + noise * normal(random);
  return s;
}

TEST(GaussianProcessTest, PredictsASmoothSurface) {
  const Surface train = Wavy(200, 1, 0.01), test = Wavy(200, 2, 0);
  const auto gp = GaussianProcess::Fit(train.x, train.y, {});
  EXPECT_LT((gp.Mean(test.x) - test.y).cwiseAbs().mean(), 0.02);
  EXPECT_NEAR(std::sqrt(gp.noise_variance()), 0.01, 0.01);
}

TEST(GaussianProcessTest, LeaveOneOutEqualsLeavingOneOut) {
  const Surface all = Wavy(40, 3, 0.05);
  const auto gp = GaussianProcess::Fit(all.x, all.y, {.robust_passes = 0});
  // The same hyperparameters without the first row: solve by hand.
  const Eigen::MatrixXd x = all.x.bottomRows(39);
  Eigen::MatrixXd k = gp.Covariance(x, x);
  k.diagonal().array() += gp.noise_variance() + 1e-8;
  Eigen::VectorXd sorted = all.y;
  std::nth_element(sorted.begin(), sorted.begin() + 20, sorted.end());
  const double centre = sorted[20];
  const Eigen::VectorXd weights = k.ldlt().solve((all.y.tail(39).array() - centre).matrix());
  const double predicted = gp.Covariance(all.x.topRows(1), x).row(0).dot(weights) + centre;
  EXPECT_NEAR(gp.loo_residual()[0], all.y[0] - predicted, 1e-6);
}

TEST(GaussianProcessTest, RowsThatTheOthersContradictCountLittle) {
  Surface clean = Wavy(120, 5, 0.02);
  Surface spoilt = clean;
  for (Eigen::Index i = 0; i < spoilt.y.size(); i += 30) spoilt.y[i] += 1;
  const Surface at = Wavy(200, 6, 0);
  const auto error = [&](const Surface& train, int passes) {
    return (GaussianProcess::Fit(train.x, train.y, {.robust_passes = passes}).Mean(at.x) - at.y).cwiseAbs().mean();
  };
  EXPECT_LT(error(spoilt, 2), 0.6 * error(spoilt, 0));
  EXPECT_LT(error(clean, 2), 1.2 * error(clean, 0));
}

TEST(GaussianProcessTest, VarianceGrowsAwayFromThePoints) {
  const Surface train = Wavy(100, 4, 0.01);
  const auto gp = GaussianProcess::Fit(train.x, train.y, {});
  Eigen::MatrixXd points(2, 2);
  points << train.x(0, 0), train.x(0, 1), 50, 50;
  const Eigen::VectorXd variance = gp.Variance(points);
  EXPECT_LT(variance[0] * 5, variance[1]);
}

TEST(NetworkTest, LearnsASmoothSurface) {
  const Surface train = Wavy(3000, 5, 0.01), test = Wavy(500, 6, 0);
  const Residual network = TrainNetwork(train.x.cast<float>(), train.y.cast<float>(), {.epochs = 200});
  EXPECT_LT((EvaluateNetwork(network, test.x.cast<float>()) - test.y.cast<float>()).cwiseAbs().mean(), 0.02F);
}

TEST(NetworkTest, TheSeedDecides) {
  const Surface train = Wavy(300, 7, 0.01);
  const auto fit = [&](std::uint64_t seed) {
    return TrainNetwork(train.x.cast<float>(), train.y.cast<float>(), {.epochs = 5, .seed = seed});
  };
  EXPECT_EQ(fit(1), fit(1));
  EXPECT_NE(fit(1), fit(2));
}

TEST(NetworkTest, SpreadFollowsWhatItWasFittedTo) {
  const Surface train = Wavy(2000, 10, 0.01), test = Wavy(300, 11, 0);
  const Eigen::MatrixXf x = train.x.cast<float>();
  Residual network = TrainNetwork(x, train.y.cast<float>(), {.epochs = 30});
  EXPECT_EQ(EvaluateSpread(network, x).minCoeff(), 1);
  const auto spread_at = [](const Eigen::MatrixXd& at) -> Eigen::VectorXd { return 3 + at.col(0).array().tanh(); };
  FitSpread(x, 7 * spread_at(train.x), network);
  const Eigen::VectorXd expected = spread_at(test.x) / spread_at(train.x).mean();
  EXPECT_LT((EvaluateSpread(network, test.x.cast<float>()) - expected).cwiseAbs().mean(), 0.1);
}

// Else the rounding of a constant feature would be blown up when serving.
TEST(NetworkTest, ConstantInputsHaveNoInfluence) {
  Surface train = Wavy(3000, 9, 0.01);
  train.x.col(1).setConstant(std::log2(3.0));
  const Residual network = TrainNetwork(train.x.cast<float>(), train.y.cast<float>(), {.epochs = 3});
  EXPECT_EQ(network.feature_scale[1], 0);
}

// Training and serving evaluate the same network, serving in integers.
TEST(NetworkTest, ServingAgreesWithTraining) {
  const Surface train = Wavy(500, 8, 0.01);
  const Residual network = TrainNetwork(train.x.cast<float>(), train.y.cast<float>(), {.hidden = {10, 7}, .epochs = 5});
  const CompiledResidual compiled(network, 2, -1);
  Block block;
  block.rows = kBlockRows;
  for (int r = 0; r < kBlockRows; ++r) {
    for (int f = 0; f < 2; ++f) block.features[f][r] = static_cast<float>(train.x(r, f));
  }
  compiled.Evaluate(block);
  const Eigen::VectorXf expected = EvaluateNetwork(network, train.x.topRows(kBlockRows).cast<float>());
  for (int r = 0; r < kBlockRows; ++r) EXPECT_NEAR(block.residual_log2[r] / math::kLog2E, expected[r], 5e-4);
}

}  // namespace
}  // namespace gpueta
