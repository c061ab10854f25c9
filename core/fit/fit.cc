#include "core/fit/fit.h"

#include <algorithm>
#include <ctime>
#include <map>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/fit/family_fit.h"
#include "core/fit/inter_gpu_fit.h"
#include "core/fit/table_fit.h"
#include "core/fit/transferred_fit.h"

namespace gpueta {
namespace {

using RowsByKey = std::map<TableKey, std::vector<const Measurement*>>;

RowsByKey GroupByKey(std::span<const Measurement> rows) {
  RowsByKey groups;
  for (const Measurement& row : rows) groups[KeyOf(row.kernel, row.timing)].push_back(&row);
  return groups;
}

// What a collective takes depends on its bytes, little on their type: rows of
// other types help where there are few.
std::vector<const Measurement*> WithOtherDTypes(const TableKey& key, const RowsByKey& groups) {
  std::vector<const Measurement*> rows = groups.at(key);
  if (key.op != Op::kCollective) return rows;
  for (const auto& [other, theirs] : groups) {
    TableKey same = other;
    same.dtype = key.dtype;
    if (other != key && same == key) rows.insert(rows.end(), theirs.begin(), theirs.end());
  }
  return rows;
}

// Moves the rows of other types, label by label, to where those of the table's
// own type are: reducing in another type takes some per cent more or less.
void AlignOtherDTypes(TableData& data) {
  const auto is_own = [&](std::size_t r) { return data.rows[r]->kernel.dtype == data.key.dtype; };
  const Eigen::VectorXd left_over = data.ln_us - PredictFamily(data, FitFamily(data));
  struct Sum {
    double ln = 0;
    double count = 0;
  };
  std::vector<Sum> own(data.labels.size());
  std::vector<Sum> other(data.labels.size());
  for (std::size_t r = 0; r < data.rows.size(); ++r) {
    Sum& sum = (is_own(r) ? own : other)[static_cast<std::size_t>(data.label_of_row[r])];
    sum.ln += left_over[static_cast<Eigen::Index>(r)];
    ++sum.count;
  }
  for (std::size_t r = 0; r < data.rows.size(); ++r) {
    const auto label = static_cast<std::size_t>(data.label_of_row[r]);
    if (is_own(r) || own[label].count == 0) continue;
    constexpr double kShrink = 4;  // rows that say there is no difference
    const double pairs = std::min(own[label].count, other[label].count);
    data.ln_us[static_cast<Eigen::Index>(r)] +=
        pairs / (pairs + kShrink) * (own[label].ln / own[label].count - other[label].ln / other[label].count);
  }
}

std::vector<ProfileSource> SourcesOf(std::span<const Measurement> rows) {
  std::map<std::string, std::int64_t> counts;
  for (const Measurement& row : rows) ++counts[row.source.empty() ? "unnamed" : row.source];
  std::vector<ProfileSource> sources;
  for (const auto& [name, count] : counts) sources.push_back({name, count});
  return sources;
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
  for (const auto& [key, own] : groups) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(rows.size()), Describe(key));
    const Machine<double> machine = MachineOf(spec, key);
    done += own.size();
    TableData data = MakeTableData(key, WithOtherDTypes(key, groups), [&](const Measurement&) { return machine; });
    if (data.rows.size() > own.size()) AlignOtherDTypes(data);
    const Table* pooled = options.base == nullptr ? nullptr : options.base->Find(key);
    const bool transfers =
        pooled != nullptr && !pooled->pooling.deviations.empty() && data.size() <= kMostTransferredRows;
    Table& table = profile.tables.emplace_back(
        transfers ? FitTransferred(data, *pooled, options.base->pool, spec, without, options.seed)
                  : FitTable(data, options.seed));
    table.kernel_wise = FitKernelWise(own, spec);
    table.layer_wise = FitLayerWise(own, spec);
  }
  if (options.progress) options.progress(1, "done");
  GPUETA_RETURN_IF_ERROR(CheckStructure(profile));
  return profile;
}

}  // namespace gpueta
