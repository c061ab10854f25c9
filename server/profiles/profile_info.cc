#include "server/profiles/profile_info.h"

#include "core/base/errors.h"
#include "core/wire/profile_codec.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/profiles/resource_name.h"

namespace gpueta {
namespace {

// Below these a table is worth a warning: a family form has about this many
// parameters, and an error this large is hardly better than the roofline's.
constexpr std::int64_t kFewRows = 14;
constexpr float kLargeError = 0.5F;

void EncodeSummary(const ProfileSummary& summary, v1::ProfileInfo& message) {
  message.mutable_labels()->insert(summary.labels.begin(), summary.labels.end());
  message.set_created_unix_s(summary.created_unix_s);
  message.set_published_unix_s(summary.published_unix_s);
  message.set_size_bytes(summary.size_bytes);
  message.set_rows(summary.rows);
  message.set_transfer(summary.transfer);
  message.mutable_warnings()->Assign(summary.warnings.begin(), summary.warnings.end());
  for (const TableKey& key : summary.tables) *message.add_tables() = wire::Encode(key);
}

}  // namespace

ProfileSummary SummaryOf(const LoadedProfile& loaded, ProfileKey key, std::int64_t published_unix_s) {
  ProfileSummary summary{.key = std::move(key),
                         .labels = loaded.profile.labels,
                         .created_unix_s = loaded.profile.created_unix_s,
                         .published_unix_s = published_unix_s,
                         .size_bytes = static_cast<std::int64_t>(loaded.size_bytes),
                         .transfer = loaded.profile.transfer};
  for (const Table& table : loaded.profile.tables) {
    summary.tables.push_back(table.key);
    summary.rows += table.rows;
    if (table.rows < kFewRows)
      summary.warnings.push_back(fmt::format("table {}: only {} measurements", Describe(table.key), table.rows));
    if (table.cv_mape > kLargeError) {
      summary.warnings.push_back(
          fmt::format("table {}: held-back error {:.0f} %", Describe(table.key), 100 * table.cv_mape));
    }
  }
  return summary;
}

std::string SerializeSummary(const ProfileSummary& summary) {
  v1::ProfileInfo message;
  EncodeSummary(summary, message);
  return message.SerializeAsString();
}

absl::StatusOr<ProfileSummary> ParseSummary(ProfileKey key, const std::string& bytes) {
  v1::ProfileInfo message;
  if (!message.ParseFromString(bytes)) {
    return absl::DataLossError(fmt::format("the store's summary of profile {} of {} is damaged", key.id, key.device));
  }
  ProfileSummary summary{.key = std::move(key),
                         .labels = {message.labels().begin(), message.labels().end()},
                         .created_unix_s = message.created_unix_s(),
                         .published_unix_s = message.published_unix_s(),
                         .size_bytes = message.size_bytes(),
                         .rows = message.rows(),
                         .transfer = message.transfer(),
                         .warnings = {message.warnings().begin(), message.warnings().end()}};
  for (const v1::TableKey& table : message.tables()) {
    GPUETA_ASSIGN_OR_RETURN(TableKey decoded, wire::Decode(table));
    summary.tables.push_back(std::move(decoded));
  }
  return summary;
}

std::string EtagOf(const ProfileInfo& info) {
  return fmt::format("{}.{}.{}", info.summary.key.id, info.version, info.active ? "active" : "stored");
}

void Encode(const ProfileInfo& info, v1::ProfileInfo& message) {
  const ProfileKey& key = info.summary.key;
  EncodeSummary(info.summary, message);
  message.set_name(ToString(ProfileName{{key.device, key.node}, key.id}));
  message.set_id(key.id);
  message.set_device(key.device);
  message.set_node(key.node);
  message.set_active(info.active);
  message.set_version(info.version);
  message.set_etag(EtagOf(info));
}

}  // namespace gpueta
