#include "server/server.h"

#include <prometheus/exposer.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "core/base/errors.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/feedback/feedback.h"
#include "server/handlers/profiles.h"
#include "server/metrics/feedback_metrics.h"
#include "server/metrics/metrics.h"
#include "server/models/model_registry.h"
#include "server/profiles/profile_registry.h"
#include "server/rpc/event_watches.h"
#include "server/rpc/listen.h"
#include "server/rpc/services.h"
#include "server/rpc/work_queue.h"
#include "server/signals.h"
#include "server/store/store.h"

namespace gpueta {
namespace {

constexpr std::string_view kOff = "off";
// Observations wait for predictions, not the other way round.
constexpr int kIntakeNiceness = 10;
// In metrics; part of the bound that server/metrics/feedback_metrics.h states.
constexpr std::size_t kMostProfilesShown = 100;

// The readable profiles of a directory; others are logged and left out, so that
// one bad file does not take the rest down.
absl::StatusOr<std::vector<LoadedProfile>> LoadFiles(const std::string& directory) {
  std::vector<LoadedProfile> profiles;
  if (directory == kOff) return profiles;
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".profile") paths.push_back(entry.path().string());
  }
  if (error) return NotFound("--profiles {}: cannot read the directory: {}", directory, error.message());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    auto loaded = LoadProfile(path);
    if (loaded.ok()) {
      profiles.push_back(*std::move(loaded));
    } else {
      Log(LogLevel::kError, "profile file left out", {{"path", path}, {"error", MessageOf(loaded.status())}});
    }
  }
  return profiles;
}

// One client that is slow to ask does not keep others waiting.
constexpr std::size_t kMetricsThreads = 4;

struct MetricsEndpoint {
  std::unique_ptr<prometheus::Exposer> exposer;
  std::string address{kOff};
};

absl::StatusOr<MetricsEndpoint> ExposeMetrics(const std::string& address) {
  if (address == kOff) return MetricsEndpoint{};
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, kMetricsThreads);
    const std::string host = address.substr(0, address.rfind(':'));
    std::string chosen = fmt::format("{}:{}", host, exposer->GetListeningPorts().at(0));
    return MetricsEndpoint{std::move(exposer), std::move(chosen)};
  } catch (const std::exception&) {  // of the exposer; its text names no address
    return Unavailable(
        "cannot serve metrics on {}: the port is taken, or the address is not one of this machine; give another "
        "--metrics-listen, or off",
        address);
  }
}

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("localhost:") || address.starts_with("[::1]:") ||
         address.starts_with("unix:");
}

class ServerImpl final : public Server {
 public:
  ServerImpl(const ServerOptions& options, std::unique_ptr<Store> store, std::unique_ptr<ProfileRegistry> profiles,
             std::unique_ptr<ModelRegistry> models, std::unique_ptr<Feedback> feedback)
      : limits_(options.limits),
        store_(std::move(store)),
        profiles_(std::move(profiles)),
        models_(std::move(models)),
        feedback_(std::move(feedback)),
        shadows_(
            options.profile_policy,
            [this](const ShadowRun& run, ProfileStep step) { work_.Post([this, run, step] { TakeStep(run, step); }); }),
        metrics_(ServedMethods()),
        served_(static_cast<std::size_t>(limits_.serving_bytes)),
        watches_(work_, limits_),
        task_watches_(work_, limits_),
        prediction_service_(MakePredictionService(parts())),
        profile_service_(MakeProfileService(parts(), watches_, task_watches_)),
        observation_service_(MakeObservationService(parts())) {
    // What was learnt of a device ends with the profile it was learnt on.
    profiles_->Subscribe(std::string(kAllDevices), [this](const ProfileEvent& event) {
      work_.Post([this, device = event.profile.summary.key.device] { TellProfile(device); });
    });
  }

  ~ServerImpl() override {
    if (grpc_.server != nullptr) Shutdown(std::chrono::seconds(0));
  }

  absl::Status Open(const ServerOptions& options, Clock clock) {
    GPUETA_ASSIGN_OR_RETURN(endpoint_, ExposeMetrics(options.metrics_listen));
    state_metrics_ = MakeStateMetrics([this] { return Sample(); }, std::move(clock));
    feedback_metrics_ = MakeFeedbackMetrics([this] { return feedback_->Sample(); });
    if (endpoint_.exposer != nullptr) {
      endpoint_.exposer->RegisterCollectable(metrics_.registry());
      endpoint_.exposer->RegisterCollectable(state_metrics_);
      endpoint_.exposer->RegisterCollectable(feedback_metrics_);
    }
    GPUETA_ASSIGN_OR_RETURN(grpc_,
                            Listen(options.listen, limits_.message_bytes,
                                   {prediction_service_.get(), profile_service_.get(), observation_service_.get()}));
    return absl::OkStatus();
  }

  const std::string& address() const override { return grpc_.address; }
  const std::string& metrics_address() const override { return endpoint_.address; }

  void StopServing() override { SetHealth(*grpc_.server, false); }

  void Shutdown(std::chrono::duration<double> finish) override {
    watches_.End();
    task_watches_.End();
    grpc_.server->Shutdown(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::microseconds>(finish));
    grpc_.server->Wait();
    grpc_.server.reset();
  }

 private:
  ServiceParts parts() {
    return {*profiles_, *models_, *feedback_, shadows_, metrics_, work_, intake_, tables_, served_, limits_};
  }

