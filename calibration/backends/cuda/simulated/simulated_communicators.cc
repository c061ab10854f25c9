#include "calibration/backends/cuda/simulated/simulated_communicators.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/errors.h"

namespace gpueta {
namespace {

class SimulatedCommunicators : public Communicators {
 public:
  SimulatedCommunicators(SimulatedLinks& links, std::vector<SimulatedDevice*> devices)
      : links_(links), devices_(std::move(devices)) {
    ++links_.connected;
  }
  ~SimulatedCommunicators() override {
    NoteGraphs();
    LetGo();
    ++links_.ended;
  }
  SimulatedCommunicators(const SimulatedCommunicators&) = delete;
  SimulatedCommunicators& operator=(const SimulatedCommunicators&) = delete;

  absl::Status Enqueue(const std::vector<std::vector<ExchangeCall>>& calls, DType dtype,
                       std::span<const StreamHandle> streams) override {
    if (aborted_) return FailedPrecondition("aborted");
    if (calls.size() != devices_.size() || streams.size() != devices_.size()) return Internal("not all ranks");
    const double us = SimulatedExchangeUs(links_, calls, dtype);
    const auto meeting =
        std::make_shared<SimulatedMeeting>(SimulatedMeeting{.devices = devices_.size(), .convener = this});
    std::erase_if(meetings_, [](const std::weak_ptr<SimulatedMeeting>& past) { return past.expired(); });
    meetings_.push_back(meeting);
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      const double more_us = rank + 1 == devices_.size() ? links_.slow_rank_us : 0;
      if (static_cast<int>(rank) == links_.missing) continue;
      devices_[rank]->Meet(
          meeting, [us, more_us](double met_us) { return met_us + us + more_us; }, streams[rank]);
    }
    // As NCCL does: the thread is left with some device.
    return devices_.back()->Activate();
  }
  absl::Status Health() override { return links_.breaks.empty() ? absl::OkStatus() : Internal("{}", links_.breaks); }
  void Abort() override {
    NoteGraphs();
    aborted_ = true;
    LetGo();
    ++links_.aborted;
  }

 private:
  void NoteGraphs() {
    const bool held =
        std::ranges::any_of(devices_, [this](SimulatedDevice* device) { return device->HasGraphOf(this); });
    if (held) ++links_.waits_for_graphs;
  }

  // Those who wait for a rank that never comes hold the meeting they wait at.
  void LetGo() {
    for (const std::weak_ptr<SimulatedMeeting>& at : meetings_) {
      if (const std::shared_ptr<SimulatedMeeting> meeting = at.lock()) std::exchange(meeting->waiting, {}).clear();
    }
  }

  SimulatedLinks& links_;
  std::vector<SimulatedDevice*> devices_;
  std::vector<std::weak_ptr<SimulatedMeeting>> meetings_;
  bool aborted_ = false;
};

class SimulatedCollectives : public CollectiveLibrary {
 public:
  explicit SimulatedCollectives(SimulatedLinks& links) : links_(links) {}
  std::string name() const override { return "simulated-collectives"; }
  std::string version() const override { return "1"; }
  absl::StatusOr<std::unique_ptr<Communicators>> Connect(std::span<CudaDevice* const> devices) override {
    if (!links_.refuses.empty()) return Internal("{}", links_.refuses);
    std::vector<SimulatedDevice*> simulated;
    for (CudaDevice* device : devices) simulated.push_back(dynamic_cast<SimulatedDevice*>(device));
    return std::make_unique<SimulatedCommunicators>(links_, std::move(simulated));
  }

 private:
  SimulatedLinks& links_;
};

}  // namespace

double SimulatedExchangeUs(const SimulatedLinks& links, const std::vector<std::vector<ExchangeCall>>& calls,
                           DType dtype) {
  const auto ranks = static_cast<double>(calls.size());
  const double element = BitsOf(dtype).activation / 8.0;
  double most_bytes = 0;
  double most_steps = 0;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    double bytes = 0;
    double steps = 0;
    for (const ExchangeCall& call : calls[rank]) {
      const double count = static_cast<double>(call.count) * element;
      switch (call.what) {
        case Exchange::kAllReduce:
          bytes += 2 * (ranks - 1) / ranks * count;
          steps += 2 * (ranks - 1);
          break;
        case Exchange::kAllGather:
        case Exchange::kReduceScatter:
          bytes += (ranks - 1) * count;
          steps += ranks - 1;
          break;
        case Exchange::kSend:
          if (call.peer == static_cast<int>(rank)) break;
          bytes += count;
          steps += 1;
          break;
        case Exchange::kReceive: break;
      }
    }
    most_bytes = std::max(most_bytes, bytes);
    most_steps = std::max(most_steps, steps);
  }
  return links.start_us + most_steps * links.step_us + most_bytes * 1e-3 / links.gb_s;
}

std::unique_ptr<CollectiveLibrary> MakeSimulatedCollectives(SimulatedLinks& links) {
  return std::make_unique<SimulatedCollectives>(links);
}

}  // namespace gpueta
