#include "calibration/backends/cuda/collectives/node_collectives.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "calibration/backends/cuda/captured_graph.h"
#include "calibration/backends/cuda/collectives/plan.h"
#include "calibration/backends/cuda/events.h"
#include "calibration/backends/cuda/ops/operand_memory.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// After a pause the clocks have to come up again.
constexpr double kWarmAgainUs = 3'000;

// Gives the thread a device again, however a function ends.
class Home {
 public:
  explicit Home(CudaDevice& device) : device_(device) {}
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
  ~Home() { device_.Activate().IgnoreError(); }

 private:
  CudaDevice& device_;
};

}  // namespace

// A device that ranks run on. Streams and memory are its own.
struct NodeCollectives::Member {
  CudaDevice& device;
  Card* card = nullptr;
  // Of the backend's own device the backend's.
  ClockWatch* clocks = nullptr;
  std::optional<StreamHandle> stream;
  OperandMemory* memory = nullptr;
  // Of others, from when they are first connected.
  ClockWatch own_clocks;
  std::unique_ptr<OperandMemory> own_memory;

  CardState StateNow() const { return card != nullptr ? card->State().value_or(CardState{}) : CardState{}; }
};

// Members that are connected.
class NodeCollectives::Ranks {
 public:
  Ranks(std::vector<Member*> members, std::unique_ptr<Communicators> communicators)
      : members_(std::move(members)), communicators_(std::move(communicators)) {
    for (const Member* member : members_) streams_.push_back(*member->stream);
  }

  std::size_t size() const { return members_.size(); }
  Member& member(std::size_t rank) const { return *members_[rank]; }
  StreamHandle stream(std::size_t rank) const { return streams_[rank]; }
  Communicators& communicators() { return *communicators_; }
  bool ended() const { return ended_; }
  // The graphs of these ranks, by rank, which the connection must outlive.
  void Add(const std::vector<std::unique_ptr<CapturedGraph>>& graphs) { graphs_.push_back(&graphs); }
  void Remove(const std::vector<std::unique_ptr<CapturedGraph>>& graphs) { std::erase(graphs_, &graphs); }
  // The graphs go first, whichever kernel's they are: NCCL waits for those that hold
  // what its ranks do, without end.
  void End() {
    if (std::exchange(ended_, true)) return;
    for (const auto* graphs : graphs_) {
      for (std::size_t rank = 0; rank < graphs->size(); ++rank) {
        members_[rank]->device.Activate().IgnoreError();
        (*graphs)[rank]->Reset();
      }
    }
    communicators_->Abort();
  }

  // `act(rank)` on each, with its device the thread's.
  template <class Act>
  absl::Status OnEach(const Act& act) {
    for (std::size_t rank = 0; rank < size(); ++rank) {
      GPUETA_RETURN_IF_ERROR(members_[rank]->device.Activate());
      GPUETA_RETURN_IF_ERROR(act(rank));
    }
    return absl::OkStatus();
  }
  absl::Status Enqueue(const std::vector<std::vector<ExchangeCall>>& calls, DType dtype) {
    return communicators_->Enqueue(calls, dtype, streams_);
  }

 private:
  std::vector<Member*> members_;
  std::vector<StreamHandle> streams_;
  std::unique_ptr<Communicators> communicators_;
  std::vector<const std::vector<std::unique_ptr<CapturedGraph>>*> graphs_;  // of each kernel prepared
  bool ended_ = false;
};

