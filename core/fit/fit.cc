#include "core/fit/fit.h"

#include <algorithm>
#include <ctime>
#include <map>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/fit/table_fit.h"

namespace gpueta {
namespace {

using RowsByKey = std::map<TableKey, std::vector<const Measurement*>>;

RowsByKey GroupByKey(std::span<const Measurement> rows) {
  RowsByKey groups;
  for (const Measurement& row : rows) groups[KeyOf(row.kernel, row.timing)].push_back(&row);
  return groups;
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
  std::size_t done = 0;
  for (auto& [key, members] : GroupByKey(rows)) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(rows.size()), Describe(key));
    const Machine<double> machine = MachineOf(spec, key);
    done += members.size();
    const TableData data = MakeTableData(key, std::move(members), [&](const Measurement&) { return machine; });
    profile.tables.push_back(FitTable(data, options.seed));
  }
  if (options.progress) options.progress(1, "done");
  GPUETA_RETURN_IF_ERROR(CheckStructure(profile));
  return profile;
}

}  // namespace gpueta
