#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/fit/family_fit.h"
#include "core/fit/gaussian_process.h"
#include "core/fit/local_error.h"
#include "core/fit/standardiser.h"
#include "core/fit/table_data.h"
#include "core/sampling/sampling.h"

namespace gpueta {
namespace {

// Candidates whose variance is followed, and from which is chosen; a random draw
// of more changes nothing. What a budget has beyond them fills space.
constexpr std::size_t kFollowed = 1500;
constexpr Eigen::Index kHyperRows = 250;
constexpr int kIterations = 30;
// Measured rows that teach: an exact process of more takes too long.
constexpr std::size_t kMaxMeasured = 2500;
// Repeated measurements of a GPU kernel differ by 0.3 to 1 %. Scatter beyond it
// is not taken for noise unless repeats show it: kernels that libraries choose by
// rules of their own look like noise, too, and go away with more rows.
constexpr double kUsualNoise = 0.01;
constexpr double kMinRepeats = 10;  // degrees of freedom that tell the noise
// A table is settled when what the model does not know is below this share of
// the noise: knowing all of it would lower the error by a tenth (√(1 + 0.5²)).
constexpr double kSettled = 0.5;
// Below this many measured rows a process has nothing to say.
constexpr std::size_t kMinMeasured = 24;

// Where the model errs, a measurement is worth more: the error around each
// candidate, relative to the average. To the power of 1.5 it did best over the
// tables of docs/accuracy.md: squared, smooth tables lose points to outliers.
Eigen::VectorXd Weights(const GaussianProcess& gp, const Eigen::MatrixXd& covariance) {
  constexpr double kPower = 1.5;
  const Eigen::VectorXd local = LocalErrors(covariance, gp.loo_residual());
  return (local / local.mean()).array().pow(kPower);
}

struct Greed {
  std::vector<Eigen::Index> taken;
  std::vector<double> variance;  // mean posterior of the followed candidates: at first, then with each one taken
};

// Greedily takes the candidate that most reduces the weighted posterior
// variance over all followed candidates (active learning Cohn: Cohn 1996).
Greed Greedy(Eigen::MatrixXd posterior, const Eigen::VectorXd& weights, double noise, std::size_t count) {
  Greed greed{.variance = {posterior.diagonal().mean()}};
  std::vector<bool> used(static_cast<std::size_t>(posterior.rows()), false);
  while (greed.taken.size() < count) {
    const Eigen::VectorXd gain =
        (weights.transpose() * posterior.cwiseAbs2()).transpose().array() / (posterior.diagonal().array() + noise);
    Eigen::Index best = -1;
    for (Eigen::Index i = 0; i < gain.size(); ++i) {
      if (!used[static_cast<std::size_t>(i)] && (best < 0 || gain[i] > gain[best])) best = i;
    }
    if (best < 0) break;
    used[static_cast<std::size_t>(best)] = true;
    greed.taken.push_back(best);
    const Eigen::VectorXd column = posterior.col(best);
    posterior.noalias() -= column * column.transpose() / (column[best] + noise);
    greed.variance.push_back(posterior.diagonal().mean());
  }
  return greed;
}

// Variance of ln(latency) between measurements of one kernel; nullopt where too
// few are repeated.
std::optional<double> RepeatVariance(const TableData& known) {
  std::map<std::pair<DType, std::uint32_t>, std::vector<double>> by_kernel;
  for (Eigen::Index r = 0; r < known.size(); ++r) {
    const Kernel& kernel = known.rows[static_cast<std::size_t>(r)]->kernel;
    by_kernel[{kernel.dtype, HashOf(kernel)}].push_back(known.ln_us[r]);
  }
  double squares = 0, freedom = 0;
  for (const auto& [kernel, values] : by_kernel) {
    const Eigen::Map<const Eigen::ArrayXd> v(values.data(), static_cast<Eigen::Index>(values.size()));
    squares += (v - v.mean()).square().sum();
    freedom += static_cast<double>(values.size() - 1);
  }
  if (freedom < kMinRepeats) return std::nullopt;
  return squares / freedom;
}

// Of all tables that teach each other.
struct TableRows {
  std::vector<std::size_t> candidates;  // positions that are not measured yet
  std::vector<const Measurement*> measured;
};

struct TableChoice {
  std::vector<std::size_t> rows;
  Expectation expected;
};

// The taken candidates up to where the table is settled. `scatter`: variance
// that the process takes for noise; `noise`: what really is.
TableChoice WorthMeasuring(const Greed& greed, const std::vector<std::size_t>& followed, double scatter, double noise) {
  const auto own_error = [&](double variance) {
    return std::sqrt(std::max(variance, 0.0) + std::max(scatter - noise, 0.0));
  };
  TableChoice choice;
  const std::size_t all = greed.taken.size();
  std::size_t count = 0;
  while (count < all && own_error(greed.variance[count]) > kSettled * std::sqrt(noise)) {
    choice.rows.push_back(followed[static_cast<std::size_t>(greed.taken[count++])]);
  }
  choice.expected.chosen = count;
  choice.expected.noise_ln = std::sqrt(noise);
  choice.expected.before_ln = own_error(greed.variance.front());
  choice.expected.after_ln = own_error(greed.variance[count]);
  choice.expected.settled = count < all;
  return choice;
}

TableChoice ChooseOfTable(const TableKey& key, const TableRows& rows, std::span<const Measurement> candidates,
                          const DeviceSpec& spec, std::size_t budget, std::uint64_t seed) {
  std::vector<std::size_t> followed = rows.candidates;
  std::mt19937_64 random(seed);
  std::shuffle(followed.begin(), followed.end(), random);
  followed.resize(std::min(followed.size(), kFollowed));

  // Measured rows and candidates in one table, so that labels agree.
  std::vector<const Measurement*> all = rows.measured;
  if (all.size() > kMaxMeasured) {
    std::shuffle(all.begin(), all.end(), random);
    all.resize(kMaxMeasured);
  }
  std::vector<std::size_t> first(all.size());
  std::iota(first.begin(), first.end(), 0);
  std::vector<Measurement> without_latency;
  without_latency.reserve(followed.size());
  for (std::size_t i : followed) {
    without_latency.push_back(candidates[i]);
    without_latency.back().latency_us = 1;
  }
  for (const Measurement& row : without_latency) all.push_back(&row);
  const Machine<double> machine = MachineOf(spec, key);
  const TableData data = MakeTableData(key, all, [&](const Measurement&) { return machine; });
  const TableData known = data.Subset(first);
  const Eigen::VectorXd left_over = known.ln_us - PredictFamily(known, FitFamily(known));
  const Eigen::MatrixXd features = data.Features();
  const auto n = static_cast<Eigen::Index>(first.size());
  const Standardiser standardise(features);
  const Eigen::MatrixXd x = standardise(features);
  const auto gp = GaussianProcess::Fit(x.topRows(n), left_over,
                                       {.hyper_rows = kHyperRows, .iterations = kIterations, .seed = seed});
  const Eigen::MatrixXd points = x.bottomRows(x.rows() - n);
  const Eigen::MatrixXd to_known = gp.Covariance(points, gp.inputs());
  const Eigen::MatrixXd solved = gp.factor().triangularView<Eigen::Lower>().solve(to_known.transpose());
  Eigen::MatrixXd posterior = gp.Covariance(points, points);
  posterior.noalias() -= solved.transpose() * solved;
  const double noise = gp.noise_variance();
  const Greed greed = Greedy(std::move(posterior), Weights(gp, to_known), noise, budget);
  const double usual = std::min(noise, kUsualNoise * kUsualNoise);
  TableChoice choice = WorthMeasuring(greed, followed, noise, RepeatVariance(known).value_or(usual));
  choice.expected.key = KeyOf(candidates[rows.candidates.front()].kernel, candidates[rows.candidates.front()].timing);
  choice.expected.measured = rows.measured.size();
  return choice;
}

}  // namespace

absl::StatusOr<ActiveChoice> ChooseActive(std::span<const Measurement> candidates,
                                          std::span<const Measurement> measured, const DeviceSpec& spec,
                                          std::size_t budget, std::uint64_t seed) {
  std::map<TableKey, TableRows> tables;
  std::set<std::pair<TableKey, std::uint32_t>> known;
  for (const Measurement& row : measured) {
    const TableKey key = KeyOf(row.kernel, row.timing);
    known.emplace(key, HashOf(row.kernel));
    tables[EvidenceKeyOf(key)].measured.push_back(&row);
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const TableKey key = KeyOf(candidates[i].kernel, candidates[i].timing);
    if (!known.contains({key, HashOf(candidates[i].kernel)})) tables[EvidenceKeyOf(key)].candidates.push_back(i);
  }
  std::erase_if(tables, [](const auto& entry) { return entry.second.candidates.empty(); });
  // A table without enough measurements needs its space filled first.
  std::size_t ready = 0;
  for (const auto& [key, rows] : tables) ready += rows.measured.size() >= kMinMeasured ? 1 : 0;
  ActiveChoice choice;
  if (ready < tables.size()) {
    GPUETA_ASSIGN_OR_RETURN(choice.rows, ChooseSpaceFilling(candidates, measured, budget, seed));
    return choice;
  }

  std::vector<std::vector<std::size_t>> groups;
  for (const auto& [key, rows] : tables) groups.push_back(rows.candidates);
  const std::vector<std::size_t> shares = SplitBudget(groups, budget);
  std::size_t t = 0;
  std::size_t beyond = 0;
  for (const auto& [key, rows] : tables) {
    const std::size_t share = shares[t++];
    TableChoice of_table = ChooseOfTable(key, rows, candidates, spec, std::min(share, kFollowed), seed);
    if (!of_table.expected.settled) beyond += share - of_table.rows.size();
    choice.rows.insert(choice.rows.end(), of_table.rows.begin(), of_table.rows.end());
    choice.expected.push_back(std::move(of_table.expected));
  }
  if (beyond > 0) {
    std::vector<Measurement> known_then(measured.begin(), measured.end());
    for (std::size_t i : choice.rows) known_then.push_back(candidates[i]);
    GPUETA_ASSIGN_OR_RETURN(const std::vector<std::size_t> filling,
                            ChooseSpaceFilling(candidates, known_then, beyond, seed));
    choice.rows.insert(choice.rows.end(), filling.begin(), filling.end());
  }
  std::sort(choice.rows.begin(), choice.rows.end());
  return choice;
}

}  // namespace gpueta
