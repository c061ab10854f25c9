#include <atomic>
#include <chrono>
#include <utility>

#include "core/base/errors.h"
#include "gpueta/v1/prediction_service.grpc.pb.h"
#include "server/handlers/models.h"
#include "server/handlers/predict.h"
#include "server/handlers/rank.h"
#include "server/handlers/serving.h"
#include "server/rpc/call_record.h"
#include "server/rpc/message_arena.h"
#include "server/rpc/services.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/stream_admit.h"
#include "server/rpc/stream_predict.h"
#include "server/status_details.h"

namespace gpueta {
namespace {

constexpr char kPredict[] = "/gpueta.v1.PredictionService/Predict";
constexpr char kStreamPredict[] = "/gpueta.v1.PredictionService/StreamPredict";
constexpr char kRegisterModel[] = "/gpueta.v1.PredictionService/RegisterModel";
constexpr char kGetModel[] = "/gpueta.v1.PredictionService/GetModel";
constexpr char kListModels[] = "/gpueta.v1.PredictionService/ListModels";
constexpr char kAdmit[] = "/gpueta.v1.PredictionService/Admit";
constexpr char kStreamAdmit[] = "/gpueta.v1.PredictionService/StreamAdmit";
constexpr char kMaxBatch[] = "/gpueta.v1.PredictionService/MaxBatch";
constexpr char kFitEngineOverhead[] = "/gpueta.v1.PredictionService/FitEngineOverhead";
constexpr char kExplain[] = "/gpueta.v1.PredictionService/Explain";
constexpr char kRankDevices[] = "/gpueta.v1.PredictionService/RankDevices";

// A stream that is not served.
template <class Request, class Response>
class RefusedStream final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

class PredictionService final : public v1::PredictionService::CallbackService {
 public:
  explicit PredictionService(ServiceParts parts)
      : parts_(parts),
        answer_item_(
            [this](const auto& item, const auto& cancelled, auto& answer) { Answer(item, cancelled, answer); }),
        answer_admit_item_([this](auto& session, const auto& item, const auto& cancelled, auto& answer, auto done) {
          Answer(session, item, cancelled, answer, std::move(done));
        }) {
    SetMessageAllocatorFor_Predict(&predict_messages_);
  }

  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context, const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override {
    return Now(kPredict, *context, [&]() -> absl::Status {
      PredictionCounts counts;
      GPUETA_RETURN_IF_ERROR(Ask(
          *request, [context] { return context->IsCancelled(); }, *response, counts));
      parts_.metrics.Count(counts);
      return absl::OkStatus();
    });
  }

  grpc::ServerBidiReactor<v1::StreamPredictRequest, v1::StreamPredictResponse>* StreamPredict(
      grpc::CallbackServerContext* context) override {
    auto record = std::make_shared<CallRecord>(parts_.metrics, kStreamPredict, *context);
    const std::int64_t open = ++open_streams_;
    if (open > parts_.limits.streams) {
      --open_streams_;
      return new RefusedStream<v1::StreamPredictRequest, v1::StreamPredictResponse>(
          record->End(LimitError("open streams", "streams", parts_.limits.streams, open)));
    }
    return StartStreamPredict(
        answer_item_, [record](const absl::Status& status) { return record->End(status); },
        [this] { --open_streams_; });
  }

