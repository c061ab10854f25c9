#include "client/cli/inputs.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/whole_file.h"

namespace gpueta::cli {

absl::StatusOr<std::vector<Measurement>> ReadMeasurementFiles(const std::vector<std::string>& paths,
                                                              const ReadOptions& options) {
  std::vector<Measurement> all;
  for (const std::string& path : paths) {
    GPUETA_ASSIGN_OR_RETURN(std::vector<Measurement> rows, ReadMeasurementFile(path, options));
    all.insert(all.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  }
  return all;
}

namespace {

absl::Status CheckDevice(const std::vector<Measurement>& rows, const std::string& path, const std::string& slug) {
  const Catalogue& catalogue = Catalogue::BuiltIn();
  const std::string wanted = catalogue.CanonicalSlug(slug);
  for (const Measurement& row : rows) {
    if (row.device == slug || catalogue.CanonicalSlug(row.device) == wanted) continue;
    return InvalidArgument("{}:{}:device: is {}, but --device is {}; keep only its rows", path, row.line, row.device,
                           slug);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Measurement>> ReadMeasurementFilesOf(const std::vector<std::string>& paths,
                                                                const std::string& slug) {
  std::vector<Measurement> all;
  for (const std::string& path : paths) {
    GPUETA_ASSIGN_OR_RETURN(std::vector<Measurement> rows, ReadMeasurementFile(path));
    GPUETA_RETURN_IF_ERROR(CheckDevice(rows, path, slug));
    all.insert(all.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  }
  return all;
}

absl::StatusOr<DeviceSpec> ReadSpec(const std::string& slug, const std::string& spec_path) {
  if (spec_path.empty()) return Catalogue::BuiltIn().Get(slug);
  GPUETA_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(spec_path));
  absl::StatusOr<DeviceSpec> spec = ParseSpecRow(text, spec_path);
  GPUETA_RETURN_IF_ERROR(spec.status());
  if (spec->slug.empty()) spec->slug = slug;
  if (!slug.empty() && spec->slug != slug) {
    return InvalidArgument("{}: describes {}, not {}; give --device {}", spec_path, spec->slug, slug, spec->slug);
  }
  return spec;
}

void AddEstimatorOption(CLI::App& command, std::string& estimator) {
  command
      .add_option("--estimator", estimator,
                  fmt::format("A form by name: {} (default), {}", kDefaultEstimator, fmt::join(EstimatorNames(), ", ")))
      ->transform(EstimatorName);
}

std::string EstimatorName(const std::string& given) { return given == kDefaultEstimator ? "" : given; }

std::string ProfileDirectory(const Globals& globals) {
  return globals.profiles.empty() ? DefaultProfileDirectory() : globals.profiles;
}

absl::StatusOr<std::shared_ptr<const Snapshot>> OpenSnapshot(const Globals& globals,
                                                             const std::vector<std::string>& profile_paths) {
  std::vector<ActiveProfile> active;
  if (profile_paths.empty()) {
    GPUETA_ASSIGN_OR_RETURN(std::vector<LoadedProfile> profiles, LoadProfileDirectory(ProfileDirectory(globals)));
    for (LoadedProfile& profile : profiles) active.push_back({std::move(profile), "", 0});
  }
  for (const std::string& path : profile_paths) {
    GPUETA_ASSIGN_OR_RETURN(LoadedProfile profile, LoadProfile(path));
    active.push_back({std::move(profile), "", 0});
  }
  return Snapshot::Build(std::move(active));
}

absl::StatusOr<const Predictor*> Predictors::For(const std::string& slug) {
  auto& predictor = by_slug_[slug];
  if (predictor == nullptr) {
    GPUETA_ASSIGN_OR_RETURN(predictor, snapshot_->Find(slug));
  }
  return predictor.get();
}

void Predictors::Add(const DeviceSpec& spec) {
  const std::vector<std::string> profiled = snapshot_->ProfiledDevices();
  if (!std::binary_search(profiled.begin(), profiled.end(), spec.slug)) by_slug_[spec.slug] = snapshot_->ForSpec(spec);
}

absl::StatusOr<Client> ConnectToServer(const Globals& globals) {
  if (globals.server.empty())
    return InvalidArgument("this needs a server: give --server HOST:PORT or set GPUETA_SERVER");
  return Client::Connect(globals.server);
}

}  // namespace gpueta::cli
