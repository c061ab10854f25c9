// The pooled profile: one set of parameters over all devices.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/fit/family_fit.h"
#include "core/fit/fit.h"
#include "core/fit/interval_fit.h"
#include "core/fit/table_fit.h"

namespace gpueta {
namespace {

// Rows of one device in a pool: more would only drown the other devices.
constexpr std::size_t kRowsPerDevice = 700;
// A single device says nothing about how devices differ.
constexpr Interval kOneDevice = {.p90_ln = 0.6F, .p99_ln = 1.4F, .measured_p90_ln = 0.6F, .measured_p99_ln = 1.4F};

std::vector<const Measurement*> Thinned(std::vector<const Measurement*> rows, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::shuffle(rows.begin(), rows.end(), random);
  rows.resize(std::min(rows.size(), kRowsPerDevice));
  return rows;
}

}  // namespace

absl::StatusOr<Profile> FitTransferProfile(std::span<const Measurement> rows,
                                           const std::function<absl::StatusOr<DeviceSpec>(const std::string&)>& spec_of,
                                           const FitOptions& options) {
  if (rows.empty()) return InvalidArgument("no measurements to pool");
  std::map<std::string, DeviceSpec> specs;
  std::map<TableKey, std::map<std::string, std::vector<const Measurement*>>> groups;  // key, device
  std::map<std::string, std::int64_t> sources;
  for (const Measurement& row : rows) {
    // Links between devices are not in data sheets: collectives do not transfer.
    if (row.kernel.op() == Op::kCollective) continue;
    if (!specs.contains(row.device)) {
      GPUETA_ASSIGN_OR_RETURN(specs[row.device], spec_of(row.device));
    }
    groups[KeyOf(row.kernel, row.timing)][row.device].push_back(&row);
    ++sources[row.source];
  }
  Profile profile;
  profile.device = "transfer";
  profile.transfer = true;
  for (const auto& [name, count] : sources) profile.sources.push_back({name, count});
  std::size_t done = 0;
  for (auto& [key, by_device] : groups) {
    if (options.progress)
      options.progress(static_cast<double>(done++) / static_cast<double>(groups.size()), Describe(key));
    const auto machine_of = [&](const Measurement& row) { return MachineOf(specs.at(row.device), key); };
    std::vector<const Measurement*> pooled;
    for (auto& [device, members] : by_device) {
      members = Thinned(std::move(members), options.seed);
      pooled.insert(pooled.end(), members.begin(), members.end());
    }
    const TableData data = MakeTableData(key, pooled, machine_of);
    Table table;
    table.key = key;
    table.rows = data.size();
    table.variants = FitFamily(data);
    FillHull(data, table);
    // Each device predicted from the others says how far transfer errs.
    std::vector<HeldOut> held_out;
    for (const auto& [device, members] : by_device) {
      if (by_device.size() == 1) break;
      std::vector<const Measurement*> others;
      for (const Measurement* row : pooled) {
        if (row->device != device) others.push_back(row);
      }
      const TableData rest = MakeTableData(key, others, machine_of);
      const std::vector<Variant> variants = FitFamily(rest);
      // Labels as the others know them.
      TableData target = MakeTableData(key, members, machine_of);
      for (int& label : target.label_of_row) {
        const auto known =
            std::find(rest.labels.begin(), rest.labels.end(), target.labels[static_cast<std::size_t>(label)]);
        label = known == rest.labels.end() ? 0 : static_cast<int>(known - rest.labels.begin());
      }
      const Eigen::VectorXd error = target.ln_us - PredictFamily(target, variants);
      for (double ln : error) held_out.push_back({ln});
    }
    table.interval = held_out.empty() ? kOneDevice : IntervalOf(held_out, kOneDevice.p90_ln);
    table.cv_mape = static_cast<float>(MapeOf(held_out));
    profile.tables.push_back(std::move(table));
  }
  if (options.progress) options.progress(1, "done");
  GPUETA_RETURN_IF_ERROR(CheckStructure(profile));
  return profile;
}

}  // namespace gpueta
