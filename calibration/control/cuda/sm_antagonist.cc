#include "calibration/control/cuda/sm_antagonist.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/cuda/driver/kernel_module.h"
#include "calibration/backends/cuda/events.h"
#include "calibration/backends/cuda/ops/micro_kernels.h"
#include "calibration/backends/timing.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::int64_t kPackBytes = 16;
// Long against what a thread may sleep too long, short against what freeing memory may
// wait.
constexpr double kKernelUs = 10'000;
constexpr auto kPoll = std::chrono::microseconds(200);
// PTX is compiled when it is loaded.
constexpr double kStartsWithinUs = 30e6;
// What is copied from, and as much that is copied to: more than caches keep.
constexpr std::size_t kLeastStreamBytes = std::size_t{256} << 20;
// Less of its time than this is lost in the noise of its effect.
constexpr double kIdleTooMuch = 0.08;

}  // namespace

// Everything that touches the partition, on the thread that runs it.
class SmAntagonist::Feeder {
 public:
  Feeder(std::unique_ptr<CudaDevice> sms, double duty) : sms_(std::move(sms)), pause_((1 - duty) / duty) {}

  // Tells `started` once, then runs until told to stop.
  void Run(std::string_view ptx, std::promise<absl::Status> started) {
    absl::Status status = sms_->Activate();
    if (status.ok()) {
      Kernels kernels(*sms_);
      status = kernels.Init(ptx, pause_);
      if (status.ok()) status = kernels.Enqueue();
      if (status.ok()) status = AwaitStart(kernels);
      started.set_value(status);
      while (status.ok() && !stop_.load(std::memory_order_relaxed)) status = Feed(kernels);
      status.Update(kernels.Finish());
    } else {
      started.set_value(status);
    }
    const std::lock_guard lock(mutex_);
    failure_ = status;
  }

  void Stop() { stop_ = true; }

  std::string Disturbance() const {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return fmt::format("contention ended: {}", MessageOf(failure_));
    const double idle = span_us_ > 0 ? 1 - busy_us_ / span_us_ : 0;
    if (idle <= kIdleTooMuch) return "";
    return fmt::format("the machine was busy: contention was kept from the GPU {:.0f}% of the time", 100 * idle);
  }

 private:
  // The kernel, its memory and its launches.
  class Kernels {
   public:
    explicit Kernels(CudaDevice& sms) : sms_(sms), events_(sms) {}
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;
    ~Kernels() {
      if (stream_.has_value()) sms_.DestroyStream(*stream_).IgnoreError();
    }

    absl::Status Init(std::string_view ptx, double pause) {
      GPUETA_ASSIGN_OR_RETURN(module_, KernelModule::Load(sms_, ptx));
      GPUETA_ASSIGN_OR_RETURN(stream_, sms_.CreateStream());
      GPUETA_RETURN_IF_ERROR(events_.Reserve(2 * kSlots));
      const DeviceProperties& properties = sms_.properties();
      const std::size_t bytes = std::max(kLeastStreamBytes, 2 * properties.l2_bytes) / 256 * 256;
      GPUETA_ASSIGN_OR_RETURN(memory_, DeviceBuffer::Allocate(sms_, 2 * bytes));
      GPUETA_RETURN_IF_ERROR(sms_.Fill(memory_.pointer(), 1, 2 * bytes, *stream_));
      from_ = memory_.pointer();
      to_ = memory_.pointer() + bytes;
      packs_ = static_cast<long long>(bytes) / kPackBytes;
      pause_ = static_cast<float>(pause);
      cycles_ = static_cast<long long>(kKernelUs * std::max(properties.sm_clock_mhz, 1.0));
      GPUETA_ASSIGN_OR_RETURN(blocks_, module_.BlocksToFill("contend", micro::kStreamThreads));
      return absl::OkStatus();
    }

    absl::Status Enqueue() {
      const std::size_t begin = BeginOf(enqueued_);
      GPUETA_RETURN_IF_ERROR(sms_.Record(events_[begin], *stream_));
      GPUETA_RETURN_IF_ERROR(
          module_.Launch("contend", blocks_, micro::kStreamThreads, *stream_, to_, from_, packs_, cycles_, pause_));
      GPUETA_RETURN_IF_ERROR(sms_.Record(events_[begin + 1], *stream_));
      ++enqueued_;
      return absl::OkStatus();
    }
    std::size_t under_way() const { return enqueued_ - done_; }
    absl::StatusOr<bool> FirstHasBegun() { return sms_.Reached(events_[0]); }