class NodeCollectives::Prepared : public PreparedKernel {
 public:
  Prepared(const Kernel& kernel, std::string source, std::shared_ptr<Ranks> ranks, CudaContext& context)
      : kernel_(kernel), source_(std::move(source)), ranks_(std::move(ranks)), context_(context) {
    for (std::size_t rank = 0; rank < ranks_->size(); ++rank) {
      CudaDevice& device = ranks_->member(rank).device;
      events_.push_back(std::make_unique<Events>(device));
      graphs_.push_back(std::make_unique<CapturedGraph>(device));
    }
    ranks_->Add(graphs_);
  }
  // Of each rank with its device the thread's.
  ~Prepared() override {
    const Home home(context_.device);
    ranks_->Remove(graphs_);
    for (std::size_t rank = 0; rank < ranks_->size(); ++rank) {
      ranks_->member(rank).device.Activate().IgnoreError();
      graphs_[rank].reset();
      events_[rank].reset();
      if (rank < operands_.size()) operands_[rank] = KernelOperands();
    }
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  absl::Status Init() {
    const Home home(context_.device);
    const RankBytes bytes = BuffersOf(kernel_);
    OperandBytes wanted{.output = bytes.to};
    wanted.inputs[0] = bytes.from;
    std::vector<RankBuffers> buffers;
    GPUETA_RETURN_IF_ERROR(ranks_->OnEach([&](std::size_t rank) -> absl::Status {
      GPUETA_ASSIGN_OR_RETURN(KernelOperands operands,
                              ranks_->member(rank).memory->ForKernel(wanted, kernel_.dtype, false));
      buffers.push_back({.from = operands.OfRun(0).inputs[0], .to = operands.OfRun(0).output});
      operands_.push_back(std::move(operands));
      return events_[rank]->Reserve(kEvents);
    }));
    calls_ = CallsOf(kernel_, buffers);
    // The library sets up what the ranks need when they run it for the first time.
    return Ended(RunOnce());
  }

  absl::StatusOr<Sample> TakeSample(std::size_t runs) override {
    if (ranks_->ended()) return FailedPrecondition("{}: its ranks' connection was ended", Describe(kernel_));
    const Home home(context_.device);
    if (pause_us_ > 0) {
      context_.time.pause(pause_us_);
      GPUETA_RETURN_IF_ERROR(Ended(WarmAgain()));
    }
    const std::vector<CardState> before = States();
    const absl::StatusOr<double> latency_us = LatencyUs(runs);
    if (!latency_us.ok()) return Ended(latency_us.status());
    const std::vector<CardState> after = States();
    Condition worst = Condition::kUndisturbed;
    for (std::size_t rank = 0; rank < ranks_->size(); ++rank) {
      worst = std::max(worst, ranks_->member(rank).clocks->ConditionOf(before[rank], after[rank]));
    }
    pause_us_ = context_.cool_down.PauseUs(worst, context_.time.now());
    return Sample{.latency_us = *latency_us, .condition = worst};
  }

  Timing timing() const override { return context_.options.timing; }
  std::string source() const override { return source_; }

 private:
  // Of every rank: before the runs, behind them, and behind everything: events of a
  // graph look reached from the launch before until it runs again.
  static constexpr std::size_t kBegin = 0, kEnd = 1, kDone = 2, kEvents = 3;

  // What went wrong, with the library's own account of it where it has one. A rank that
  // hangs would hold up whoever frees memory: their connection ends first.
  absl::Status Ended(absl::Status status) {
    if (status.ok()) return status;
    if (absl::Status said = ranks_->communicators().Health(); !said.ok()) status = Prefixed(said, Describe(kernel_));
    ranks_->End();
    return status;
  }

  std::vector<CardState> States() const {
    std::vector<CardState> states;
    for (std::size_t rank = 0; rank < ranks_->size(); ++rank) states.push_back(ranks_->member(rank).StateNow());
    return states;
  }

  absl::Status Enqueue() { return ranks_->Enqueue(calls_, kernel_.dtype); }
  absl::Status RecordAll(std::size_t event) {
    return ranks_->OnEach([&](std::size_t rank) {
      return ranks_->member(rank).device.Record((*events_[rank])[event], ranks_->stream(rank));
    });
  }
  absl::Status Drain() {
    GPUETA_RETURN_IF_ERROR(RecordAll(kDone));
    return ranks_->OnEach([&](std::size_t rank) {
      return Await(ranks_->member(rank).device, (*events_[rank])[kDone],
                   fmt::format("{}: rank {}", Describe(kernel_), rank), context_.time, context_.options.hung_after_us);
    });
  }
  absl::Status RunOnce() {
    GPUETA_RETURN_IF_ERROR(Enqueue());
    return Drain();
  }
  absl::Status WarmAgain() {
    for (const double start_us = context_.time.now(); context_.time.now() - start_us < kWarmAgainUs;) {
      GPUETA_RETURN_IF_ERROR(RunOnce());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> LatencyUs(std::size_t runs) {
    const auto count = static_cast<double>(runs);
    switch (context_.options.timing) {
      case Timing::kEager: {
        double total_us = 0;
        for (std::size_t run = 0; run < runs; ++run) {
          GPUETA_RETURN_IF_ERROR(Drain());
          GPUETA_RETURN_IF_ERROR(RecordAll(kBegin));
          GPUETA_RETURN_IF_ERROR(Enqueue());
          GPUETA_RETURN_IF_ERROR(RecordAll(kEnd));
          GPUETA_RETURN_IF_ERROR(Drain());
          GPUETA_ASSIGN_OR_RETURN(const double slowest_us, SlowestUs());
          total_us += slowest_us;
        }
        return total_us / count;
      }
      case Timing::kKernel: GPUETA_RETURN_IF_ERROR(EnqueueTimed(runs)); break;
      case Timing::kGraph:
        if (runs != captured_runs_) {
          captured_runs_ = 0;
          GPUETA_RETURN_IF_ERROR(CaptureFrom(0, runs));
          captured_runs_ = runs;
        }
        GPUETA_RETURN_IF_ERROR(
            ranks_->OnEach([&](std::size_t rank) { return graphs_[rank]->Launch(ranks_->stream(rank)); }));
        break;
    }
    GPUETA_RETURN_IF_ERROR(Drain());
    GPUETA_ASSIGN_OR_RETURN(const double slowest_us, SlowestUs());
    return slowest_us / count;
  }

  // The first run brings the ranks together.
  absl::Status EnqueueTimed(std::size_t runs) {
    GPUETA_RETURN_IF_ERROR(Enqueue());
    GPUETA_RETURN_IF_ERROR(RecordAll(kBegin));
    for (std::size_t run = 0; run < runs; ++run) GPUETA_RETURN_IF_ERROR(Enqueue());
    return RecordAll(kEnd);
  }
  // On the streams of this rank and those after it, all at once.
  absl::Status CaptureFrom(std::size_t rank, std::size_t runs) {
    if (rank == ranks_->size()) return EnqueueTimed(runs);
    CudaDevice& device = ranks_->member(rank).device;
    GPUETA_RETURN_IF_ERROR(device.Activate());
    return graphs_[rank]->Capture(ranks_->stream(rank), [&]() -> absl::Status {
      const absl::Status captured = CaptureFrom(rank + 1, runs);
      GPUETA_RETURN_IF_ERROR(device.Activate());
      return captured;
    });
  }

  absl::StatusOr<double> SlowestUs() {
    double slowest_us = 0;
    for (const auto& events : events_) {
      GPUETA_ASSIGN_OR_RETURN(const double elapsed_us, events->ElapsedUs(kBegin));
      slowest_us = std::max(slowest_us, elapsed_us);
    }
    return slowest_us;
  }

  Kernel kernel_;
  std::string source_;
  std::shared_ptr<Ranks> ranks_;
  CudaContext& context_;
  // By rank.
  std::vector<KernelOperands> operands_;
  std::vector<std::unique_ptr<Events>> events_;
  std::vector<std::unique_ptr<CapturedGraph>> graphs_;
  std::vector<std::vector<ExchangeCall>> calls_;
  std::size_t captured_runs_ = 0;
  double pause_us_ = 0;
};

NodeCollectives::NodeCollectives(CollectiveLibrary& library, std::vector<PeerDevice>& peers, CudaContext& context)
    : library_(library), context_(context) {
  members_.push_back(std::make_unique<Member>(Member{.device = context.device,
                                                     .card = context.card,
                                                     .clocks = &context.clocks,
                                                     .stream = context.stream,
                                                     .memory = &context.memory}));
  for (PeerDevice& peer : peers) {
    members_.push_back(std::make_unique<Member>(Member{.device = *peer.device, .card = peer.card.get()}));
    members_.back()->clocks = &members_.back()->own_clocks;
  }
}

NodeCollectives::~NodeCollectives() {
  const Home home(context_.device);
  connected_.clear();
  for (const auto& member : members_) {
    if (member->own_memory == nullptr) continue;
    member->device.Activate().IgnoreError();
    member->device.DestroyStream(*member->stream).IgnoreError();
  }
}

absl::Status NodeCollectives::Supports(const Kernel& kernel) const {
  return RankPositions(kernel, members_.size()).status();
}

std::vector<Card*> NodeCollectives::Cards() const {
  std::vector<Card*> cards;
  for (std::size_t i = 1; i < members_.size(); ++i) {
    if (members_[i]->card != nullptr) cards.push_back(members_[i]->card);
  }
  return cards;
}

absl::StatusOr<std::shared_ptr<NodeCollectives::Ranks>> NodeCollectives::Connect(
    const std::vector<std::size_t>& positions) {
  if (const auto known = connected_.find(positions); known != connected_.end() && !known->second->ended()) {
    return known->second;
  }
  std::vector<Member*> members;
  std::vector<CudaDevice*> devices;
  for (const std::size_t position : positions) {
    Member& member = *members_[position];
    if (!member.stream.has_value()) {
      GPUETA_RETURN_IF_ERROR(member.device.Activate());
      GPUETA_ASSIGN_OR_RETURN(member.stream, member.device.CreateStream());
      member.own_memory = std::make_unique<OperandMemory>(member.device, *member.stream);
      member.memory = member.own_memory.get();
    }
    members.push_back(&member);
    devices.push_back(&member.device);
  }
  GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<Communicators> communicators, library_.Connect(devices));
  return connected_[positions] = std::make_shared<Ranks>(std::move(members), std::move(communicators));
}

absl::StatusOr<std::unique_ptr<PreparedKernel>> NodeCollectives::Prepare(const Kernel& kernel) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<std::size_t> positions, RankPositions(kernel, members_.size()));
  const Home home(context_.device);
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<Ranks> ranks, Connect(positions));
  auto prepared = std::make_unique<Prepared>(kernel, library_.name(), std::move(ranks), context_);
  GPUETA_RETURN_IF_ERROR(prepared->Init());
  return prepared;
}

}  // namespace gpueta
