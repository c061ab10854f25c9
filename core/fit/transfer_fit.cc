// The pooled profile: tables over all devices.
#include <map>

#include "core/base/errors.h"
#include "core/fit/fit.h"
#include "core/fit/pool_fit.h"
#include "core/measurements/table_of.h"

namespace gpueta {

absl::StatusOr<Profile> FitTransferProfile(std::span<const Measurement> rows,
                                           const std::function<absl::StatusOr<DeviceSpec>(const std::string&)>& spec_of,
                                           const FitOptions& options) {
  if (rows.empty()) return InvalidArgument("no measurements to pool");
  std::map<std::string, std::string> canonical;  // by the rows' name of a device
  std::map<std::string, DeviceSpec> specs;
  std::vector<Measurement> pooled;
  std::map<std::string, std::int64_t> sources;
  for (const Measurement& row : rows) {
    // Links between devices are not in data sheets: collectives do not transfer.
    if (row.kernel.op() == Op::kCollective || !TableOf(row).has_value()) continue;
    if (!canonical.contains(row.device)) {
      GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, spec_of(row.device));
      canonical[row.device] = spec.slug;
      specs[spec.slug] = spec;
    }
    pooled.push_back(row);
    pooled.back().device = canonical[row.device];
    ++sources[row.source];
  }
  if (pooled.empty()) return InvalidArgument("no measurements to pool: all are of gradients or collectives");
  std::map<TableKey, std::map<std::string, std::vector<const Measurement*>>> groups;  // key, device
  for (const Measurement& row : pooled) groups[*TableOf(row)][row.device].push_back(&row);
  Profile profile;
  profile.device = "transfer";
  profile.transfer = true;
  for (const auto& [name, count] : sources) profile.sources.push_back({name, count});
  for (const auto& [slug, spec] : specs) profile.pool.push_back(spec);
  std::size_t done = 0;
  for (auto& [key, by_device] : groups) {
    if (options.progress)
      options.progress(static_cast<double>(done++) / static_cast<double>(groups.size()), Describe(key));
    profile.tables.push_back(FitPool(key, std::move(by_device), specs, options.seed));
  }
  if (options.progress) options.progress(1, "done");
  GPUETA_RETURN_IF_ERROR(CheckStructure(profile));
  return profile;
}

}  // namespace gpueta
