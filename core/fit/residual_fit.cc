#include "core/fit/residual_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "core/fit/exact_model.h"
#include "core/fit/family_fit.h"
#include "core/fit/lessons.h"
#include "core/fit/network.h"
#include "core/fit/synthetic_shapes.h"

namespace gpueta {
namespace {

constexpr Eigen::Index kMinRows = 24;         // below, the family form stands alone
constexpr Eigen::Index kGaussianRows = 2500;  // an exact Cholesky of more takes too long
// To distil over: with half as many a tenth of a point of error more is lost
// (docs/accuracy.md).
constexpr std::size_t kSyntheticShapes = 30000;
constexpr std::size_t kUnlabelledShapes = 6000;  // more of them, asked for without their label
constexpr std::size_t kCheckedShapes = 2000;     // not trained on
constexpr int kDistilEpochs = 100;
// Networks to distil into, and the mean error lost that the next one is tried
// for. Products are asked for most: theirs stays fast at a little more loss.
const std::array<std::vector<int>, 2> kDistilledForms = {{{32, 32}, {64, 64}}};
double MostLost(Op op) { return op == Op::kGemm ? 0.003 : 0.001; }
// With many rows: attention, expert layers and convolutions, where libraries
// choose among more kernels, lose up to a point with less; they are few in a
// model.
std::vector<int> TrainedForm(Op op) {
  return op == Op::kGemm || op == Op::kVector ? std::vector{32, 32} : std::vector{64, 64};
}
constexpr std::size_t kProcessRows = 1200;
constexpr std::size_t kShapesBetween = 10000;
constexpr Eigen::Index kManyRowsSeen = 6'000'000;
constexpr double kHeldBack = 0.15;
constexpr double kMinNoise = 0.003;

double MeanAbsolute(const Eigen::VectorXd& values) { return values.cwiseAbs().mean(); }

// The same rows as kernels whose label nobody names, which are asked for as
// well: graphs do not know which attention kernel will run.
TableData WithoutLabels(TableData data) {
  std::fill(data.label_of_row.begin(), data.label_of_row.end(), 0);
  return data;
}

// With one label, its input is constant and nothing has to be learnt.
bool HasLabels(const TableData& data) { return data.labels.size() > 2; }

// `asked` is `data`, or that without labels.
Lessons At(const TableData& data, const TableData& asked, const std::vector<Variant>& variants,
           const ExactModel& exact) {
  return {asked.Features().cast<float>(), (exact.Ln(data) - PredictFamily(asked, variants)).cast<float>(),
          exact.LocalErrorAt(data)};
}

Lessons RowsWithoutLabels(const TableData& rows, const std::vector<Variant>& variants) {
  const TableData unlabelled = WithoutLabels(rows);
  return {unlabelled.Features().cast<float>(), (rows.ln_us - PredictFamily(unlabelled, variants)).cast<float>(),
          Eigen::VectorXd::Zero(rows.size())};
}

// Mean |predicted/observed − 1| that the network adds to the exact model's: its
// distance from the model at shapes it did not see, on top of errors as those
// of held-out rows.
double LostBy(const Residual& network, const Lessons& unseen, const Eigen::VectorXd& held_out_ln) {
  const Eigen::VectorXf distance = EvaluateNetwork(network, unseen.x) - unseen.y;
  double lost = 0;
  for (Eigen::Index i = 0; i < distance.size(); ++i) {
    const double error = held_out_ln[i % held_out_ln.size()];
    lost += std::abs(std::expm1(distance[i] - error)) - std::abs(std::expm1(-error));
  }
  return distance.size() > 0 ? lost / static_cast<double>(distance.size()) : 0;
}

ResidualFit Distilled(const TableData& data, const std::vector<Variant>& variants, const Eigen::VectorXd& family_ln,
                      std::uint64_t seed, std::vector<std::unique_ptr<Prior>> others) {
  const Eigen::VectorXd left_over = data.ln_us - family_ln;
  const ExactModel exact = ExactModel::Fit(data, variants, seed, std::move(others));
  ResidualFit fit;
  fit.noise_ln = std::max(std::sqrt(exact.noise_variance()), kMinNoise);
  if (MeanAbsolute(exact.held_out_ln()) >= MeanAbsolute(left_over)) {
    fit.held_out = HeldOutErrors(left_over);
    return fit;
  }
  std::vector<Measurement> storage, unseen_storage, unlabelled_storage;
  const TableData synthetic = SyntheticShapes(data, kSyntheticShapes, seed, storage);
  const TableData unseen_shapes = SyntheticShapes(data, kCheckedShapes, seed + 1, unseen_storage);
  const TableData more = SyntheticShapes(data, HasLabels(data) ? kUnlabelledShapes : 0, seed + 2, unlabelled_storage);
  const Lessons unseen = At(unseen_shapes, unseen_shapes, variants, exact);
  Lessons rows = At(data, data, variants, exact);
  rows.spread = exact.local_error_of_rows();
  const Lessons shapes = At(synthetic, synthetic, variants, exact);
  const Lessons unlabelled = At(more, WithoutLabels(more), variants, exact);
  // Measured rows, so that they count.
  const Lessons lessons = Concatenated({&shapes, &unlabelled, &rows, &rows, &rows, &rows});
  for (const std::vector<int>& hidden : kDistilledForms) {
    fit.residual = TrainNetwork(lessons.x, lessons.y, {.hidden = hidden, .epochs = kDistilEpochs, .seed = seed});
    if (LostBy(fit.residual, unseen, exact.held_out_ln()) <= MostLost(data.key.op)) break;
  }
  FitSpread(lessons.x, lessons.spread, fit.residual);
  fit.held_out = HeldOutOf(fit.residual, rows, exact.held_out_ln());
  return fit;
}

ResidualFit Trained(const TableData& data, const std::vector<Variant>& variants, const Eigen::VectorXd& left_over,
                    std::uint64_t seed) {
  std::vector<Eigen::Index> order(static_cast<std::size_t>(data.size()));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  const auto held_back = static_cast<std::ptrdiff_t>(kHeldBack * static_cast<double>(order.size()));
  const std::vector<Eigen::Index> test(order.begin(), order.begin() + held_back);
  const std::vector<Eigen::Index> train(order.begin() + held_back, order.end());
  const Eigen::MatrixXf features = data.Features().cast<float>();
  const Eigen::VectorXf y = left_over.cast<float>();
  const Eigen::MatrixXf unseen = features(test, Eigen::all);
  const Eigen::MatrixXf x = features(train, Eigen::all);
  const Lessons rows{x, y(train), Eigen::VectorXd::Zero(x.rows())};
  std::vector<std::size_t> few, quarter;
  for (std::size_t i = 0; i < train.size(); ++i) {
    if (few.size() < kProcessRows) few.push_back(static_cast<std::size_t>(train[i]));
    if (i % 4 == 0) quarter.push_back(static_cast<std::size_t>(train[i]));
  }
  const Lessons unlabelled = HasLabels(data) ? RowsWithoutLabels(data.Subset(quarter), variants) : Lessons{};
  // Between the rows the network would guess: sweeps in powers of two say nothing
  // of what lies between. There it follows a process fitted to a few of them.
  const TableData known = data.Subset(few);
  const ExactModel exact = ExactModel::Fit(known, variants, seed);
  std::vector<Measurement> storage, unlabelled_storage;
  const TableData between = SyntheticShapes(known, kShapesBetween, seed, storage);
  const TableData more = SyntheticShapes(known, HasLabels(data) ? kShapesBetween / 4 : 0, seed + 1, unlabelled_storage);
  const Lessons shapes = At(between, between, variants, exact);
  const Lessons unlabelled_shapes = At(more, WithoutLabels(more), variants, exact);
  const Lessons lessons = Concatenated({&rows, &unlabelled, &shapes, &unlabelled_shapes});
  ResidualFit fit;
  // As many steps for any number of rows: many, unless that learns the noise.
  double least = y(test).cwiseAbs().mean();
  fit.held_out = HeldOutErrors(left_over);
  for (Eigen::Index rows_seen : {kManyRowsSeen, kManyRowsSeen / 4, kManyRowsSeen / 16}) {
    TrainOptions options{.hidden = TrainedForm(data.key.op), .seed = seed};
    options.epochs = static_cast<int>(std::clamp<Eigen::Index>(rows_seen / lessons.x.rows(), 10, 400));
    Residual residual = TrainNetwork(lessons.x, lessons.y, options);
    const Eigen::VectorXd error = (y(test) - EvaluateNetwork(residual, unseen)).cast<double>();
    if (MeanAbsolute(error) >= least) continue;
    least = MeanAbsolute(error);
    FitSpread(x, (y(train) - EvaluateNetwork(residual, x)).cwiseAbs().cast<double>(), residual);
    fit.held_out = HeldOutErrors(error, EvaluateSpread(residual, unseen));
    fit.residual = std::move(residual);
  }
  return fit;
}

}  // namespace

ResidualFit FitResidual(const TableData& data, const std::vector<Variant>& variants, const Eigen::VectorXd& family_ln,
                        std::uint64_t seed, std::vector<std::unique_ptr<Prior>> others) {
  const Eigen::VectorXd left_over = data.ln_us - family_ln;
  if (data.size() < kMinRows) {
    ResidualFit fit;
    fit.held_out = HeldOutErrors(left_over);
    return fit;
  }
  return data.size() <= kGaussianRows ? Distilled(data, variants, family_ln, seed, std::move(others))
                                      : Trained(data, variants, left_over, seed);
}

}  // namespace gpueta
