#include "server/rpc/profile_watches.h"

#include <deque>
#include <optional>

#include "core/base/errors.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/handlers/profiles.h"

namespace gpueta {

// Events wait in a queue while one is written. Lives until gRPC is done with
// the call and the registry no longer knows it.
class ProfileWatches::Watch final : public grpc::ServerWriteReactor<v1::ProfileEvent> {
 public:
  Watch(ProfileWatches& watches, std::unique_ptr<CallRecord> record) : watches_(&watches), record_(std::move(record)) {}

  // On the work queue, before any change that it must see.
  void Subscribe(const std::string& device) {
    subscription_ =
        watches_->registry_->Subscribe(device, [this](const gpueta::ProfileEvent& event) { OnEvent(event); });
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
    ProfileWatches* watches;
    {
      const std::lock_guard lock(mutex_);
      watches = watches_;
    }
    {
      const std::lock_guard lock(watches->mutex_);
      watches->open_.erase(this);
    }
    // Behind Subscribe, which the same queue runs.
    watches->work_->Post([this] {
      if (subscription_.has_value()) watches_->registry_->Unsubscribe(*subscription_);
      delete this;
    });
  }

 private:
  void OnEvent(const gpueta::ProfileEvent& event) {
    const std::lock_guard lock(mutex_);
    if (end_.has_value()) return;
    const bool initial = event.change == ProfileChange::kActive;
    if (!initial && static_cast<std::int64_t>(queue_.size()) >= initial_events_ + watches_->limits_->pending_events) {
      EndLocked(LimitError("changes waiting for this watcher", "pending_events", watches_->limits_->pending_events,
                           watches_->limits_->pending_events + 1));
      Continue();
      return;
    }
    if (initial) ++initial_events_;
    Encode(event, queue_.emplace_back());
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
      Finish(record_->End(*end_));
    } else if (!queue_.empty()) {
      writing_ = true;
      StartWrite(&queue_.front());
    }
  }

  ProfileWatches* watches_;
  std::unique_ptr<CallRecord> record_;
  std::optional<std::int64_t> subscription_;  // touched by the work queue alone

  std::mutex mutex_;
  std::deque<v1::ProfileEvent> queue_;  // the first one is being written
  std::int64_t initial_events_ = 0;
  std::optional<absl::Status> end_;
  bool writing_ = false;
  bool finished_ = false;
};

grpc::ServerWriteReactor<v1::ProfileEvent>* ProfileWatches::Start(const std::string& parent,
                                                                  std::unique_ptr<CallRecord> record) {
  const auto device = WatchedDevice(parent);
  absl::Status refused = device.status();
  auto* watch = new Watch(*this, std::move(record));
  {
    const std::lock_guard lock(mutex_);
    open_.insert(watch);
    if (ended_) refused = Unavailable("the server stops; watch again later");
    const auto open = static_cast<std::int64_t>(open_.size());
    if (open > limits_->watchers) refused = LimitError("open watches", "watchers", limits_->watchers, open);
  }
  if (refused.ok()) {
    work_->Post([watch, device = *device] { watch->Subscribe(device); });
  } else {
    watch->EndWith(refused);
  }
  return watch;
}

void ProfileWatches::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (Watch* watch : open_) watch->EndWith(Unavailable("the server stops; watch again later"));
}

}  // namespace gpueta
