// Profiles as files: serialise, parse, load, save.
#include <algorithm>
#include <filesystem>

#include "core/base/errors.h"
#include "core/base/sha256.h"
#include "core/base/whole_file.h"
#include "core/profile/profile.h"
#include "core/wire/profile_codec.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace gpueta {
namespace {

constexpr std::size_t kIdDigits = 16;

std::string SerializeDeterministically(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps in key order
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

std::string BytesOf(const Sha256Digest& digest) { return {digest.begin(), digest.end()}; }

}  // namespace

std::string SerializeProfile(const Profile& profile) {
  v1::ProfileFile file;
  file.set_schema_version(kProfileSchemaVersion);
  file.set_payload(SerializeDeterministically(wire::Encode(profile)));
  file.set_sha256(BytesOf(Sha256(file.payload())));
  return SerializeDeterministically(file);
}

absl::StatusOr<LoadedProfile> ParseProfile(std::string_view bytes) {
  if (bytes.size() > kMaxProfileBytes) {
    return InvalidArgument("the profile has {} bytes, at most {} are accepted", bytes.size(), kMaxProfileBytes);
  }
  v1::ProfileFile file;
  if (!file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || file.schema_version() == 0) {
    return InvalidArgument("not a profile, or cut short; fit or publish it again");
  }
  if (file.schema_version() > kProfileSchemaVersion) {
    return FailedPrecondition("the profile has schema version {}, this build reads up to {}; upgrade gpueta",
                              file.schema_version(), kProfileSchemaVersion);
  }
  const Sha256Digest digest = Sha256(file.payload());
  if (file.sha256() != BytesOf(digest))
    return InvalidArgument("the profile's checksum is wrong: the file is damaged; copy it again");
  v1::Profile message;
  if (!message.ParseFromString(file.payload())) return InvalidArgument("the profile's payload is not readable");
  GPUETA_ASSIGN_OR_RETURN(Profile profile, wire::Decode(message));
  GPUETA_RETURN_IF_ERROR(CheckStructure(profile));
  return LoadedProfile{std::move(profile), Hex(digest, kIdDigits), bytes.size()};
}

absl::StatusOr<LoadedProfile> LoadProfile(const std::string& path) {
  GPUETA_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  absl::StatusOr<LoadedProfile> profile = ParseProfile(bytes);
  if (!profile.ok()) return Prefixed(profile.status(), path);
  return profile;
}

absl::StatusOr<std::string> SaveProfile(const Profile& profile, const std::string& path) {
  const std::string bytes = SerializeProfile(profile);
  GPUETA_ASSIGN_OR_RETURN(const LoadedProfile loaded, ParseProfile(bytes));  // what is written can be read
  GPUETA_RETURN_IF_ERROR(WriteWholeFile(path, bytes));
  return loaded.id;
}

std::string DefaultProfileDirectory() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = program.parent_path().parent_path() / "share" / "gpueta" / "profiles";
  return !error && std::filesystem::is_directory(installed, error) ? installed.string() : GPUETA_SOURCE_PROFILES;
}

absl::StatusOr<std::vector<LoadedProfile>> LoadProfileDirectory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().extension() == ".profile") files.push_back(entry.path().string());
  }
  if (error) return NotFound("{}: cannot read the profile directory: {}", path, error.message());
  std::sort(files.begin(), files.end());
  std::vector<LoadedProfile> profiles;
  for (const std::string& file : files) {
    GPUETA_ASSIGN_OR_RETURN(LoadedProfile profile, LoadProfile(file));
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace gpueta
