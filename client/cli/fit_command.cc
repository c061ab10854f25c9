#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/fit/fit.h"

namespace gpueta::cli {
namespace {

struct FitArgs {
  std::string device;
  std::vector<std::string> measurements;
  std::string spec;
  std::vector<std::string> exclude;
  std::string out;
  bool pool = false;
};

nlohmann::json ToJson(const Profile& profile, const std::string& id, const std::string& path) {
  nlohmann::json tables = nlohmann::json::array();
  for (const Table& table : profile.tables) {
    tables.push_back({{"table", Describe(table.key)},
                      {"rows", table.rows},
                      {"held_out_mape", table.cv_mape},
                      {"p90_ln", table.interval.p90_ln},
                      {"kernel_configurations", table.kernel_configs.size()}});
  }
  return {{"device", profile.device}, {"id", id}, {"path", path}, {"tables", tables}};
}

absl::StatusOr<Profile> FitPool(const FitArgs& args, std::vector<Measurement> rows, const FitOptions& options) {
  const Catalogue& catalogue = Catalogue::BuiltIn();
  std::set<std::string> excluded;
  for (const std::string& slug : args.exclude) excluded.insert(catalogue.CanonicalSlug(slug));
  std::erase_if(rows, [&](const Measurement& row) { return excluded.contains(catalogue.CanonicalSlug(row.device)); });
  return FitTransferProfile(
      rows, [&](const std::string& slug) { return catalogue.Get(slug); }, options);
}

// SOURCE_DATE_EPOCH (reproducible-builds.org) makes the file the same each time.
std::int64_t CreationTime() {
  if (const char* fixed = std::getenv("SOURCE_DATE_EPOCH"); fixed != nullptr) return std::atoll(fixed);
  return std::time(nullptr);
}

absl::Status Fit(const FitArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(std::vector<Measurement> rows, args.pool
                                                             ? ReadMeasurementFiles(args.measurements)
                                                             : ReadMeasurementFilesOf(args.measurements, args.device));
  terminal::Progress progress;
  FitOptions options;
  options.seed = globals.seed;
  options.progress = [&](double share, std::string_view what) { progress.Update(share, what); };
  absl::StatusOr<Profile> profile;
  if (args.pool) {
    profile = FitPool(args, std::move(rows), options);
  } else {
    GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, ReadSpec(args.device, args.spec));
    profile = FitProfile(spec, rows, options);
  }
  if (!profile.ok()) return profile.status();
  profile->created_unix_s = CreationTime();
  GPUETA_ASSIGN_OR_RETURN(const std::string id, SaveProfile(*profile, args.out));
  if (globals.json) {
    fmt::print("{}\n", ToJson(*profile, id, args.out).dump(2));
    return absl::OkStatus();
  }
  terminal::TextTable table({"table", "rows", "held-out error", "kernel configurations"});
  for (const Table& t : profile->tables) {
    table.Add({Describe(t.key), std::to_string(t.rows), t.cv_mape > 0 ? terminal::FormatPercent(t.cv_mape) : "unknown",
               std::to_string(t.kernel_configs.size())});
  }
  fmt::print("{}profile {} of {} written to {}\n", table.Render(), id, profile->device, args.out);
  return absl::OkStatus();
}

}  // namespace

void AddFit(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<FitArgs>();
  CLI::App* fit = app.add_subcommand("fit", "Fit a profile to measurements of one device");
  auto* device = fit->add_option("--device", args->device, "Slug of the measured device");
  fit->add_option("--measurements", args->measurements, "Measurement CSVs")->required()->check(CLI::ExistingFile);
  fit->add_option("--spec", args->spec, "CSV with the device's own spec row, for devices outside the catalogue")
      ->check(CLI::ExistingFile);
  auto* pool = fit->add_flag("--pool", args->pool, "Pool all devices of the files into a transfer profile");
  fit->add_option("--exclude", args->exclude, "With --pool: devices to leave out, e.g. for an honest test")
      ->delimiter(',')
      ->needs(pool);
  fit->add_option("--out", args->out, "Profile file to write")->required();
  device->excludes(pool);
  fit->callback([args, &globals, &chosen] {
    if (args->device.empty() && !args->pool) throw CLI::RequiredError("--device or --pool");
    chosen = [args, &globals] { return Fit(*args, globals); };
  });
}

}  // namespace gpueta::cli
