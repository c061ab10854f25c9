#include "core/fit/fit.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/fit/family_fit.h"
#include "core/fit/folds.h"
#include "core/fit/gaussian_process.h"
#include "core/fit/ladder_fit.h"
#include "core/fit/standardiser.h"
#include "core/fit/table_fit.h"
#include "core/fit/transferred_fit.h"
#include "core/measurements/table_of.h"

namespace gpueta {
namespace {

using RowsByKey = std::map<TableKey, std::vector<const Measurement*>>;

RowsByKey GroupByKey(std::span<const Measurement> rows) {
  RowsByKey groups;
  for (const Measurement& row : rows) {
    if (const std::optional<TableKey> key = TableOf(row); key.has_value()) groups[*key].push_back(&row);
  }
  return groups;
}

// The table's own rows, then those of other types that teach it.
std::vector<const Measurement*> WithOtherDTypes(const TableKey& key, const RowsByKey& groups) {
  std::vector<const Measurement*> rows = groups.at(key);
  for (const auto& [other, theirs] : groups) {
    if (other != key && EvidenceKeyOf(other) == EvidenceKeyOf(key))
      rows.insert(rows.end(), theirs.begin(), theirs.end());
  }
  return rows;
}

// A number for each shape, types apart from it, from 0 on.
std::vector<std::size_t> ShapeOfEachRow(const TableData& data) {
  std::map<std::vector<double>, std::size_t> numbers;
  std::vector<std::size_t> shapes;
  for (Eigen::Index r = 0; r < data.size(); ++r) {
    const Eigen::VectorXd dims = data.dims.row(r);
    const auto [at, is_new] = numbers.try_emplace({dims.begin(), dims.end()}, numbers.size());
    shapes.push_back(at->second);
  }
  return shapes;
}

// Moves the rows of other types to where those of the table's own type are:
// reducing in another type takes some per cent more or less, by operator and
// size. A process over rows with the type as one more input says how much; it has
// not seen the shapes that it moves, or else a row would carry the noise of its
// twin of the own type into what is held out for intervals.
void AlignOtherDTypes(TableData& data, std::uint64_t seed) {
  const auto is_own = [&](Eigen::Index r) {
    return data.rows[static_cast<std::size_t>(r)]->kernel.dtype == data.key.dtype;
  };
  const Eigen::VectorXd left_over = data.ln_us - PredictFamily(data, FitFamily(data));
  Eigen::MatrixXd features = data.Features();
  features.conservativeResize(Eigen::NoChange, features.cols() + 1);
  for (Eigen::Index r = 0; r < data.size(); ++r) features.rightCols<1>()(r) = is_own(r) ? 1 : 0;
  Eigen::MatrixXd as_own = features;
  as_own.rightCols<1>().setOnes();
  const Standardiser standardise(features);
  constexpr Eigen::Index kMostRows = 2000;  // an exact process of more takes too long
  const Eigen::Index step = (data.size() + kMostRows - 1) / kMostRows;
  const std::vector<std::size_t> shapes = ShapeOfEachRow(data);
  for (const Fold& fold : Folds(static_cast<Eigen::Index>(1 + *std::ranges::max_element(shapes)), seed)) {
    const std::set<Eigen::Index> held_out(fold.test.begin(), fold.test.end());
    std::vector<Eigen::Index> seen, moved;
    for (Eigen::Index r = 0; r < data.size(); ++r) {
      const bool is_held_out = held_out.contains(static_cast<Eigen::Index>(shapes[static_cast<std::size_t>(r)]));
      if (!is_held_out && r % step == 0) seen.push_back(r);
      if (is_held_out && !is_own(r)) moved.push_back(r);
    }
    if (seen.empty() || moved.empty()) continue;
    const auto process = GaussianProcess::Fit(standardise(features(seen, Eigen::all)), left_over(seen), {.seed = seed});
    data.ln_us(moved) +=
        process.Mean(standardise(as_own(moved, Eigen::all))) - process.Mean(standardise(features(moved, Eigen::all)));
  }
}

std::vector<ProfileSource> SourcesOf(std::span<const Measurement> rows) {
  std::map<std::string, std::int64_t> counts;
  for (const Measurement& row : rows) ++counts[row.source.empty() ? "unnamed" : row.source];
  std::vector<ProfileSource> sources;
  for (const auto& [name, count] : counts) sources.push_back({name, count});
  return sources;
}

// What the departure says of the host, as rates.
void SetMachineRates(Profile& profile) {
  profile.host_issue_us = std::exp(profile.whole_model.departure[WholeModel::kLaunch]);
  profile.host_copy_gb_s = 1e-3 / std::exp(profile.whole_model.departure[WholeModel::kCopy]);
}

}  // namespace

absl::StatusOr<Profile> FitProfile(const DeviceSpec& spec, std::span<const Measurement> rows,
                                   const FitOptions& options) {
  if (rows.empty()) return InvalidArgument("no measurements of {} to fit; measure some kernels first", spec.slug);
  for (const Measurement& row : rows) {
    if (!(row.latency_us > 0)) return InvalidArgument("line {}: a row without latency cannot be fitted", row.line);
  }
  Profile profile;
  profile.device = spec.slug;
  profile.spec = spec;
  profile.sources = SourcesOf(rows);
  std::vector<std::string> without = options.without;
  without.push_back(spec.slug);
  std::size_t done = 0;
  const RowsByKey groups = GroupByKey(rows);
  if (groups.empty())
    return InvalidArgument("measurements of {}: all are of gradients, which have no tables", spec.slug);
  for (const auto& [key, own] : groups) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(rows.size()), Describe(key));
    const Machine<double> machine = MachineOf(spec, key);
    done += own.size();
    TableData data = MakeTableData(key, WithOtherDTypes(key, groups), [&](const Measurement&) { return machine; });
    if (data.rows.size() > own.size()) AlignOtherDTypes(data, options.seed);
    const Table* pooled = options.base == nullptr ? nullptr : options.base->Find(key);
    const bool transfers =
        pooled != nullptr && !pooled->pooling.deviations.empty() && data.size() <= kMostTransferredRows;
    std::vector<std::unique_ptr<Prior>> others;
    if (transfers && data.size() >= kMostlyOwnRows)
      others.push_back(FitPooledPrior(data, *pooled, options.base->pool, spec, without));
    Table& table = profile.tables.emplace_back(
        transfers && others.empty() ? FitTransferred(data, *pooled, options.base->pool, spec, without, options.seed)
                                    : FitTable(data, options.seed, std::move(others)));
    table.kernel_wise = FitKernelWise(own, spec);
    table.layer_wise = FitLayerWise(own, spec);
  }
  if (options.progress) options.progress(1, "done");
  GPUETA_RETURN_IF_ERROR(CheckStructure(profile));
  return profile;
}

