#include "core/fit/pool_fit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/device/machine_of.h"
#include "core/fit/deviation_fit.h"
#include "core/fit/family_fit.h"
#include "core/fit/interval_fit.h"
#include "core/fit/ladder_fit.h"
#include "core/fit/least_squares.h"
#include "core/fit/network.h"
#include "core/fit/order_statistic.h"
#include "core/fit/table_fit.h"
#include "core/profile/transfer.h"

namespace gpueta {
namespace {

using Rows = std::map<std::string, std::vector<const Measurement*>>;
using Specs = std::map<std::string, DeviceSpec>;

// Rows of one device in a pool: more would only drown the other devices.
constexpr std::size_t kRowsPerDevice = 3000;
constexpr std::size_t kFormRowsPerDevice = 800;
// Parameters and the devices' scales take turns.
constexpr int kRounds = 3;
constexpr double kScalePull = 3;  // holds scales near what data sheets say
constexpr ParamSpec kScale = {"ln scale", 0, -1.5, 1.5};

// The residual is learnt on machines that are a little different as well (this
// many copies, numbers changed by this deviation in ln): it is asked for
// machines that nobody measured.
constexpr int kCopies = 3;
constexpr double kMachineSpread = 1.0;
constexpr Eigen::Index kRowsSeen = 1'500'000;

// How far a device departs whose relatives are not known, in ln, and the
// network's share of it. By leave-one-out over the development devices.
constexpr float kScaleSd = 0.3F;
constexpr double kNetworkSd = 0.3;
constexpr float kConstantSd = 0.05F;
// Errors are not normal: noise is taken for this much more than their median
// says.
constexpr double kNoiseFactor = 1.5;
constexpr double kLeastNoise = 0.05;

// What part of a label's residual holds on a device that was left out.
using Shares = std::map<std::string, double>;
constexpr double kShares[] = {0, 0.25, 0.5, 0.75, 1};
constexpr double kShareOfOneDevice = 0.7;

// A single device says nothing about how devices differ.
constexpr Interval kOneDevice = {.p90_ln = 0.6F, .p99_ln = 1.4F, .measured_p90_ln = 0.6F, .measured_p99_ln = 1.4F};

std::vector<const Measurement*> Thinned(std::vector<const Measurement*> rows, std::size_t most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::shuffle(rows.begin(), rows.end(), random);
  rows.resize(std::min(rows.size(), most));
  return rows;
}

// Labels that one device only has say nothing that the device does not.
void MergeLabelsOfOneDevice(TableData& data) {
  std::map<int, std::map<std::string, int>> devices;
  std::map<std::string, int> all;
  for (std::size_t r = 0; r < data.rows.size(); ++r) {
    ++devices[data.label_of_row[r]][data.rows[r]->device];
    ++all[data.rows[r]->device];
  }
  if (all.size() < 2) return;
  std::vector<std::string> labels = {"*"};
  std::vector<int> index(data.labels.size(), 0);
  for (const auto& [label, having] : devices) {
    if (label == 0 || having.size() < 2) continue;
    index[static_cast<std::size_t>(label)] = static_cast<int>(labels.size());
    labels.push_back(data.labels[static_cast<std::size_t>(label)]);
  }
  for (int& label : data.label_of_row) label = index[static_cast<std::size_t>(label)];
  data.labels = std::move(labels);
}

std::map<std::string, std::vector<std::size_t>> PositionsByDevice(const TableData& data) {
  std::map<std::string, std::vector<std::size_t>> positions;
  for (std::size_t r = 0; r < data.rows.size(); ++r) positions[data.rows[r]->device].push_back(r);
  return positions;
}

// Machines a little unlike those that were measured.
TableData OnOtherMachines(TableData data, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, kMachineSpread);
  for (Machine<double>& machine : data.machines) {
    machine.sms = std::max(1.0, std::round(machine.sms * std::exp(normal(random))));
    machine.peak *= std::exp(normal(random));
    machine.bandwidth *= std::exp(normal(random));
    machine.l2 *= std::exp(normal(random));
    machine = machine.As<double>();
  }
  return data;
}

// What devices have in common: parameters, and the scales each departs by.
struct Common {
  std::vector<Variant> variants;
  std::map<std::string, std::vector<double>> scales;  // kScaleDeviations values
};

Common FitCommon(const TableData& data, const Specs& specs) {
  std::vector<std::size_t> chosen;
  for (const auto& [device, positions] : PositionsByDevice(data))
    chosen.insert(chosen.end(), positions.begin(),
                  positions.begin() + static_cast<std::ptrdiff_t>(std::min(positions.size(), kFormRowsPerDevice)));
  std::sort(chosen.begin(), chosen.end());
  TableData some = data.Subset(chosen);
  Common common;
  for (const auto& [device, spec] : specs) common.scales[device].assign(kScaleDeviations, 0);
  const auto by_device = PositionsByDevice(some);
  for (int round = 0; round < kRounds; ++round) {
    some.scales.clear();
    for (const Measurement* row : some.rows)
      some.scales.push_back(Deviating(ScaleOf(specs.at(row->device), data.key), common.scales.at(row->device)));
    common.variants = FitFamily(some, true);
    if (by_device.size() < 2) break;
    for (const auto& [device, positions] : by_device) {
      TableData own = some.Subset(positions);
      const DeviceScale sheet = ScaleOf(specs.at(device), data.key);
      const std::vector<ParamSpec> params(kScaleDeviations, kScale);
      const std::vector<double> start(kScaleDeviations, 0);
      common.scales[device] = FitBounded(params, start, {true, true, true}, positions.size(),
                                         [&](auto theta, auto out) {
                                           own.scales.assign(positions.size(), Deviating(sheet, theta));
                                           Eigen::Map<Eigen::VectorXd>(out.data(), own.size()) =
                                               PredictFamily(own, common.variants) - own.ln_us;
                                         },
                                         {.pull = kScalePull});
    }
  }
  return common;
}

// Refits the last layer to so much of what the network says, label by label: its
// units stay those that tell rows apart.
void KeepShares(const TableData& data, const Shares& shares, const Eigen::MatrixXf& features, Residual& residual) {
  if (shares.empty()) return;
  constexpr double kRidge = 1e-4;  // of the mean diagonal: units may be dead
  const Eigen::MatrixXd units = LastHiddenUnits(residual, features);
  Eigen::VectorXd target = EvaluateNetwork(residual, features).cast<double>();
  for (Eigen::Index r = 0; r < data.size(); ++r)
    target[r] *= shares.at(data.labels[static_cast<std::size_t>(data.label_of_row[static_cast<std::size_t>(r)])]);
  Eigen::MatrixXd gram = units.transpose() * units;
  gram.diagonal().array() += kRidge * gram.diagonal().mean();
  const Eigen::VectorXd weights = gram.ldlt().solve(units.transpose() * target);
  std::transform(weights.begin(), weights.end(), residual.weights.end() - weights.size(),
                 [](double weight) { return static_cast<float>(weight); });
}

// Everything but interval and error.
Table FitShared(const TableData& data, const Specs& specs, const Shares& shares, std::uint64_t seed) {
  const Common common = FitCommon(data, specs);
  Table table;
  table.key = data.key;
  table.rows = data.size();
  table.variants = common.variants;
  TableData scaled = data;
  for (const Measurement* row : data.rows)
    scaled.scales.push_back(Deviating(ScaleOf(specs.at(row->device), data.key), common.scales.at(row->device)));
  const Eigen::VectorXd left_over = data.ln_us - PredictFamily(scaled, table.variants);
  const Eigen::MatrixXf features = data.Features().cast<float>();
  const Eigen::Index n = data.size();
  Eigen::MatrixXf lessons(n * (kCopies + 1), features.cols());
  lessons.topRows(n) = features;
  std::mt19937_64 random(seed);
  for (int copy = 1; copy <= kCopies; ++copy)
    lessons.middleRows(copy * n, n) = OnOtherMachines(data, random).Features().cast<float>();
  TrainOptions options{.hidden = {32, 32}, .seed = seed};
  options.epochs = static_cast<int>(std::clamp<Eigen::Index>(kRowsSeen / lessons.rows(), 4, 200));
  table.residual = TrainNetwork(lessons, left_over.cast<float>().replicate(kCopies + 1, 1), options);
  const Eigen::VectorXd noise = left_over - EvaluateNetwork(table.residual, features).cast<double>();
  KeepShares(data, shares, features, table.residual);

  const Eigen::MatrixXd units = LastHiddenUnits(table.residual, features);
  Pooling& pooling = table.pooling;
  pooling.noise_ln =
      static_cast<float>(std::max(kNoiseFactor * 1.4826 * Median(Eigen::VectorXd(noise.cwiseAbs())), kLeastNoise));
  pooling.deviation_sd.assign(kScaleDeviations, kScaleSd);
  const Eigen::Index hidden = units.cols() - 1;
  for (Eigen::Index u = 0; u < hidden; ++u) {
    const double mean = units.col(u).mean();
    const double sd = std::sqrt((units.col(u).array() - mean).square().mean());
    constexpr double kDead = 0.05;
    pooling.deviation_sd.push_back(
        static_cast<float>(kNetworkSd / std::sqrt(static_cast<double>(hidden)) / (sd + kDead)));
  }
  pooling.deviation_sd.push_back(kConstantSd);
  for (const auto& [device, positions] : PositionsByDevice(data)) {
    std::vector<double> expected(pooling.deviation_sd.size(), 0);
    std::copy(common.scales.at(device).begin(), common.scales.at(device).end(), expected.begin());
    const DeviationFit fit = FitDeviation(data.Subset(positions), table, specs.at(device), expected, 1);
    pooling.deviations.push_back(
        {device, std::vector<float>(fit.mean.begin(), fit.mean.end()), static_cast<std::int64_t>(positions.size())});
  }
  return table;
}

// A left-out device's rows, predicted from the others by form and residual.
struct LeftOut {
  std::string device;
  TableData data;
  double variance = 1;      // what its relatives leave open
  Eigen::VectorXd form_ln;  // without what the residual has in common
  Eigen::VectorXd residual_ln;
};

LeftOut PredictLeftOut(const std::string& device, const Rows& rows, const TableKey& key, const Specs& specs,
                       std::uint64_t seed) {
  const auto machine_of = [&](const Measurement& row) { return MachineOf(specs.at(row.device), key); };
  std::vector<const Measurement*> others;
  Specs known;
  std::vector<DeviceSpec> pool;
  for (const auto& [other, members] : rows) {
    if (other == device) continue;
    others.insert(others.end(), members.begin(), members.end());
    known[other] = specs.at(other);
    pool.push_back(specs.at(other));
  }
  TableData rest = MakeTableData(key, std::move(others), machine_of);
  MergeLabelsOfOneDevice(rest);
  Table table = FitShared(rest, known, {}, seed);
  LeftOut out{
      .device = device, .data = MakeTableData(key, rows.at(device), machine_of), .form_ln = {}, .residual_ln = {}};
  Relabel(table, out.data);
  const Inherited expected = InheritedBy(table, pool, specs.at(device));
  out.variance = expected.variance;
  const Eigen::VectorXd whole = PredictWithDeviation(out.data, table, specs.at(device), expected.deviation);
  out.residual_ln = EvaluateNetwork(table.residual, out.data.Features().cast<float>()).cast<double>();
  out.form_ln = whole - out.residual_ln;
  return out;
}

// The label that a row has in the pool.
std::string LabelIn(const TableData& pool, const Measurement& row) {
  std::string label = LabelOf(row.kernel);
  return std::find(pool.labels.begin(), pool.labels.end(), label) == pool.labels.end() ? "*" : label;
}

// By label: what makes the mean error least over the devices left out.
Shares BestShares(const std::vector<LeftOut>& left_out, const TableData& pool) {
  std::map<std::string, std::map<double, double>> errors;
  for (const LeftOut& one : left_out) {
    std::map<std::string, std::vector<Eigen::Index>> by_label;
    for (Eigen::Index r = 0; r < one.data.size(); ++r)
      by_label[LabelIn(pool, *one.data.rows[static_cast<std::size_t>(r)])].push_back(r);
    for (const auto& [label, positions] : by_label) {
      for (const double share : kShares) {
        const Eigen::VectorXd ln = one.form_ln(positions) + share * one.residual_ln(positions);
        errors[label][share] +=
            ((ln - one.data.ln_us(positions)).array().exp() - 1).abs().mean() / static_cast<double>(left_out.size());
      }
    }
  }
  Shares shares;
  for (const auto& [label, by_share] : errors) {
    const auto best = std::min_element(by_share.begin(), by_share.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    shares[label] = best->first;
  }
  return shares;
}

void FillIntervals(const std::vector<LeftOut>& left_out, const Shares& shares, const TableData& pool, Table& table) {
  std::vector<std::vector<double>> errors;
  double squares = 0, variance = 0, mape = 0;
  for (const LeftOut& one : left_out) {
    std::vector<double> ln;
    double sum = 0;
    for (Eigen::Index r = 0; r < one.data.size(); ++r) {
      const double share = shares.at(LabelIn(pool, *one.data.rows[static_cast<std::size_t>(r)]));
      ln.push_back(one.data.ln_us[r] - one.form_ln[r] - share * one.residual_ln[r]);
      sum += ln.back() * ln.back();
      mape += std::abs(std::expm1(-ln.back())) / static_cast<double>(one.data.size() * left_out.size());
    }
    squares += sum / static_cast<double>(ln.size() * left_out.size());
    variance += one.variance / static_cast<double>(left_out.size());
    errors.push_back(std::move(ln));
  }
  Pooling& pooling = table.pooling;
  const double noise = pooling.noise_ln;
  pooling.device_ln = static_cast<float>(std::sqrt(std::max(squares - noise * noise, noise * noise / 4) / variance));
  const double whole = std::hypot(noise, pooling.device_ln);
  std::vector<HeldOut> held_out;
  for (std::size_t d = 0; d < errors.size(); ++d) {
    const double spread =
        std::sqrt(noise * noise + left_out[d].variance * pooling.device_ln * pooling.device_ln) / whole;
    for (const double ln : errors[d]) held_out.push_back({ln, spread});
  }
  table.interval = IntervalOf(held_out, pooling.noise_ln);
  // A few devices: the next one may be off by what none of them was.
  table.interval.p90_ln = std::max(table.interval.p90_ln, static_cast<float>(1.2816 * whole));
  table.interval.p99_ln = std::max(table.interval.p99_ln, static_cast<float>(2.3263 * whole));
  table.cv_mape = static_cast<float>(mape);
}

}  // namespace

Table FitPool(const TableKey& key, Rows rows, const Specs& specs, std::uint64_t seed) {
  Specs known;
  std::vector<const Measurement*> all;
  std::int64_t count = 0;
  double floor_us = std::numeric_limits<double>::max();
  for (auto& [device, members] : rows) {
    known[device] = specs.at(device);
    count += static_cast<std::int64_t>(members.size());
    for (const Measurement* row : members) floor_us = std::min(floor_us, row->latency_us);
    members = Thinned(std::move(members), kRowsPerDevice, seed);
    all.insert(all.end(), members.begin(), members.end());
  }
  const auto machine_of = [&](const Measurement& row) { return MachineOf(known.at(row.device), key); };
  TableData data = MakeTableData(key, all, machine_of);
  MergeLabelsOfOneDevice(data);
  std::vector<LeftOut> left_out;
  Shares shares;
  if (rows.size() > 1) {
    for (const auto& [device, members] : rows) left_out.push_back(PredictLeftOut(device, rows, key, known, seed));
    shares = BestShares(left_out, data);
  } else {
    for (const std::string& label : data.labels) shares[label] = kShareOfOneDevice;
  }
  Table table = FitShared(data, known, shares, seed);
  table.rows = count;
  FillHull(data, table);
  table.floor_us = static_cast<float>(floor_us);
  table.inter_gpu = FitInterGpu(rows, known);
  if (left_out.empty()) {
    table.interval = kOneDevice;
  } else {
    FillIntervals(left_out, shares, data, table);
  }
  return table;
}

}  // namespace gpueta
