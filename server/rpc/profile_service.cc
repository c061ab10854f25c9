#include "core/base/errors.h"
#include "gpueta/v1/profile_service.grpc.pb.h"
#include "server/handlers/profiles.h"
#include "server/logging.h"
#include "server/rpc/handoff.h"
#include "server/rpc/profile_watches.h"
#include "server/rpc/services.h"
#include "server/rpc/status_mapping.h"

namespace gpueta {
namespace {

// Collects the parts; the work queue does the rest.
class PublishReactor final : public grpc::ServerReadReactor<v1::PublishProfileRequest> {
 public:
  PublishReactor(const ServiceParts& parts, grpc::CallbackServerContext* context, v1::ProfileInfo* response)
      : parts_(&parts), context_(context), response_(response), assembly_(parts.limits) {
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
      Finish(ToGrpc(status));
      return;
    }
    handoff_.Give();
    StartRead(&part_);
  }

  void OnDone() override { delete this; }

 private:
  void Publish() {
    absl::Status status = CheckWanted(*context_);
    if (status.ok()) status = assembly_.Publish(parts_->profiles, *response_);
    if (status.ok()) {
      Log(LogLevel::kInfo, "profile published",
          {{"name", response_->name()},
           {"active", response_->active()},
           {"version", response_->version()},
           {"rows", response_->rows()},
           {"request_id", assembly_.request_id()}});
    }
    Finish(ToGrpc(status));
  }

  const ServiceParts* parts_;
  grpc::CallbackServerContext* context_;
  v1::ProfileInfo* response_;
  PublishAssembly assembly_;
  v1::PublishProfileRequest part_;
  Handoff handoff_;
};

class RefusedWatch final : public grpc::ServerWriteReactor<v1::ProfileEvent> {
 public:
  explicit RefusedWatch(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

class ProfileService final : public v1::ProfileService::CallbackService {
 public:
  ProfileService(ServiceParts parts, ProfileWatches& watches) : parts_(parts), watches_(&watches) {}

  grpc::ServerReadReactor<v1::PublishProfileRequest>* PublishProfile(grpc::CallbackServerContext* context,
                                                                     v1::ProfileInfo* response) override {
    return new PublishReactor(parts_, context, response);
  }

  grpc::ServerUnaryReactor* ListProfiles(grpc::CallbackServerContext* context, const v1::ListProfilesRequest* request,
                                         v1::ListProfilesResponse* response) override {
    return Later(context, [=, this] { return gpueta::ListProfiles(parts_.profiles, *request, *response); });
  }

  grpc::ServerUnaryReactor* GetProfile(grpc::CallbackServerContext* context, const v1::GetProfileRequest* request,
                                       v1::GetProfileResponse* response) override {
    return Later(context, [=, this] { return gpueta::GetProfile(parts_.profiles, *request, *response); });
  }

  grpc::ServerUnaryReactor* ActivateProfile(grpc::CallbackServerContext* context,
                                            const v1::ActivateProfileRequest* request,
                                            v1::ProfileInfo* response) override {
    return Later(context, [=, this] { return gpueta::ActivateProfile(parts_.profiles, *request, *response); });
  }

  grpc::ServerUnaryReactor* RollbackProfile(grpc::CallbackServerContext* context,
                                            const v1::RollbackProfileRequest* request,
                                            v1::ProfileInfo* response) override {
    return Later(context, [=, this] { return gpueta::RollbackProfile(parts_.profiles, *request, *response); });
  }

  grpc::ServerWriteReactor<v1::ProfileEvent>* WatchProfiles(grpc::CallbackServerContext*,
                                                            const v1::WatchProfilesRequest* request) override {
    const auto device = WatchedDevice(request->parent());
    if (!device.ok()) return new RefusedWatch(device.status());
    return watches_->Start(*device);
  }

 private:
  // Runs `answer` on the work queue and finishes the call with its status.
  template <class Answer>
  grpc::ServerUnaryReactor* Later(grpc::CallbackServerContext* context, Answer answer) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    parts_.work.Post([context, reactor, answer] {
      absl::Status status = CheckWanted(*context);
      if (status.ok()) status = answer();
      reactor->Finish(ToGrpc(status));
    });
    return reactor;
  }

  ServiceParts parts_;
  ProfileWatches* watches_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeProfileService(ServiceParts parts, ProfileWatches& watches) {
  return std::make_unique<ProfileService>(parts, watches);
}

}  // namespace gpueta
