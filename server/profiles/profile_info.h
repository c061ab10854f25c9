// What listings say about a profile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/table_key.h"
#include "core/profile/profile.h"
#include "server/store/store.h"

namespace gpueta::v1 {
class ProfileInfo;
}

namespace gpueta {

// What never changes about a profile.
struct ProfileSummary {
  ProfileKey key;
  std::map<std::string, std::string> labels;
  std::int64_t created_unix_s = 0;
  std::int64_t published_unix_s = 0;  // 0: came from a file
  std::int64_t size_bytes = 0;
  std::int64_t rows = 0;
  std::vector<TableKey> tables;
  bool transfer = false;
  std::vector<std::string> warnings;  // tables that rest on little or fit badly
};
ProfileSummary SummaryOf(const LoadedProfile& loaded, ProfileKey key, std::int64_t published_unix_s);

// The bytes of StoredProfile.summary. The key is not part of them.
std::string SerializeSummary(const ProfileSummary& summary);
// DATA_LOSS for bytes that SerializeSummary did not write.
absl::StatusOr<ProfileSummary> ParseSummary(ProfileKey key, const std::string& bytes);

struct ProfileInfo {
  ProfileSummary summary;
  bool active = false;
  std::int64_t version = 0;  // of its last activation
};

// Changes whenever the profile, its state or its version changes.
std::string EtagOf(const ProfileInfo& info);

void Encode(const ProfileInfo& info, v1::ProfileInfo& message);

}  // namespace gpueta