void LearnFromModels(std::span<const ModelTime> times, const FitOptions& options, Profile& profile) {
  WholeModel pooled;
  std::span<const DeviceSpec> pool;
  if (options.base != nullptr && !options.base->whole_model.empty()) {
    pooled = options.base->whole_model;
    pool = options.base->pool;
  } else {
    for (const ParamSpec& param : WholeModelParams()) pooled.theta.push_back(param.start);
  }
  std::vector<std::string> without = options.without;
  without.push_back(profile.device);
  profile.whole_model = UpdateWholeModel(WholeModelFor(pooled, pool, profile.spec, without), times, profile.spec);
  SetMachineRates(profile);
  profile.end_to_end = FitEndToEnd(times);
  profile.sources.push_back({"whole models", static_cast<std::int64_t>(times.size())});
}

absl::Status PoolModels(std::span<const ModelTime> times,
                        const std::function<absl::StatusOr<DeviceSpec>(const std::string&)>& spec_of,
                        Profile& profile) {
  std::map<std::string, DeviceSpec> specs;
  for (const ModelTime& time : times) {
    if (specs.contains(time.device)) continue;
    GPUETA_ASSIGN_OR_RETURN(specs[time.device], spec_of(time.device));
    const bool known = std::any_of(profile.pool.begin(), profile.pool.end(),
                                   [&](const DeviceSpec& spec) { return spec.slug == time.device; });
    if (!known) profile.pool.push_back(specs[time.device]);
  }
  profile.whole_model = FitWholeModels(times, specs);
  profile.sources.push_back({"whole models", static_cast<std::int64_t>(times.size())});
  return CheckStructure(profile);
}

}  // namespace gpueta
