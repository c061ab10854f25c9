// Registered models: graphs by the hash of their content, and their aliases.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "server/limits.h"
#include "server/snapshot_pointer.h"
#include "server/store/store.h"

namespace gpueta {

struct RegisteredModel {
  std::string hash;
  Graph graph;
  std::map<std::string, std::int64_t> kernel_counts;  // by kernel kind, nodes that run
};

// Immutable.
class ModelTable {
 public:
  // `models/{hash}` or `models/{alias}`. INVALID_ARGUMENT for another form,
  // NOT_FOUND; both name `field`.
  absl::StatusOr<std::shared_ptr<const RegisteredModel>> Find(std::string_view field, std::string_view name) const;
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

 private:
  ModelRegistry(Store& store, const Limits& limits) : store_(&store), limits_(limits) {}

  Store* store_;
  Limits limits_;
  std::mutex mutex_;  // one registration at a time
  SnapshotPointer<ModelTable> table_{std::make_shared<const ModelTable>()};
};

}  // namespace gpueta
