// What the server counts, for Prometheus.
#pragma once

#include <prometheus/registry.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/clock.h"
#include "server/prediction_counts.h"

namespace prometheus {
class Counter;
class Histogram;
}  // namespace prometheus

namespace gpueta {

// One RPC method, by the names that the gRPC ecosystem's metrics use.
struct RpcMethod {
  std::string service;  // gpueta.v1.PredictionService
  std::string method;   // Predict
  std::string type;     // unary, client_stream, server_stream, bidi_stream
};

// The methods of our services.
std::vector<RpcMethod> ServedMethods();

// Safe to use from any thread. The number of series is bounded by the methods,
// codes, ops and provenances there are.
class Metrics {
 public:
  explicit Metrics(const std::vector<RpcMethod>& methods);
  ~Metrics();

  // grpc_server_started_total, grpc_server_handled_total and
  // grpc_server_handling_seconds. `path` is "/service/method"; others than
  // those given to the constructor are not counted. `code` is 0 to 16.
  void CallStarted(std::string_view path);
  void CallHandled(std::string_view path, int code, double seconds);

  // gpueta_predictions_total.
  void Count(const PredictionCounts& counts);

  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

 private:
  struct MethodMetrics;

  std::shared_ptr<prometheus::Registry> registry_;
  std::map<std::string, std::unique_ptr<MethodMetrics>, std::less<>> methods_;
  prometheus::Family<prometheus::Counter>* handled_;
  std::array<std::array<prometheus::Counter*, kProvenances>, kAllOps.size()> predictions_{};
};

// State that is looked at when it is scraped.
struct StateSample {
  struct ActiveProfile {
    std::string device;
    std::string id;
    std::int64_t version = 0;
    std::int64_t created_unix_s = 0;
  };
  // Class profiles; the first one of a device answers questions without labels.
  std::vector<ActiveProfile> profiles;
  std::int64_t models = 0;
  std::int64_t snapshot_swaps = 0;
};

// gpueta_profile_age_seconds, gpueta_profile_info, gpueta_models,
// gpueta_snapshot_swaps_total, process_cpu_seconds_total and
// process_resident_memory_bytes. Profiles of single nodes are left out: there may
// be thousands.
std::shared_ptr<prometheus::Collectable> MakeStateMetrics(std::function<StateSample()> sample, Clock clock);

// The name of a code as in the label grpc_code, e.g. "InvalidArgument".
std::string_view GrpcCodeName(int code);

}  // namespace gpueta
