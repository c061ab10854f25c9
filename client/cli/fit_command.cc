#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/model_times.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/fit/fit.h"
#include "core/profile/transfer.h"

namespace gpueta::cli {
namespace {

struct FitArgs {
  std::string device;
  std::vector<std::string> measurements;
  ModelRunArgs models;
  std::string spec;
  std::vector<std::string> exclude;
  std::string out;
  std::string base = "auto";
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
  nlohmann::json out = {{"device", profile.device}, {"id", id}, {"path", path}, {"tables", tables}};
  if (const WholeModel& whole = profile.whole_model; !whole.empty()) {
    out["whole_models"] = {{"rows", whole.rows},
                           {"machines", whole.machines.size()},
                           {"error_ln", whole.noise_ln},
                           {"host_issue_us", profile.host_issue_us},
                           {"host_copy_gb_s", profile.host_copy_gb_s}};
  }
  return out;
}

// Slugs without their aliases.
std::set<std::string> Excluded(const FitArgs& args) {
  std::set<std::string> excluded;
  for (const std::string& slug : args.exclude) excluded.insert(Catalogue::BuiltIn().CanonicalSlug(slug));
  return excluded;
}

// The transfer profile that --base names.
absl::StatusOr<std::optional<Profile>> BaseOf(const FitArgs& args, const DeviceSpec& spec, const Globals& globals) {
  if (args.base == "none") return std::nullopt;
  if (args.base == "auto") return TransferToLearnFrom(ProfileDirectory(globals), spec);
  GPUETA_ASSIGN_OR_RETURN(std::vector<LoadedProfile> profiles, LoadProfileDirectory(args.base));
  for (LoadedProfile& loaded : profiles) {
    if (loaded.profile.transfer) return std::move(loaded.profile);
  }
  return NotFound("--base: {} has no transfer profile; make one with fit --pool, or give --base none", args.base);
}

absl::StatusOr<Profile> FitPool(const FitArgs& args, std::vector<Measurement> rows, const FitOptions& options) {
  const Catalogue& catalogue = Catalogue::BuiltIn();
  const std::set<std::string> excluded = Excluded(args);
  const auto spec_of = [&](const std::string& slug) { return catalogue.Get(slug); };
  std::erase_if(rows, [&](const Measurement& row) { return excluded.contains(catalogue.CanonicalSlug(row.device)); });
  Profile profile;
  profile.device = "transfer";
  profile.transfer = true;
  if (!rows.empty() || args.models.files.empty()) {
    GPUETA_ASSIGN_OR_RETURN(profile, FitTransferProfile(rows, spec_of, options));
  }
  if (!args.models.files.empty()) {
    GPUETA_ASSIGN_OR_RETURN(std::vector<ModelTime> times, ReadModelTimes(args.models));
    std::erase_if(times, [&](const ModelTime& time) { return excluded.contains(time.device); });
    if (times.empty()) return InvalidArgument("--model-measurements: every row is of a device in --exclude");
    GPUETA_RETURN_IF_ERROR(PoolModels(times, spec_of, profile));
  }
  return profile;
}

absl::StatusOr<Profile> FitDevice(const FitArgs& args, const std::vector<Measurement>& rows, const DeviceSpec& spec,
                                  const FitOptions& options) {
  Profile profile;
  profile.device = spec.slug;
  profile.spec = spec;
  if (!rows.empty() || args.models.files.empty()) {
    GPUETA_ASSIGN_OR_RETURN(profile, FitProfile(spec, rows, options));
  }
  if (!args.models.files.empty()) {
    GPUETA_ASSIGN_OR_RETURN(const std::vector<ModelTime> times, ReadModelTimesOf(args.models, args.device));
    LearnFromModels(times, options, profile);
  }
  return profile;
}

// What the pool's devices have in common was learnt from this one, too.
void WarnIfSeen(const Profile& base, const DeviceSpec& spec) {
  if (!HasSeen(base, spec)) return;
  fmt::print(stderr,
             "gpueta: the transfer profile in --base was fitted to {} as well; for an honest test make one with fit "
             "--pool --exclude {}\n",
             spec.slug, spec.slug);
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
    GPUETA_ASSIGN_OR_RETURN(const std::optional<Profile> base, BaseOf(args, spec, globals));
    if (base.has_value()) {
      options.base = &*base;
      const std::set<std::string> excluded = Excluded(args);
      options.without.assign(excluded.begin(), excluded.end());
      WarnIfSeen(*base, spec);
    }
    profile = FitDevice(args, rows, spec, options);
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
  if (const WholeModel& whole = profile->whole_model; profile->transfer && !whole.empty()) {
    fmt::print("{} times of whole models on {} machines\n", whole.rows, whole.machines.size());
  } else if (!whole.empty()) {
    fmt::print("{} times of whole models: {} to issue a kernel, {:.3g} GB/s to copy inputs\n", whole.rows,
               terminal::FormatUs(profile->host_issue_us), profile->host_copy_gb_s);
  }
  if (options.base != nullptr)
    fmt::print("learnt from {} other devices as well (--base none: from these rows alone)\n",
               options.base->pool.size());
  fmt::print("{}profile {} of {} written to {}\n", table.Render(), id, profile->device, args.out);
  return absl::OkStatus();
}

}  // namespace

void AddFit(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<FitArgs>();
  CLI::App* fit = app.add_subcommand("fit", "Fit a profile to measurements of one device");
  auto* device = fit->add_option("--device", args->device, "Slug of the measured device");
  fit->add_option("--measurements", args->measurements, "Measurement CSVs")->check(CLI::ExistingFile);
  auto* models = fit->add_option("--model-measurements", args->models.files, "CSVs of times of whole models")
                     ->check(CLI::ExistingFile);
  AddModelRunOptions(*fit, models, args->models);
  fit->add_option("--spec", args->spec, "CSV with the device's own spec row, for devices outside the catalogue")
      ->check(CLI::ExistingFile);
  auto* pool = fit->add_flag("--pool", args->pool, "Pool all devices of the files into a transfer profile");
  auto* base =
      fit->add_option(
             "--base", args->base,
             "Learn from other devices, too, by the transfer profile of this directory; auto: the installed one, "
             "for GPUs that it was not fitted to; none: from the measurements alone")
          ->capture_default_str();
  base->excludes(pool);
  fit->add_option("--exclude", args->exclude, "Devices that nothing is learnt from, e.g. for an honest test")
      ->delimiter(',');
  fit->add_option("--out", args->out, "Profile file to write")->required();
  device->excludes(pool);
  fit->callback([args, &globals, &chosen] {
    if (args->device.empty() && !args->pool) throw CLI::RequiredError("--device or --pool");
    if (args->measurements.empty() && args->models.files.empty())
      throw CLI::RequiredError("--measurements or --model-measurements");
    chosen = [args, &globals] { return Fit(*args, globals); };
  });
}

}  // namespace gpueta::cli
