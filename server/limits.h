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
  std::int64_t message_bytes = std::int64_t{16} << 20;
  std::int64_t devices = 64;
  std::int64_t kernels = 100'000;
  std::int64_t column_rows = 1'000'000;
  std::int64_t graph_nodes = 100'000;
  std::int64_t streams = 1'000;
  std::int64_t watchers = 1'000;
  std::int64_t pending_events = 256;
  std::int64_t profile_bytes = std::int64_t{2} << 20;
  std::int64_t profiles = 10'000;
  std::int64_t models = 1'000;
  std::int64_t model_bytes = std::int64_t{256} << 20;
  std::int64_t replicas = 16'384;
  std::int64_t engine_requests = 131'072;
  std::int64_t decisions = 65'536;
  std::int64_t serving_bytes = std::int64_t{256} << 20;
  std::int64_t observations = 1'000'000;
  std::int64_t error_cells = 2'000;
  std::int64_t watched_nodes = 1'000;
};

// A limit by its name, as errors, --limit and the configuration file have it.
struct LimitInfo {
  std::string_view name;
  std::int64_t Limits::*member;
  std::string_view meaning;
};
inline constexpr LimitInfo kLimits[] = {
    {"message_bytes", &Limits::message_bytes, "bytes of one message, either way"},
    {"devices", &Limits::devices, "devices a request asks about"},
    {"kernels", &Limits::kernels, "kernels of a batch"},
    {"column_rows", &Limits::column_rows, "rows of kernel columns"},
    {"graph_nodes", &Limits::graph_nodes, "nodes of a graph"},
    {"streams", &Limits::streams, "StreamPredict and StreamAdmit calls at a time, each"},
    {"watchers", &Limits::watchers, "WatchProfiles calls at a time"},
    {"pending_events", &Limits::pending_events, "changes a slow watcher may lag behind"},
    {"profile_bytes", &Limits::profile_bytes, "bytes of a profile"},
    {"profiles", &Limits::profiles, "profiles in the store"},
    {"models", &Limits::models, "registered models"},
    {"model_bytes", &Limits::model_bytes, "bytes of all registered graphs together"},
    {"replicas", &Limits::replicas, "replicas of an Admit call, or known to a StreamAdmit call"},
    {"engine_requests", &Limits::engine_requests, "requests in these replicas"},
    {"decisions", &Limits::decisions, "decisions of an Admit call or a StreamAdmit item, candidates times replicas"},
    {"serving_bytes", &Limits::serving_bytes, "bytes of step tables that are kept for Admit and MaxBatch"},
    {"observations", &Limits::observations, "observations of one message"},
    {"error_cells", &Limits::error_cells,
     "combinations of device, op, dtype, model, provenance and node whose errors are told apart"},
    {"watched_nodes", &Limits::watched_nodes, "nodes watched for drift, for each op they run"},
};

// Sets one by name. INVALID_ARGUMENT for an unknown name, which lists the known
// ones, and for a value below 1 or above what the message size or a profile may
// ever be.
absl::Status SetLimit(Limits& limits, std::string_view name, std::int64_t value);

// RESOURCE_EXHAUSTED about `field`: it has `got` but the limit called `limit`
// allows `allowed`. The limit's name travels with the status.
absl::Status LimitError(std::string_view field, std::string_view limit, std::int64_t allowed, std::int64_t got);

// OK, or the LimitError.
absl::Status CheckLimit(std::string_view field, std::string_view limit, std::int64_t allowed, std::int64_t got);

// The same error as one about the limit called `limit`; OK stays OK.
absl::Status NamingLimit(absl::Status status, std::string_view limit);

// The name of the limit that a status is about; empty for other statuses.
std::string LimitOf(const absl::Status& status);

}  // namespace gpueta