  // Which profile answers for a device now.
  void TellProfile(const std::string& device) {
    const auto predictor = profiles_->Serving()->Find(device, {});
    if (!predictor.ok()) return;
    const LoadedProfile* profile = (*predictor)->profile();
    const std::uint64_t number = profile == nullptr ? 0 : ProfileNumber(profile->id);
    feedback_->ProfileIs(device, number);
    shadows_.ActiveIs(device, number);
  }

  // What a run in the shadow led to. A profile that is replaced runs on in the
  // shadow of its successor.
  void TakeStep(const ShadowRun& run, ProfileStep step) {
    const std::string name = ToString(run.name);
    if (step == ProfileStep::kPromote || step == ProfileStep::kRollBack) {
      if (const auto activated = TakeOver(*profiles_, shadows_, run); !activated.ok()) {
        Log(absl::IsAborted(activated.status()) ? LogLevel::kInfo : LogLevel::kError, "profile not activated",
            {{"name", name}, {"error", MessageOf(activated.status())}});
        return;
      }
      Log(LogLevel::kWarning, step == ProfileStep::kPromote ? "profile promoted" : "profile rolled back to",
          {{"name", name}, {"observations", run.losses.count}, {"loss_difference", run.losses.mean}});
      return;
    }
    Log(LogLevel::kInfo, step == ProfileStep::kDiscard ? "profile in the shadow is no better" : "profile confirmed",
        {{"name", name}, {"observations", run.losses.count}, {"loss_difference", run.losses.mean}});
  }

  StateSample Sample() const {
    StateSample sample;
    sample.models = static_cast<std::int64_t>(models_->Table()->models().size());
    sample.snapshot_swaps = profiles_->swaps();
    for (const ProfileInfo& info : profiles_->List(std::string(kAllDevices))) {
      const ProfileKey& key = info.summary.key;
      if (info.active && key.node.empty())
        sample.profiles.push_back({key.device, key.id, info.version, info.summary.created_unix_s});
    }
    // Published profiles answer before files.
    std::stable_sort(sample.profiles.begin(), sample.profiles.end(),
                     [](const auto& a, const auto& b) { return a.version > 0 && b.version == 0; });
    // As many as may be shown.
    if (sample.profiles.size() > kMostProfilesShown) sample.profiles.resize(kMostProfilesShown);
    return sample;
  }

  // Destroyed from the last to the first: the ports go before what serves them.
  Limits limits_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ProfileRegistry> profiles_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<Feedback> feedback_;
  ShadowRuns shadows_;
  Metrics metrics_;
  ServedModels served_;
  WorkQueue work_;
  WorkQueue intake_{kIntakeNiceness};  // destroyed before work_, to which it posts
  WorkQueue tables_;
  ProfileWatches watches_;
  TaskWatches task_watches_;
  std::unique_ptr<grpc::Service> prediction_service_;
  std::unique_ptr<grpc::Service> profile_service_;
  std::unique_ptr<grpc::Service> observation_service_;
  std::shared_ptr<prometheus::Collectable> state_metrics_;
  std::shared_ptr<prometheus::Collectable> feedback_metrics_;
  MetricsEndpoint endpoint_;
  ListeningServer grpc_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Clock clock) {
  GPUETA_RETURN_IF_ERROR(CheckOptions(options));
  GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenStore(options.store));
  GPUETA_ASSIGN_OR_RETURN(std::vector<LoadedProfile> files, LoadFiles(options.profiles));
  GPUETA_ASSIGN_OR_RETURN(auto profiles, ProfileRegistry::Open(*store, std::move(files), clock, options.limits));
  GPUETA_ASSIGN_OR_RETURN(auto models, ModelRegistry::Open(*store, options.limits));
  GPUETA_ASSIGN_OR_RETURN(auto feedback, Feedback::Open(*store, clock, options.limits, options.corrections));
  auto server = std::make_unique<ServerImpl>(options, std::move(store), std::move(profiles), std::move(models),
                                             std::move(feedback));
  GPUETA_RETURN_IF_ERROR(server->Open(options, std::move(clock)));
  return server;
}

absl::Status RunServer(const ServerOptions& options) {
  BlockStopSignals();
  SetUpLogging(options.log_format, options.log_level);
  SetUpGrpc();
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                          Server::Start(options, [] { return std::chrono::system_clock::now(); }));
  if (options.store == ServerOptions().store) {
    Log(LogLevel::kWarning,
        "published profiles and models are kept in memory only; give --store sqlite:PATH to keep them");
  }
  if (!IsLoopback(server->address())) {
    Log(LogLevel::kWarning, "listening off loopback without authentication", {{"address", server->address()}});
  }
  std::printf("gpueta-server listening on %s, metrics on %s\n", server->address().c_str(),
              server->metrics_address().c_str());
  std::fflush(stdout);
  Log(LogLevel::kInfo, "serving",
      {{"version", GPUETA_VERSION}, {"address", server->address()}, {"metrics", server->metrics_address()}});

  const std::optional<int> signal = WaitForStopSignal();
  Log(LogLevel::kInfo, "stopping", {{"signal", signal.value_or(0)}});
  server->StopServing();
  WaitForStopSignal(std::chrono::duration<double>(options.drain_seconds));
  server->Shutdown(std::chrono::duration<double>(options.finish_seconds));
  Log(LogLevel::kInfo, "stopped");
  return absl::OkStatus();
}

}  // namespace gpueta