    // Whether the oldest under way is done: what it took, and since the end of the one
    // before it.
    struct Done {
      double busy_us = 0;
      double span_us = 0;
    };
    absl::StatusOr<std::optional<Done>> TakeDone() {
      const std::size_t begin = BeginOf(done_);
      GPUETA_ASSIGN_OR_RETURN(const bool reached, sms_.Reached(events_[begin + 1]));
      if (!reached) return std::nullopt;
      Done done;
      GPUETA_ASSIGN_OR_RETURN(done.busy_us, sms_.ElapsedUs(events_[begin], events_[begin + 1]));
      done.span_us = done.busy_us;
      if (done_ > 0) {
        GPUETA_ASSIGN_OR_RETURN(done.span_us, sms_.ElapsedUs(events_[BeginOf(done_ - 1) + 1], events_[begin + 1]));
      }
      ++done_;
      return done;
    }

    absl::Status Finish() { return stream_.has_value() ? sms_.Synchronize(*stream_) : absl::OkStatus(); }

   private:
    // Two are under way, and the end of the one before them is still wanted.
    static constexpr std::size_t kSlots = 3;
    static std::size_t BeginOf(std::size_t launch) { return 2 * (launch % kSlots); }

    CudaDevice& sms_;
    Events events_;  // begin and end of each slot
    KernelModule module_;
    std::optional<StreamHandle> stream_;
    DeviceBuffer memory_;
    DevicePointer from_ = 0;
    DevicePointer to_ = 0;
    long long packs_ = 0;
    long long cycles_ = 0;
    float pause_ = 0;
    std::uint32_t blocks_ = 1;
    std::size_t enqueued_ = 0;
    std::size_t done_ = 0;
  };

  static absl::Status AwaitStart(Kernels& kernels) {
    for (const double begin_us = SteadyMicroseconds();;) {
      GPUETA_ASSIGN_OR_RETURN(const bool begun, kernels.FirstHasBegun());
      if (begun) return absl::OkStatus();
      if (SteadyMicroseconds() - begin_us > kStartsWithinUs) {
        return absl::DeadlineExceededError("contend: the kernel does not start on its SMs");
      }
      std::this_thread::sleep_for(kPoll);
    }
  }

  absl::Status Feed(Kernels& kernels) {
    if (kernels.under_way() < 2) return kernels.Enqueue();
    GPUETA_ASSIGN_OR_RETURN(const auto done, kernels.TakeDone());
    if (!done.has_value()) {
      std::this_thread::sleep_for(kPoll);
      return absl::OkStatus();
    }
    const std::lock_guard lock(mutex_);
    busy_us_ += done->busy_us;
    span_us_ += done->span_us;
    return absl::OkStatus();
  }

  std::unique_ptr<CudaDevice> sms_;
  double pause_;  // of what a burst takes
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;
  absl::Status failure_;
  double busy_us_ = 0;
  double span_us_ = 0;
};

absl::StatusOr<std::unique_ptr<SmAntagonist>> SmAntagonist::Start(std::unique_ptr<CudaDevice> sms, double duty,
                                                                  std::string_view ptx) {
  if (ptx.empty()) return absl::UnimplementedError("contention: built without the CUDA toolkit");
  std::unique_ptr<SmAntagonist> antagonist(new SmAntagonist);
  antagonist->feeder_ = std::make_unique<Feeder>(std::move(sms), duty);
  std::promise<absl::Status> promise;
  std::future<absl::Status> started = promise.get_future();
  try {
    antagonist->thread_ =
        std::thread([feeder = antagonist->feeder_.get(), ptx, promise = std::move(promise)]() mutable {
          feeder->Run(ptx, std::move(promise));
        });
  } catch (const std::system_error& error) {
    return ResourceExhausted("bandwidth contention: cannot start a thread: {}", error.what());
  }
  const absl::Status status = started.get();
  if (!status.ok()) return Prefixed(status, "bandwidth contention");
  return antagonist;
}

SmAntagonist::~SmAntagonist() {
  if (feeder_ != nullptr) feeder_->Stop();
  if (thread_.joinable()) thread_.join();
}

std::string SmAntagonist::Disturbance() const { return feeder_->Disturbance(); }

}  // namespace gpueta
