#include "calibration/control/cpu/cpu_control.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "calibration/backends/cpu/cpu_backend.h"
#include "calibration/backends/cpu/cpu_info.h"
#include "calibration/backends/cpu/interference.h"
#include "calibration/backends/cpu/measuring_scope.h"
#include "calibration/backends/cpu/openmp.h"
#include "calibration/control/cpu/antagonist.h"
#include "calibration/control/cpu/cpu_clock.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kDutyStep = 0.05;

// Less of the antagonist's time than this is lost in the noise of its effect.
constexpr double kStarvedTooMuch = 0.08;

class CpuControl : public DeviceControl {
 public:
  CpuControl(std::vector<int> cores, cpu_set_t affinity, std::unique_ptr<CpuClock> clock)
      : cores_(std::move(cores)), affinity_(affinity), threads_(omp_get_max_threads()), clock_(std::move(clock)) {
    space_.range(Knob::kUnits) = KnobRange{.least = 1, .most = static_cast<double>(cores_.size()), .step = 1};
    if (cores_.size() > 1) {
      space_.range(Knob::kContention) = KnobRange{.least = 0, .most = 1, .step = kDutyStep};
    }
    if (clock_ != nullptr) space_.range(Knob::kCoreClock) = clock_->range();
  }

  ~CpuControl() override { Restore().IgnoreError(); }

  const ControlSpace& space() const override { return space_; }

  absl::StatusOr<Backend*> Apply(const Configuration& configuration) override {
    if (!IsPossible(space_, configuration)) {
      return InvalidArgument("configuration: {} cannot be made", gpueta::Describe(space_, configuration));
    }
    backend_.reset();
    antagonist_.reset();
    out_of_reach_ = false;
    if (clock_ != nullptr) GPUETA_RETURN_IF_ERROR(clock_->Set(At(configuration, Knob::kCoreClock)));
    const auto units = static_cast<std::size_t>(std::lround(At(configuration, Knob::kUnits)));
    const std::span<const int> all(cores_);
    const double duty = space_.range(Knob::kContention).has_value() ? At(configuration, Knob::kContention) : 0;
    if (duty > 0) {
      out_of_reach_ = OutOfReach();
      GPUETA_ASSIGN_OR_RETURN(antagonist_, Antagonist::Start(all.subspan(units), duty));
    }
    GPUETA_RETURN_IF_ERROR(RunOn(all.first(units)));
    GPUETA_ASSIGN_OR_RETURN(backend_, OpenCpuBackend());
    return backend_.get();
  }

  absl::StatusOr<DeviceSpec> MeasureSpec() override {
    if (backend_ == nullptr) return FailedPrecondition("cpu: not configured");
    return backend_->Describe();
  }

  std::string Disturbance() const override {
    if (out_of_reach_) return "the machine was busy: its hypervisor had the cores apart, out of reach of contention";
    const double starved = antagonist_ == nullptr ? 0 : antagonist_->StarvedShare();
    if (starved <= kStarvedTooMuch) return "";
    return fmt::format("the machine was busy: contention was kept from its cores {:.0f}% of the time", 100 * starved);
  }

  absl::Status Restore() override {
    backend_.reset();
    antagonist_.reset();
    sched_setaffinity(0, sizeof affinity_, &affinity_);
    omp_set_num_threads(threads_);
    return clock_ == nullptr ? absl::OkStatus() : clock_->Restore();
  }

 private:
  // Cores on different dies have bandwidths of their own.
  bool OutOfReach() {
    if (!RunOn(cores_).ok() || !info_.one_last_level_cache) return false;
    const ThreadPlacement placement;
    const MeasuringScope scope(placement);
    return CoresAreApart(CoreRoundTripNs());
  }

  absl::Status RunOn(std::span<const int> cores) const {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
      return FailedPrecondition("units: the system does not let this thread stay on {} cores", cores.size());
    }
    omp_set_num_threads(static_cast<int>(cores.size()));
    return absl::OkStatus();
  }

  CpuInfo info_ = ReadCpuInfo();
  std::vector<int> cores_;  // that this process may use
  cpu_set_t affinity_;      // as it was
  int threads_;             // as they were
  std::unique_ptr<CpuClock> clock_;
  ControlSpace space_;
  std::unique_ptr<Antagonist> antagonist_;
  bool out_of_reach_ = false;
  std::unique_ptr<Backend> backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceControl>> OpenCpuControl(const CpuControlOptions& options) {
  if (omp_get_proc_bind() != omp_proc_bind_false) {
    return FailedPrecondition("OMP_PROC_BIND is set: threads would not stay on the cores chosen for them; unset it");
  }
  cpu_set_t affinity;
  if (sched_getaffinity(0, sizeof affinity, &affinity) != 0) {
    return FailedPrecondition("cpu: the system does not say which cores may be used");
  }
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &affinity)) cores.push_back(core);
  }
  std::unique_ptr<CpuClock> clock;
  if (options.allow_card_settings) {
    absl::StatusOr<std::unique_ptr<CpuClock>> opened = CpuClock::Open(options.settings_directory, cores, options.guard);
    if (opened.ok()) {
      clock = *std::move(opened);
    } else if (!absl::IsNotFound(opened.status())) {
      return opened.status();
    }
  }
  return std::make_unique<CpuControl>(std::move(cores), affinity, std::move(clock));
}

}  // namespace gpueta