  grpc::ServerUnaryReactor* RegisterModel(grpc::CallbackServerContext* context, const v1::RegisterModelRequest* request,
                                          v1::Model* response) override {
    auto record = std::make_shared<CallRecord>(parts_.metrics, kRegisterModel, *context);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    parts_.work.Post([=, this] {
      absl::Status status = CheckWanted(*context);
      if (status.ok()) status = gpueta::RegisterModel(parts_.models, parts_.limits, *request, *response);
      reactor->Finish(record->End(status));
    });
    return reactor;
  }

  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
                                     v1::Model* response) override {
    return Now(kGetModel, *context, [&] { return gpueta::GetModel(*parts_.models.Table(), *request, *response); });
  }

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override {
    return Now(kListModels, *context, [&] { return gpueta::ListModels(*parts_.models.Table(), *request, *response); });
  }

  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context, const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override {
    return Now(kExplain, *context, [&] {
      const auto devices = parts_.profiles.Serving();
      const auto models = parts_.models.Table();
      const auto corrections = parts_.feedback.Corrections();
      const std::function<bool()> cancelled = [context] { return context->IsCancelled(); };
      return gpueta::Explain({*devices, *models, parts_.limits, FeedbackOf(*corrections), parts_.served, cancelled},
                             *request, *response);
    });
  }

