#include "client/cli/inputs.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/errors.h"

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

absl::StatusOr<DeviceSpec> ReadSpec(const std::string& slug, const std::string& spec_path) {
  if (spec_path.empty()) return Catalogue::BuiltIn().Get(slug);
  std::ifstream in(spec_path);
  if (!in) return NotFound("{}: cannot open the spec file", spec_path);
  std::ostringstream text;
  text << in.rdbuf();
  absl::StatusOr<DeviceSpec> spec = ParseSpecRow(text.str());
  if (!spec.ok()) return Prefixed(spec.status(), spec_path);
  if (!slug.empty()) spec->slug = slug;
  return spec;
}

std::string ProfileDirectory(const Globals& globals) {
  if (!globals.profiles.empty()) return globals.profiles;
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = executable.parent_path().parent_path() / "share" / "gpueta" / "profiles";
  if (!error && std::filesystem::is_directory(installed)) return installed.string();
  return GPUETA_SOURCE_PROFILES;
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

absl::StatusOr<Client> ConnectToServer(const Globals& globals) {
  if (globals.server.empty())
    return InvalidArgument("this needs a server: give --server HOST:PORT or set GPUETA_SERVER");
  return Client::Connect(globals.server);
}

absl::Status WriteTextFile(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".part";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    if (!out) {
      std::error_code ignored;
      std::filesystem::remove(temporary, ignored);
      return Unavailable("{}: cannot write; check the directory and the space left", path);
    }
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  return error ? Unavailable("{}: cannot write: {}", path, error.message()) : absl::OkStatus();
}

}  // namespace gpueta::cli
