#include "server/rpc/stream_predict.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "gpueta/v1/prediction_service.pb.h"
#include "server/rpc/message_arena.h"

namespace gpueta {
namespace {

// The life of an item: read into a slot, answered in place, written from it.
// Slots are used in turn, so the order of the answers is that of the items.
class StreamReactor final : public grpc::ServerBidiReactor<v1::StreamPredictRequest, v1::StreamPredictResponse> {
 public:
  StreamReactor(const AnswerItem& answer, std::function<grpc::Status(const absl::Status&)> on_end,
                std::function<void()> on_done)
      : answer_(&answer),
        on_end_(std::move(on_end)),
        on_done_(std::move(on_done)),
        is_cancelled_([this] { return cancelled_.load(std::memory_order_relaxed); }) {
    const std::lock_guard lock(mutex_);
    Continue();
  }

  void OnReadDone(bool ok) override {
    std::unique_lock lock(mutex_);
    reading_ = false;
    if (!ok) {
      no_more_items_ = true;
      --reads_;  // it brought nothing
      Continue();
      return;
    }
    Slot& slot = SlotOf(reads_ - 1);
    ++answering_;
    Continue();  // the next item is read, and may be answered, meanwhile
    lock.unlock();
    (*answer_)(slot.messages.request(), is_cancelled_, slot.messages.response());
    lock.lock();
    slot.answered = true;
    --answering_;
    Continue();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    ++written_;
    if (!ok) broken_ = true;
    Continue();
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }

  void OnDone() override {
    { const std::lock_guard lock(mutex_); }  // after the callback before it
    on_done_();
    delete this;
  }

 private:
  // One being read, one answered, one written.
  static constexpr std::uint64_t kSlots = 3;
  struct Slot {
    ReusedMessages<v1::StreamPredictRequest, v1::StreamPredictResponse> messages;
    bool answered = false;
  };
  Slot& SlotOf(std::uint64_t item) { return slots_[item % kSlots]; }

  // Starts whatever can be started; ends the call when nothing is left.
  void Continue() {
    if (!broken_ && !writing_ && written_ < reads_ && SlotOf(written_).answered) {
      writing_ = true;
      StartWrite(&SlotOf(written_).messages.response());
    }
    if (!broken_ && !reading_ && !no_more_items_ && reads_ - written_ < kSlots) {
      reading_ = true;
      Slot& slot = SlotOf(reads_++);
      slot.answered = false;
      slot.messages.Reset();
      StartRead(&slot.messages.request());
    }
    if (!reading_ && !writing_ && answering_ == 0 && !finished_) {
      finished_ = true;
      const bool gone = broken_ || is_cancelled_();
      Finish(on_end_(gone ? absl::CancelledError("the caller went away") : absl::OkStatus()));
    }
  }

  const AnswerItem* answer_;
  std::function<grpc::Status(const absl::Status&)> on_end_;
  std::function<void()> on_done_;
  std::atomic<bool> cancelled_{false};
  std::function<bool()> is_cancelled_;

  std::mutex mutex_;
  std::array<Slot, kSlots> slots_;
  std::uint64_t reads_ = 0;    // started
  std::uint64_t written_ = 0;  // answers
  int answering_ = 0;          // items being answered
  bool reading_ = false;
  bool writing_ = false;
  bool no_more_items_ = false;
  bool broken_ = false;  // a write failed: the stream is gone
  bool finished_ = false;
};

}  // namespace

grpc::ServerBidiReactor<v1::StreamPredictRequest, v1::StreamPredictResponse>* StartStreamPredict(
    const AnswerItem& answer, std::function<grpc::Status(const absl::Status&)> on_end, std::function<void()> on_done) {
  return new StreamReactor(answer, std::move(on_end), std::move(on_done));
}

}  // namespace gpueta
