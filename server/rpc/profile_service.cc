#include "core/base/errors.h"
#include "gpueta/v1/profile_service.grpc.pb.h"
#include "server/handlers/observations.h"
#include "server/handlers/profiles.h"
#include "server/logging.h"
#include "server/rpc/call_record.h"
#include "server/rpc/event_watches.h"
#include "server/rpc/handoff.h"
#include "server/rpc/services.h"

namespace gpueta {
namespace {

constexpr char kPublishProfile[] = "/gpueta.v1.ProfileService/PublishProfile";
constexpr char kListProfiles[] = "/gpueta.v1.ProfileService/ListProfiles";
constexpr char kGetProfile[] = "/gpueta.v1.ProfileService/GetProfile";
constexpr char kActivateProfile[] = "/gpueta.v1.ProfileService/ActivateProfile";
constexpr char kRollbackProfile[] = "/gpueta.v1.ProfileService/RollbackProfile";
constexpr char kWatchProfiles[] = "/gpueta.v1.ProfileService/WatchProfiles";
constexpr char kWatchCalibrationTasks[] = "/gpueta.v1.ProfileService/WatchCalibrationTasks";

// Collects the parts; the work queue does the rest.
class PublishReactor final : public grpc::ServerReadReactor<v1::PublishProfileRequest> {
 public:
  PublishReactor(const ServiceParts& parts, grpc::CallbackServerContext* context, v1::ProfileInfo* response)
      : parts_(&parts),
        context_(context),
        response_(response),
        record_(parts.metrics, kPublishProfile, *context),
        assembly_(parts.limits) {
    handoff_.Give();
    StartRead(&part_);
  }

  void OnReadDone(bool ok) override {
    handoff_.Take();
    if (!ok) {
      parts_->work.Post([this] { Publish(); });
      return;
    }
    if (const absl::Status status = assembly_.Add(part_); !status.ok()) {
      Finish(record_.End(status));
      return;
    }
    handoff_.Give();
    StartRead(&part_);
  }

  void OnDone() override { delete this; }

 private:
  void Publish() {
    absl::Status status = CheckWanted(*context_);
    if (status.ok()) status = assembly_.Publish(parts_->profiles, parts_->shadows, *response_);
    if (status.ok()) {
      Log(LogLevel::kInfo, "profile published",
          {{"name", response_->name()},
           {"active", response_->active()},
           {"version", response_->version()},
           {"rows", response_->rows()},
           {"request_id", assembly_.request_id()}});
    }
    Finish(record_.End(status));
  }

  const ServiceParts* parts_;
  grpc::CallbackServerContext* context_;
  v1::ProfileInfo* response_;
  CallRecord record_;
  PublishAssembly assembly_;
  v1::PublishProfileRequest part_;
  Handoff handoff_;
};

class ProfileService final : public v1::ProfileService::CallbackService {
 public:
  ProfileService(ServiceParts parts, ProfileWatches& watches, TaskWatches& tasks)
      : parts_(parts), watches_(&watches), tasks_(&tasks) {}

  grpc::ServerReadReactor<v1::PublishProfileRequest>* PublishProfile(grpc::CallbackServerContext* context,
                                                                     v1::ProfileInfo* response) override {
    return new PublishReactor(parts_, context, response);
  }

  grpc::ServerUnaryReactor* ListProfiles(grpc::CallbackServerContext* context, const v1::ListProfilesRequest* request,
                                         v1::ListProfilesResponse* response) override {
    return Later(kListProfiles, context,
                 [=, this] { return gpueta::ListProfiles(parts_.profiles, *request, *response); });
  }

  grpc::ServerUnaryReactor* GetProfile(grpc::CallbackServerContext* context, const v1::GetProfileRequest* request,
                                       v1::GetProfileResponse* response) override {
    return Later(kGetProfile, context, [=, this] { return gpueta::GetProfile(parts_.profiles, *request, *response); });
  }

  grpc::ServerUnaryReactor* ActivateProfile(grpc::CallbackServerContext* context,
                                            const v1::ActivateProfileRequest* request,
                                            v1::ProfileInfo* response) override {
    return Later(kActivateProfile, context,
                 [=, this] { return gpueta::ActivateProfile(parts_.profiles, *request, *response); });
  }

  grpc::ServerUnaryReactor* RollbackProfile(grpc::CallbackServerContext* context,
                                            const v1::RollbackProfileRequest* request,
                                            v1::ProfileInfo* response) override {
    return Later(kRollbackProfile, context,
                 [=, this] { return gpueta::RollbackProfile(parts_.profiles, *request, *response); });
  }

  grpc::ServerWriteReactor<v1::ProfileEvent>* WatchProfiles(grpc::CallbackServerContext* context,
                                                            const v1::WatchProfilesRequest* request) override {
    return watches_->Start(ProfilesOf(request->parent()),
                           std::make_unique<CallRecord>(parts_.metrics, kWatchProfiles, *context));
  }

  grpc::ServerWriteReactor<v1::CalibrationTask>* WatchCalibrationTasks(
      grpc::CallbackServerContext* context, const v1::WatchCalibrationTasksRequest* request) override {
    return tasks_->Start(TasksOf(request->parent()),
                         std::make_unique<CallRecord>(parts_.metrics, kWatchCalibrationTasks, *context));
  }

 private:
  // Answers on the work queue.
  template <class Answer>
  grpc::ServerUnaryReactor* Later(const char* method, grpc::CallbackServerContext* context, Answer answer) {
    auto record = std::make_shared<CallRecord>(parts_.metrics, method, *context);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    parts_.work.Post([context, reactor, record, answer] {
      absl::Status status = CheckWanted(*context);
      if (status.ok()) status = answer();
      reactor->Finish(record->End(status));
    });
    return reactor;
  }

  // Subscribes to the profiles, or the tasks, of a parent.
  absl::StatusOr<ProfileWatches::Subscribe> ProfilesOf(const std::string& parent) const {
    GPUETA_ASSIGN_OR_RETURN(const std::string device, WatchedDevice(parent));
    return [&registry = parts_.profiles, device](ProfileWatches::Emit emit) -> std::function<void()> {
      const std::int64_t subscription = registry.Subscribe(device, [emit](const gpueta::ProfileEvent& event) {
        v1::ProfileEvent message;
        Encode(event, message);
        emit(event.change == ProfileChange::kActive, std::move(message));
      });
      return [&registry, subscription] { registry.Unsubscribe(subscription); };
    };
  }
  absl::StatusOr<TaskWatches::Subscribe> TasksOf(const std::string& parent) const {
    GPUETA_ASSIGN_OR_RETURN(const std::string watched, WatchedDevice(parent));
    const std::string device = Catalogue::BuiltIn().CanonicalSlug(watched);
    return [&feedback = parts_.feedback, device](TaskWatches::Emit emit) -> std::function<void()> {
      const std::int64_t subscription =
          feedback.Subscribe([emit, device, &shapes = feedback.shapes()](const CalibrationTask& task, bool is_open) {
            if (device != kAllDevices && task.device != device) return;
            v1::CalibrationTask message;
            Encode(task, shapes, message);
            emit(is_open, std::move(message));
          });
      return [&feedback, subscription] { feedback.Unsubscribe(subscription); };
    };
  }

  ServiceParts parts_;
  ProfileWatches* watches_;
  TaskWatches* tasks_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeProfileService(ServiceParts parts, ProfileWatches& watches, TaskWatches& tasks) {
  return std::make_unique<ProfileService>(parts, watches, tasks);
}

}  // namespace gpueta
