// Where published profiles, their activations and registered models are kept.
// The store keeps and returns; what may be done is decided by its callers.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta {

struct ProfileKey {
  std::string device;  // canonical slug
  std::string node;    // empty: the class profile
  std::string id;

  friend auto operator<=>(const ProfileKey&, const ProfileKey&) = default;
};

struct StoredProfile {
  ProfileKey key;
  std::int64_t published_unix_s = 0;
  std::string summary;  // what listings need, so that they need not read the file
  std::string file;     // a ProfileFile; Load leaves it empty
};

// One change of a device's active profile. The one with the largest sequence
// number holds.
struct Activation {
  std::int64_t sequence = 0;  // > 0, over all devices
  std::string device;
  std::string node;
  std::string profile_id;     // empty: the profile from a file answers
  std::int64_t version = 0;   // counts the activations of this device and node, from 1
  std::int64_t previous = 0;  // sequence number of the one to return to; 0: none
  std::int64_t at_unix_s = 0;

  friend bool operator==(const Activation&, const Activation&) = default;
};

struct StoredModel {
  std::string hash;
  // Exactly one of both is not empty.
  std::string graph;         // a serialised v1.Graph
  std::string config;        // a Hugging Face config.json
  std::string display_name;  // of a config; graphs have their own
};

struct ModelAlias {
  std::string alias;
  std::string hash;
};

// What was learnt from observations; server/feedback says what is in it.
struct FeedbackRow {
  std::string kind;
  std::string key;
  std::int64_t expires_unix_s = 0;  // 0: never
  std::string value;
};

// Committed as a whole or not at all.
struct StoreChange {
  std::optional<StoredProfile> profile;  // replaces one with the same key
  std::optional<Activation> activation;
  std::optional<StoredModel> model;
  std::optional<ModelAlias> alias;                 // moves if it exists
  std::vector<FeedbackRow> feedback;               // replace those with the same kind and key
  std::int64_t forget_feedback_before_unix_s = 0;  // rows that expire before
};

struct StoreContents {
  std::vector<StoredProfile> profiles;  // without files, sorted by key
  std::vector<Activation> activations;  // sorted by sequence number
  std::vector<StoredModel> models;
  std::vector<ModelAlias> aliases;
  std::vector<FeedbackRow> feedback;
};

// Safe to use from any thread. Errors name the store: RESOURCE_EXHAUSTED when
// the disk is full, FAILED_PRECONDITION when it cannot be written, UNAVAILABLE
// when another process holds it, DATA_LOSS when it is damaged. After an error
// the store is as it was.
class Store {
 public:
  virtual ~Store() = default;

  virtual absl::StatusOr<StoreContents> Load() = 0;
  // NOT_FOUND if there is no such profile.
  virtual absl::StatusOr<std::string> ReadProfileFile(const ProfileKey& key) = 0;
  // On return the change survives a crash of the process and of the machine.
  virtual absl::Status Commit(const StoreChange& change) = 0;
};

// `sqlite:PATH` (made if it does not exist), or `sqlite::memory:` which forgets
// everything. INVALID_ARGUMENT for anything else.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& where);

}  // namespace gpueta
