#include "core/base/errors.h"
#include "gpueta/v1/observation.grpc.pb.h"
#include "server/handlers/observations.h"
#include "server/rpc/call_record.h"
#include "server/rpc/handoff.h"
#include "server/rpc/services.h"

namespace gpueta {
namespace {

constexpr char kReportObservations[] = "/gpueta.v1.ObservationService/ReportObservations";
constexpr char kGetErrorSummary[] = "/gpueta.v1.ObservationService/GetErrorSummary";

// A stream that goes on for long is kept in between, too.
constexpr std::int64_t kCommitEach = 200'000;

// The intake queue judges messages one by one; the work queue commits.
class ReportReactor final : public grpc::ServerReadReactor<v1::ReportObservationsRequest> {
 public:
  ReportReactor(const ServiceParts& parts, grpc::CallbackServerContext* context,
                v1::ReportObservationsResponse* response)
      : parts_(&parts),
        response_(response),
        record_(parts.metrics, kReportObservations, *context),
        intake_(parts.feedback, parts.shadows, parts.limits) {
    handoff_.Give();
    StartRead(&part_);
  }

  void OnReadDone(bool ok) override {
    handoff_.Take();
    if (ok) {
      parts_->intake.Post([this] { Judge(); });
    } else {
      parts_->work.Post([this] { End(parts_->feedback.Commit()); });
    }
  }

  void OnDone() override { delete this; }

 private:
  void Judge() {
    const auto devices = parts_->profiles.Serving();
    const auto models = parts_->models.Table();
    if (const absl::Status status = intake_.Add(*devices, *models, part_); !status.ok()) {
      // What came before counts, so it is kept.
      parts_->work.Post([this, status] {
        parts_->feedback.Commit().IgnoreError();
        End(status);
      });
      return;
    }
    if (intake_.accepted() - committed_ >= kCommitEach) {
      committed_ = intake_.accepted();
      parts_->work.Post([&feedback = parts_->feedback] { feedback.Commit().IgnoreError(); });
    }
    handoff_.Give();
    StartRead(&part_);
  }

  void End(const absl::Status& status) {
    if (status.ok()) intake_.Fill(*response_);
    Finish(record_.End(status));
  }

  const ServiceParts* parts_;
  v1::ReportObservationsResponse* response_;
  CallRecord record_;
  ObservationIntake intake_;
  v1::ReportObservationsRequest part_;
  std::int64_t committed_ = 0;
  Handoff handoff_;
};

class ObservationService final : public v1::ObservationService::CallbackService {
 public:
  explicit ObservationService(ServiceParts parts) : parts_(parts) {}

  grpc::ServerReadReactor<v1::ReportObservationsRequest>* ReportObservations(
      grpc::CallbackServerContext* context, v1::ReportObservationsResponse* response) override {
    return new ReportReactor(parts_, context, response);
  }

  grpc::ServerUnaryReactor* GetErrorSummary(grpc::CallbackServerContext* context,
                                            const v1::GetErrorSummaryRequest* request,
                                            v1::GetErrorSummaryResponse* response) override {
    CallRecord record(parts_.metrics, kGetErrorSummary, *context);
    absl::Status status = CheckWanted(*context);
    if (status.ok()) status = gpueta::GetErrorSummary(parts_.feedback, *request, *response);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(record.End(status));
    return reactor;
  }

 private:
  ServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeObservationService(ServiceParts parts) {
  return std::make_unique<ObservationService>(parts);
}

}  // namespace gpueta
