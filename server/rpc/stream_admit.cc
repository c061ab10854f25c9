#include "server/rpc/stream_admit.h"

#include <atomic>
#include <utility>

#include "gpueta/v1/serving.pb.h"
#include "server/rpc/handoff.h"
#include "server/status_details.h"

namespace gpueta {
namespace {

class StreamAdmitReactor final : public grpc::ServerBidiReactor<v1::StreamAdmitRequest, v1::StreamAdmitResponse> {
 public:
  StreamAdmitReactor(const AnswerAdmitItem& answer, const Limits& limits,
                     std::function<grpc::Status(const absl::Status&)> on_end, std::function<void()> on_done)
      : answer_(&answer),
        session_(limits),
        on_end_(std::move(on_end)),
        on_done_(std::move(on_done)),
        is_cancelled_([this] { return cancelled_.load(std::memory_order_relaxed); }) {
    Read();
  }

  void OnReadDone(bool ok) override {
    handoff_.Take();
    if (!ok) return End(is_cancelled_() ? absl::CancelledError("the caller went away") : absl::OkStatus());
    response_.Clear();
    response_.set_id(request_.id());
    (*answer_)(session_, request_, is_cancelled_, response_, [this](const absl::Status& status) {
      if (!status.ok()) {
        response_.clear_admissions();
        EncodeStatus(status, *response_.mutable_status());
      }
      handoff_.Give();
      StartWrite(&response_);
    });
  }

  void OnWriteDone(bool ok) override {
    handoff_.Take();
    if (!ok) return End(absl::CancelledError("the caller went away"));
    Read();
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }

  void OnDone() override {
    handoff_.Take();
    on_done_();
    delete this;
  }

 private:
  void Read() {
    request_.Clear();
    handoff_.Give();
    StartRead(&request_);
  }

  void End(const absl::Status& status) {
    const grpc::Status finish = on_end_(status);
    handoff_.Give();
    Finish(finish);
  }

  const AnswerAdmitItem* answer_;
  AdmitSession session_;
  std::function<grpc::Status(const absl::Status&)> on_end_;
  std::function<void()> on_done_;
  std::atomic<bool> cancelled_{false};
  std::function<bool()> is_cancelled_;
  Handoff handoff_;
  v1::StreamAdmitRequest request_;
  v1::StreamAdmitResponse response_;
};

}  // namespace

grpc::ServerBidiReactor<v1::StreamAdmitRequest, v1::StreamAdmitResponse>* StartStreamAdmit(
    const AnswerAdmitItem& answer, const Limits& limits, std::function<grpc::Status(const absl::Status&)> on_end,
    std::function<void()> on_done) {
  return new StreamAdmitReactor(answer, limits, std::move(on_end), std::move(on_done));
}

}  // namespace gpueta
