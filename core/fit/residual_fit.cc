#include "core/fit/residual_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "core/fit/exact_model.h"
#include "core/fit/family_fit.h"
#include "core/fit/network.h"
#include "core/fit/synthetic_shapes.h"

namespace gpueta {
namespace {

constexpr Eigen::Index kMinRows = 24;         // below, the family form stands alone
constexpr Eigen::Index kGaussianRows = 2500;  // an exact Cholesky of more takes too long
// To distil over: with half as many a tenth of a point of error more is lost
// (docs/accuracy.md).
constexpr std::size_t kSyntheticShapes = 32000;
constexpr Eigen::Index kCheckedShapes = 2000;  // of them not trained on
constexpr int kDistilEpochs = 100;
constexpr int kRowRepeats = 4;  // measured rows count this often among them
// Networks to distil into, and the mean error lost that the next one is tried
// for. Products are asked for most: theirs stays fast at a little more loss.
const std::array<std::vector<int>, 2> kDistilledForms = {{{32, 32}, {64, 64}}};
double MostLost(Op op) { return op == Op::kGemm ? 0.003 : 0.001; }
constexpr Eigen::Index kManyRowsSeen = 6'000'000;
constexpr double kHeldBack = 0.15;
constexpr double kMinNoise = 0.003;

std::vector<HeldOut> WithoutSpread(const Eigen::VectorXd& ln) {
  std::vector<HeldOut> held_out;
  for (double value : ln) held_out.push_back({value});
  return held_out;
}

std::vector<HeldOut> WithSpread(const Eigen::VectorXd& ln, const Eigen::VectorXd& spread) {
  std::vector<HeldOut> held_out;
  for (Eigen::Index r = 0; r < ln.size(); ++r) held_out.push_back({ln[r], spread[r]});
  return held_out;
}

double MeanAbsolute(const Eigen::VectorXd& values) { return values.cwiseAbs().mean(); }

// What network and exact model are compared on.
struct Distillation {
  Eigen::MatrixXf x;
  Eigen::VectorXf y;       // the exact model less the family form
  Eigen::VectorXd spread;  // how much the exact model errs around
};

Distillation At(const TableData& data, const std::vector<Variant>& variants, const ExactModel& exact) {
  return {data.Features().cast<float>(), (exact.Ln(data) - PredictFamily(data, variants)).cast<float>(),
          exact.LocalErrorAt(data)};
}

// Rows of `shapes` but the checked ones, and measured rows so that they count.
Distillation Lessons(const Distillation& shapes, const Distillation& rows) {
  const Eigen::Index trained = shapes.y.size() - std::min(kCheckedShapes, shapes.y.size() / 2);
  const Eigen::Index total = trained + kRowRepeats * rows.y.size();
  Distillation lessons{Eigen::MatrixXf(total, shapes.x.cols()), Eigen::VectorXf(total), Eigen::VectorXd(total)};
  const auto put = [&](const Distillation& part, Eigen::Index count, Eigen::Index at) {
    lessons.x.middleRows(at, count) = part.x.topRows(count);
    lessons.y.segment(at, count) = part.y.head(count);
    lessons.spread.segment(at, count) = part.spread.head(count);
  };
  put(shapes, trained, 0);
  for (int repeat = 0; repeat < kRowRepeats; ++repeat) put(rows, rows.y.size(), trained + repeat * rows.y.size());
  return lessons;
}

// Mean |predicted/observed − 1| that the network adds to the exact model's: its
// distance from the model at shapes it did not see, on top of errors as those
// of held-out rows.
double LostBy(const Residual& network, const Distillation& shapes, const Eigen::VectorXd& held_out_ln) {
  const Eigen::Index checked = std::min(kCheckedShapes, shapes.y.size() / 2);
  const Eigen::VectorXf distance = EvaluateNetwork(network, shapes.x.bottomRows(checked)) - shapes.y.tail(checked);
  double lost = 0;
  for (Eigen::Index i = 0; i < checked; ++i) {
    const double error = held_out_ln[i % held_out_ln.size()];
    lost += std::abs(std::expm1(distance[i] - error)) - std::abs(std::expm1(-error));
  }
  return checked > 0 ? lost / static_cast<double>(checked) : 0;
}

ResidualFit Distilled(const TableData& data, const std::vector<Variant>& variants, const Eigen::VectorXd& family_ln,
                      std::uint64_t seed) {
  const Eigen::VectorXd left_over = data.ln_us - family_ln;
  const ExactModel exact = ExactModel::Fit(data, variants, seed);
  ResidualFit fit;
  fit.noise_ln = std::max(std::sqrt(exact.noise_variance()), kMinNoise);
  if (MeanAbsolute(exact.held_out_ln()) >= MeanAbsolute(left_over)) {
    fit.held_out = WithoutSpread(left_over);
    return fit;
  }
  std::vector<Measurement> storage;
  const Distillation shapes = At(SyntheticShapes(data, kSyntheticShapes, seed, storage), variants, exact);
  Distillation rows = At(data, variants, exact);
  rows.spread = exact.local_error_of_rows();
  const Distillation lessons = Lessons(shapes, rows);
  for (const std::vector<int>& hidden : kDistilledForms) {
    fit.residual = TrainNetwork(lessons.x, lessons.y, {.hidden = hidden, .epochs = kDistilEpochs, .seed = seed});
    if (LostBy(fit.residual, shapes, exact.held_out_ln()) <= MostLost(data.key.op)) break;
  }
  FitSpread(lessons.x, lessons.spread, fit.residual);
  // What distilling lost at a row counts as error there.
  const Eigen::VectorXd lost = (rows.y - EvaluateNetwork(fit.residual, rows.x)).cast<double>();
  fit.held_out = WithSpread(exact.held_out_ln() + lost, EvaluateSpread(fit.residual, rows.x));
  return fit;
}

ResidualFit Trained(const TableData& data, const Eigen::VectorXd& left_over, std::uint64_t seed) {
  std::vector<Eigen::Index> order(static_cast<std::size_t>(data.size()));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  const auto held_back = static_cast<std::ptrdiff_t>(kHeldBack * static_cast<double>(order.size()));
  const std::vector<Eigen::Index> test(order.begin(), order.begin() + held_back);
  const std::vector<Eigen::Index> train(order.begin() + held_back, order.end());
  const Eigen::MatrixXf features = data.Features().cast<float>();
  const Eigen::MatrixXf x = features(train, Eigen::all);
  const Eigen::MatrixXf unseen = features(test, Eigen::all);
  const Eigen::VectorXf y = left_over.cast<float>();
  ResidualFit fit;
  // As many steps for any number of rows: many, unless that learns the noise.
  double least = y(test).cwiseAbs().mean();
  fit.held_out = WithoutSpread(left_over);
  for (Eigen::Index rows_seen : {kManyRowsSeen, kManyRowsSeen / 4, kManyRowsSeen / 16}) {
    TrainOptions options{.seed = seed};
    options.epochs =
        static_cast<int>(std::clamp<Eigen::Index>(rows_seen / static_cast<Eigen::Index>(train.size()), 10, 400));
    Residual residual = TrainNetwork(x, y(train), options);
    const Eigen::VectorXd error = (y(test) - EvaluateNetwork(residual, unseen)).cast<double>();
    if (MeanAbsolute(error) >= least) continue;
    least = MeanAbsolute(error);
    FitSpread(x, (y(train) - EvaluateNetwork(residual, x)).cwiseAbs().cast<double>(), residual);
    fit.held_out = WithSpread(error, EvaluateSpread(residual, unseen));
    fit.residual = std::move(residual);
  }
  return fit;
}

}  // namespace

ResidualFit FitResidual(const TableData& data, const std::vector<Variant>& variants, const Eigen::VectorXd& family_ln,
                        std::uint64_t seed) {
  const Eigen::VectorXd left_over = data.ln_us - family_ln;
  if (data.size() < kMinRows) {
    ResidualFit fit;
    fit.held_out = WithoutSpread(left_over);
    return fit;
  }
  return data.size() <= kGaussianRows ? Distilled(data, variants, family_ln, seed) : Trained(data, left_over, seed);
}

}  // namespace gpueta