  grpc::ServerUnaryReactor* RankDevices(grpc::CallbackServerContext* context, const v1::RankDevicesRequest* request,
                                        v1::RankDevicesResponse* response) override {
    return Now(kRankDevices, *context, [&]() -> absl::Status {
      const auto devices = parts_.profiles.Serving();
      const auto models = parts_.models.Table();
      const auto corrections = parts_.feedback.Corrections();
      const std::function<bool()> cancelled = [context] { return context->IsCancelled(); };
      PredictionCounts counts;
      GPUETA_RETURN_IF_ERROR(
          gpueta::RankDevices({*devices, *models, parts_.limits, FeedbackOf(*corrections), parts_.served, cancelled},
                              *request, *response, counts));
      parts_.metrics.Count(counts);
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* Admit(grpc::CallbackServerContext* context, const v1::AdmitRequest* request,
                                  v1::AdmitResponse* response) override {
    return NowOrTabulated(kAdmit, *context, [=](const ServingContext& serving) {
      response->Clear();
      return gpueta::Admit(serving, *request, *response);
    });
  }

  grpc::ServerUnaryReactor* MaxBatch(grpc::CallbackServerContext* context, const v1::MaxBatchRequest* request,
                                     v1::MaxBatchResponse* response) override {
    return NowOrTabulated(kMaxBatch, *context, [=](const ServingContext& serving) {
      return gpueta::MaxBatch(serving, *request, *response);
    });
  }

  grpc::ServerUnaryReactor* FitEngineOverhead(grpc::CallbackServerContext* context,
                                              const v1::FitEngineOverheadRequest* request,
                                              v1::FitEngineOverheadResponse* response) override {
    return NowOrTabulated(kFitEngineOverhead, *context, [=](const ServingContext& serving) {
      return gpueta::FitEngineOverhead(serving, *request, *response);
    });
  }

  grpc::ServerBidiReactor<v1::StreamAdmitRequest, v1::StreamAdmitResponse>* StreamAdmit(
      grpc::CallbackServerContext* context) override {
    auto record = std::make_shared<CallRecord>(parts_.metrics, kStreamAdmit, *context);
    const std::int64_t open = ++open_admit_streams_;
    if (open > parts_.limits.streams) {
      --open_admit_streams_;
      return new RefusedStream<v1::StreamAdmitRequest, v1::StreamAdmitResponse>(
          record->End(LimitError("open streams", "streams", parts_.limits.streams, open)));
    }
    return StartStreamAdmit(
        answer_admit_item_, parts_.limits, [record](const absl::Status& status) { return record->End(status); },
        [this] { --open_admit_streams_; });
  }

 private:
  // Answers on this thread, unless nobody waits any more.
  template <class Answer>
  grpc::ServerUnaryReactor* Now(const char* method, grpc::CallbackServerContext& context, Answer answer) {
    CallRecord record(parts_.metrics, method, context);
    absl::Status status = CheckWanted(context);
    if (status.ok()) status = answer();
    grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
    reactor->Finish(record.End(status));
    return reactor;
  }

  // Calls `answer` with what it needs, which lives as long as the call.
  template <class Answer>
  absl::Status WithServing(const std::function<bool()>& cancelled, bool may_build, const Answer& answer) const {
    const auto devices = parts_.profiles.Serving();
    const auto models = parts_.models.Table();
    return answer(ServingContext{*devices, *models, parts_.served, parts_.limits, cancelled, may_build});
  }

  // Answers on this thread where every table is there, else on the queue that
  // makes them.
  template <class Answer>
  grpc::ServerUnaryReactor* NowOrTabulated(const char* method, grpc::CallbackServerContext& context, Answer answer) {
    auto record = std::make_shared<CallRecord>(parts_.metrics, method, context);
    grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
    const auto ask = [this, &context, answer](bool may_build) -> absl::Status {
      GPUETA_RETURN_IF_ERROR(CheckWanted(context));
      return WithServing([&context] { return context.IsCancelled(); }, may_build, answer);
    };
    const absl::Status status = ask(false);
    if (absl::IsAborted(status)) {
      parts_.tables.Post([record, reactor, ask] { reactor->Finish(record->End(ask(true))); });
    } else {
      reactor->Finish(record->End(status));
    }
    return reactor;
  }

  // The same for an item of a stream.
  void Answer(AdmitSession& session, const v1::StreamAdmitRequest& item, const std::function<bool()>& cancelled,
              v1::StreamAdmitResponse& answer, std::function<void(const absl::Status&)> done) const {
    const absl::Status changed =
        WithServing(cancelled, false, [&](const ServingContext& serving) { return session.Change(serving, item); });
    if (!changed.ok()) return done(changed);
    const auto judge = [this, &session, &item, &cancelled, &answer](bool may_build) {
      answer.clear_admissions();
      return WithServing(cancelled, may_build,
                         [&](const ServingContext& serving) { return session.Judge(serving, item, answer); });
    };
    const absl::Status status = judge(false);
    if (!absl::IsAborted(status)) return done(status);
    parts_.tables.Post([judge, done = std::move(done)] { done(judge(true)); });
  }

  absl::Status Ask(const v1::PredictRequest& request, const std::function<bool()>& cancelled,
                   v1::PredictResponse& response, PredictionCounts& counts) const {
    const auto devices = parts_.profiles.Serving();
    const auto models = parts_.models.Table();
    const auto corrections = parts_.feedback.Corrections();
    return gpueta::Predict({*devices, *models, parts_.limits, FeedbackOf(*corrections), parts_.served, cancelled},
                           request, response, counts);
  }

  PredictFeedback FeedbackOf(const CorrectionTable& corrections) const {
    return {parts_.feedback.ids(), corrections, parts_.feedback.shapes(), parts_.shadows.kernels(),
            static_cast<std::uint32_t>(parts_.feedback.Now())};
  }

  void Answer(const v1::StreamPredictRequest& item, const std::function<bool()>& cancelled,
              v1::StreamPredictResponse& answer) const {
    answer.set_id(item.id());
    PredictionCounts counts;
    const absl::Status status = Ask(item.request(), cancelled, *answer.mutable_response(), counts);
    if (status.ok()) {
      parts_.metrics.Count(counts);
    } else {
      answer.clear_response();
      EncodeStatus(status, *answer.mutable_status());
    }
  }

  ServiceParts parts_;
  ArenaAllocator<v1::PredictRequest, v1::PredictResponse> predict_messages_;
  AnswerItem answer_item_;
  AnswerAdmitItem answer_admit_item_;
  std::atomic<std::int64_t> open_streams_{0};
  std::atomic<std::int64_t> open_admit_streams_{0};
};

}  // namespace

absl::Status CheckWanted(grpc::CallbackServerContext& context) {
  if (std::chrono::system_clock::now() >= context.deadline()) {
    return absl::DeadlineExceededError("the deadline passed before the work began");
  }
  return context.IsCancelled() ? absl::CancelledError("the caller went away") : absl::OkStatus();
}

std::unique_ptr<grpc::Service> MakePredictionService(ServiceParts parts) {
  return std::make_unique<PredictionService>(parts);
}

}  // namespace gpueta
