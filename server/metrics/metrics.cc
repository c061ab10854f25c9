#include "server/metrics/metrics.h"

#include <google/protobuf/descriptor.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "gpueta/v1/observation.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.pb.h"

namespace gpueta {
namespace {

// From below a unary call on loopback to the longest a stream item may take.
const prometheus::Histogram::BucketBoundaries kSecondsBuckets = {
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60};

std::string TypeOf(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) return method.server_streaming() ? "bidi_stream" : "client_stream";
  return method.server_streaming() ? "server_stream" : "unary";
}

prometheus::ClientMetric GaugeValue(std::vector<prometheus::ClientMetric::Label> labels, double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  return metric;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ResidentBytes() {
  double size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

class StateMetrics : public prometheus::Collectable {
 public:
  StateMetrics(std::function<StateSample()> sample, Clock clock)
      : sample_(std::move(sample)), clock_(std::move(clock)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const StateSample sample = sample_();
    const std::int64_t now = UnixSeconds(clock_);
    prometheus::MetricFamily age{"gpueta_profile_age_seconds",
                                 "Age of the fit of the profile that answers for a device.",
                                 prometheus::MetricType::Gauge,
                                 {}};
    prometheus::MetricFamily info{
        "gpueta_profile_info", "The active profiles; always 1.", prometheus::MetricType::Gauge, {}};
    std::set<std::string_view> seen;
    for (const StateSample::ActiveProfile& p : sample.profiles) {
      info.metric.push_back(
          GaugeValue({{"device", p.device}, {"id", p.id}, {"version", std::to_string(p.version)}}, 1));
      if (!seen.insert(p.device).second) continue;
      age.metric.push_back(GaugeValue({{"device", p.device}}, static_cast<double>(now - p.created_unix_s)));
    }
    prometheus::MetricFamily models{"gpueta_models", "Registered models.", prometheus::MetricType::Gauge, {}};
    models.metric.push_back(GaugeValue({}, static_cast<double>(sample.models)));
    prometheus::MetricFamily swaps{"gpueta_snapshot_swaps_total",
                                   "Times the profiles that answer were replaced.",
                                   prometheus::MetricType::Counter,
                                   {}};
    swaps.metric.emplace_back().counter.value = static_cast<double>(sample.snapshot_swaps);
    prometheus::MetricFamily cpu{"process_cpu_seconds_total",
                                 "Total user and system CPU time spent in seconds.",
                                 prometheus::MetricType::Counter,
                                 {}};
    cpu.metric.emplace_back().counter.value = CpuSeconds();
    prometheus::MetricFamily memory{
        "process_resident_memory_bytes", "Resident memory size in bytes.", prometheus::MetricType::Gauge, {}};
    memory.metric.push_back(GaugeValue({}, ResidentBytes()));
    return {std::move(age), std::move(info), std::move(models), std::move(swaps), std::move(cpu), std::move(memory)};
  }

 private:
  std::function<StateSample()> sample_;
  Clock clock_;
};

}  // namespace

std::vector<RpcMethod> ServedMethods() {
  std::vector<RpcMethod> methods;
  for (const auto* file : {v1::PredictRequest::descriptor()->file(), v1::ProfileInfo::descriptor()->file(),
                           v1::Observation::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const auto& method = *file->service(s)->method(m);
        methods.push_back({method.service()->full_name(), method.name(), TypeOf(method)});
      }
    }
  }
  return methods;
}

std::string_view GrpcCodeName(int code) {
  static constexpr std::string_view kNames[] = {
      "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
      "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
      "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
      "DataLoss", "Unauthenticated"};
  return code >= 0 && code < static_cast<int>(std::size(kNames)) ? kNames[code] : kNames[2];
}

struct Metrics::MethodMetrics {
  prometheus::Labels labels;
  prometheus::Counter* started;
  prometheus::Counter* handled_ok;
  prometheus::Histogram* seconds;
};

Metrics::Metrics(const std::vector<RpcMethod>& methods) : registry_(std::make_shared<prometheus::Registry>()) {
  auto& started = prometheus::BuildCounter()
                      .Name("grpc_server_started_total")
                      .Help("Total number of RPCs started on the server.")
                      .Register(*registry_);
  handled_ = &prometheus::BuildCounter()
                  .Name("grpc_server_handled_total")
                  .Help("Total number of RPCs completed on the server, regardless of success or failure.")
                  .Register(*registry_);
  auto& seconds = prometheus::BuildHistogram()
                      .Name("grpc_server_handling_seconds")
                      .Help("Histogram of response latency (seconds) of RPCs until fully handled by the server.")
                      .Register(*registry_);
  for (const RpcMethod& m : methods) {
    prometheus::Labels labels{{"grpc_service", m.service}, {"grpc_method", m.method}, {"grpc_type", m.type}};
    prometheus::Labels with_ok = labels;
    with_ok.emplace("grpc_code", GrpcCodeName(0));
    methods_.emplace("/" + m.service + "/" + m.method,
                     new MethodMetrics{labels, &started.Add(labels), &handled_->Add(with_ok),
                                       &seconds.Add(labels, kSecondsBuckets)});
  }
  auto& predictions = prometheus::BuildCounter()
                          .Name("gpueta_predictions_total")
                          .Help("Kernels predicted, by kind and by what the prediction rests on.")
                          .Register(*registry_);
  for (const Op op : kAllOps) {
    for (std::size_t p = 0; p < kProvenances; ++p) {
      predictions_[static_cast<std::size_t>(op)][p] = &predictions.Add(
          {{"op", std::string(Name(op))}, {"provenance", std::string(Name(static_cast<Provenance>(p)))}});
    }
  }
  prometheus::BuildGauge()
      .Name("gpueta_build_info")
      .Help("The build that runs; always 1.")
      .Register(*registry_)
      .Add({{"version", GPUETA_VERSION}})
      .Set(1);
  prometheus::BuildGauge()
      .Name("process_start_time_seconds")
      .Help("Start time of the process since the Unix epoch in seconds.")
      .Register(*registry_)
      .Add({})
      .SetToCurrentTime();
}

Metrics::~Metrics() = default;

void Metrics::CallStarted(std::string_view path) {
  const auto it = methods_.find(path);
  if (it != methods_.end()) it->second->started->Increment();
}

void Metrics::CallHandled(std::string_view path, int code, double seconds) {
  const auto it = methods_.find(path);
  if (it == methods_.end()) return;
  const MethodMetrics& method = *it->second;
  method.seconds->Observe(seconds);
  if (code == 0) {
    method.handled_ok->Increment();
    return;
  }
  prometheus::Labels labels = method.labels;
  labels.emplace("grpc_code", GrpcCodeName(code));
  handled_->Add(labels).Increment();
}

void Metrics::Count(const PredictionCounts& counts) {
  for (std::size_t op = 0; op < counts.kernels.size(); ++op) {
    for (std::size_t p = 0; p < kProvenances; ++p) {
      if (counts.kernels[op][p] > 0) predictions_[op][p]->Increment(static_cast<double>(counts.kernels[op][p]));
    }
  }
}

std::shared_ptr<prometheus::Collectable> MakeStateMetrics(std::function<StateSample()> sample, Clock clock) {
  return std::make_shared<StateMetrics>(std::move(sample), std::move(clock));
}

}  // namespace gpueta
