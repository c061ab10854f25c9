// What the server accepts at most. Each limit is named in the errors it
// causes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace gpueta {

// The defaults keep one request below a few seconds of one core and tens of
// megabytes.
struct Limits {
  std::int64_t message_bytes = std::int64_t{16} << 20;   // one message, either way
  std::int64_t devices = 64;                             // DeviceSelectors a request
  std::int64_t kernels = 100'000;                        // Kernels a KernelBatch
  std::int64_t column_rows = 1'000'000;                  // rows of KernelColumns
  std::int64_t graph_nodes = 100'000;                    // nodes of a graph
  std::int64_t streams = 1'000;                          // StreamPredict calls at a time
  std::int64_t watchers = 1'000;                         // WatchProfiles calls at a time
  std::int64_t pending_events = 256;                     // changes a slow watcher may lag behind
  std::int64_t profile_bytes = std::int64_t{2} << 20;    // one profile file
  std::int64_t profiles = 10'000;                        // profiles in the store
  std::int64_t models = 1'000;                           // registered models
  std::int64_t model_bytes = std::int64_t{256} << 20;    // of all registered graphs together
};

// RESOURCE_EXHAUSTED about `field`: it has `got` but the limit called `limit`
// allows `allowed`. The limit's name travels with the status.
absl::Status LimitError(std::string_view field, std::string_view limit, std::int64_t allowed, std::int64_t got);

// OK, or the LimitError.
absl::Status CheckLimit(std::string_view field, std::string_view limit, std::int64_t allowed, std::int64_t got);

// The name of the limit that a status is about; empty for other statuses.
std::string LimitOf(const absl::Status& status);

}  // namespace gpueta
