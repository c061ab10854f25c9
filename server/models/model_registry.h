// Registered models: graphs and configs by the hash of their content, and their
// aliases.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/serving/served_model.h"
#include "server/limits.h"
#include "server/snapshot_pointer.h"
#include "server/store/store.h"

namespace gpueta {

struct RegisteredModel {
  std::string hash;
  Graph graph;  // of a config: its prefill, as serving engines run it
  // Of a config; its id is the hash.
  std::optional<ModelConfig> config;
  std::map<std::string, std::int64_t> kernel_counts;  // by kernel kind, nodes that run
};

// Immutable.
class ModelTable {
 public:
  // `models/{hash}` or `models/{alias}`. INVALID_ARGUMENT for another form,
  // NOT_FOUND; both name `field`.
  absl::StatusOr<std::shared_ptr<const RegisteredModel>> Find(std::string_view field, std::string_view name) const;
  // The same of one that was registered from a config; FAILED_PRECONDITION,
  // naming `field`, for another.
  absl::StatusOr<std::shared_ptr<const RegisteredModel>> FindConfig(std::string_view field,
                                                                    std::string_view name) const;
  std::vector<std::string> AliasesOf(std::string_view hash) const;

  // By hash.
  const std::map<std::string, std::shared_ptr<const RegisteredModel>, std::less<>>& models() const { return models_; }

 private:
  friend class ModelRegistry;
  std::map<std::string, std::shared_ptr<const RegisteredModel>, std::less<>> models_;
  std::map<std::string, std::string, std::less<>> aliases_;  // to hash
  std::int64_t bytes_ = 0;                                   // of all graphs, serialised
};

// Safe to use from any thread. Table() never waits; Register waits for others
// and for the disk.
class ModelRegistry {
 public:
  // Stored models that cannot be read are logged and left out. `store` must
  // outlive the registry.
  static absl::StatusOr<std::unique_ptr<ModelRegistry>> Open(Store& store, const Limits& limits);

  std::shared_ptr<const ModelTable> Table() const { return table_.Read(); }

  // Stores a valid graph, and the alias if it is not empty, which moves here if
  // another model has it. Safe to repeat. INVALID_ARGUMENT for a bad alias,
  // RESOURCE_EXHAUSTED when a limit is passed; nothing changed then.
  absl::StatusOr<std::shared_ptr<const RegisteredModel>> Register(Graph graph, const std::string& alias);
  // The same of a Hugging Face config.json. Errors also as ImportHuggingFace,
  // their field below "config".
  absl::StatusOr<std::shared_ptr<const RegisteredModel>> RegisterConfig(std::string_view json,
                                                                        const std::string& display_name,
                                                                        const std::string& alias);

 private:
  // Stores what `stored` says under its hash, unless it is there.
  absl::StatusOr<std::shared_ptr<const RegisteredModel>> Keep(StoredModel stored, RegisteredModel model,
                                                              const std::string& alias);
  ModelRegistry(Store& store, const Limits& limits) : store_(&store), limits_(limits) {}

  Store* store_;
  Limits limits_;
  std::mutex mutex_;  // one registration at a time
  SnapshotPointer<ModelTable> table_{std::make_shared<const ModelTable>()};
};

}  // namespace gpueta
