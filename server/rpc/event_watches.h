// Calls that write events until somebody ends them.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "core/base/errors.h"
#include "server/limits.h"
#include "server/rpc/call_record.h"
#include "server/rpc/work_queue.h"

namespace gpueta {

// The open watches of one method, whose answers are `Event` messages. Safe to
// use from any thread. Everything given must outlive the calls.
template <class Event>
class EventWatches {
 public:
  // Takes an event; `initial` if it was there before the watch began.
  using Emit = std::function<void(bool initial, Event event)>;
  // Subscribes: calls the given function for what is there and then for every
  // change. Returns what ends the subscription.
  using Subscribe = std::function<std::function<void()>(Emit)>;

  EventWatches(WorkQueue& work, const Limits& limits) : work_(&work), limits_(&limits) {}

  // A call that writes what `subscribe`, run on the work queue, emits; its error
  // ends the call at once. Ended with RESOURCE_EXHAUSTED when more than
  // limits.pending_events changes wait to be written.
  grpc::ServerWriteReactor<Event>* Start(absl::StatusOr<Subscribe> subscribe, std::unique_ptr<CallRecord> record);

  // Ends all calls, and those to come, with UNAVAILABLE: the server stops.
  void End();

 private:
  class Watch;

  WorkQueue* work_;
  const Limits* limits_;
  std::mutex mutex_;
  std::set<Watch*> open_;
  bool ended_ = false;
};

// Events wait in a queue while one is written. Lives until gRPC is done with
// the call and the subscription has ended.
template <class Event>
class EventWatches<Event>::Watch final : public grpc::ServerWriteReactor<Event> {
 public:
  Watch(EventWatches& watches, std::unique_ptr<CallRecord> record) : watches_(&watches), record_(std::move(record)) {}

  // On the work queue, before any change that it must see.
  void Begin(const Subscribe& subscribe) {
    unsubscribe_ = subscribe([this](bool initial, Event event) { OnEvent(initial, std::move(event)); });
  }

  void EndWith(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    EndLocked(status);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    queue_.pop_front();
    if (!ok) EndLocked(absl::CancelledError("the caller went away"));
    Continue();
  }

  void OnCancel() override { EndWith(absl::CancelledError("the caller went away")); }

  void OnDone() override {
    EventWatches* watches;
    {
      const std::lock_guard lock(mutex_);
      watches = watches_;
    }
    {
      const std::lock_guard lock(watches->mutex_);
      watches->open_.erase(this);
    }
    // Behind Begin, which the same queue runs.
    watches->work_->Post([this] {
      if (unsubscribe_ != nullptr) unsubscribe_();
      delete this;
    });
  }

 private:
  void OnEvent(bool initial, Event event) {
    const std::lock_guard lock(mutex_);
    if (end_.has_value()) return;
    const std::int64_t allowed = watches_->limits_->pending_events;
    if (!initial && static_cast<std::int64_t>(queue_.size()) >= initial_events_ + allowed) {
      EndLocked(LimitError("changes waiting for this watcher", "pending_events", allowed, allowed + 1));
      Continue();
      return;
    }
    if (initial) ++initial_events_;
    queue_.push_back(std::move(event));
    Continue();
  }

  void EndLocked(const absl::Status& status) {
    if (!end_.has_value()) end_ = status;
    Continue();
  }

  // Writes the next event, or ends the call once nothing is being written.
  void Continue() {
    if (writing_ || finished_) return;
    if (end_.has_value()) {
      finished_ = true;
      this->Finish(record_->End(*end_));
    } else if (!queue_.empty()) {
      writing_ = true;
      this->StartWrite(&queue_.front());
    }
  }

  EventWatches* watches_;
  std::unique_ptr<CallRecord> record_;
  std::function<void()> unsubscribe_;  // touched by the work queue alone

  std::mutex mutex_;
  std::deque<Event> queue_;  // the first one is being written
  std::int64_t initial_events_ = 0;
  std::optional<absl::Status> end_;
  bool writing_ = false;
  bool finished_ = false;
};

template <class Event>
grpc::ServerWriteReactor<Event>* EventWatches<Event>::Start(absl::StatusOr<Subscribe> subscribe,
                                                            std::unique_ptr<CallRecord> record) {
  absl::Status refused = subscribe.status();
  auto* watch = new Watch(*this, std::move(record));
  {
    const std::lock_guard lock(mutex_);
    open_.insert(watch);
    if (ended_) refused = Unavailable("the server stops; watch again later");
    const auto open = static_cast<std::int64_t>(open_.size());
    if (open > limits_->watchers) refused = LimitError("open watches", "watchers", limits_->watchers, open);
  }
  if (refused.ok()) {
    work_->Post([watch, subscribe = *std::move(subscribe)] { watch->Begin(subscribe); });
  } else {
    watch->EndWith(refused);
  }
  return watch;
}

template <class Event>
void EventWatches<Event>::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (Watch* watch : open_) watch->EndWith(Unavailable("the server stops; watch again later"));
}

}  // namespace gpueta
