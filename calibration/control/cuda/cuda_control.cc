#include "calibration/control/cuda/cuda_control.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/device/capabilities.h"
#include "calibration/backends/cuda/device/identity.h"
#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/control/card/nvml_settings.h"
#include "calibration/control/cuda/sm_antagonist.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kCacheStep = 0.05;
constexpr double kDutyStep = 0.05;

// A range from `most` downwards, whatever remains below the last step left out.
KnobRange Downwards(double most, double least, double step) {
  return {.least = most - std::floor((most - least) / step) * step, .most = most, .step = step};
}

class CudaControl : public DeviceControl {
 public:
  explicit CudaControl(CudaHost host) : host_(std::move(host)) {}
  ~CudaControl() override { Restore().IgnoreError(); }

  absl::Status Init(const CudaControlOptions& options) {
    // SMs come in groups whose size the architecture chooses.
    GPUETA_ASSIGN_OR_RETURN(const SmPartitions smallest, host_.device->SplitSms(1));
    const DeviceProperties& properties = host_.device->properties();
    const double group = smallest.chosen->properties().sm_count;
    space_.range(Knob::kUnits) =
        KnobRange{.least = group, .most = static_cast<double>(properties.sm_count), .step = group};
    if (host_.contend != nullptr && properties.sm_count >= 2 * group) {
      space_.range(Knob::kContention) = KnobRange{.least = 0, .most = 1, .step = kDutyStep};
    }
    if (properties.persisting_l2_bytes > 0 && properties.l2_bytes > 0) {
      const double most =
          static_cast<double>(properties.persisting_l2_bytes) / static_cast<double>(properties.l2_bytes);
      space_.range(Knob::kCacheSetAside) =
          KnobRange{.least = 0, .most = std::floor(most / kCacheStep) * kCacheStep, .step = kCacheStep};
    }
    return options.allow_card_settings && host_.card != nullptr ? InitClocks(options.guard) : absl::OkStatus();
  }

  const ControlSpace& space() const override { return space_; }
  std::string device() const override { return LabelsOf(host_.device->properties(), {}, {}, false)["uuid"]; }

  absl::StatusOr<Backend*> Apply(const Configuration& configuration) override {
    if (!IsPossible(space_, configuration)) {
      return InvalidArgument("configuration: {} cannot be made", gpueta::Describe(space_, configuration));
    }
    GPUETA_RETURN_IF_ERROR(Release());
    for (const auto& [knob, setting] :
         {std::pair{Knob::kMemoryClock, kMemoryClockSetting}, {Knob::kCoreClock, kSmClockSetting}}) {
      if (space_.range(knob).has_value()) GPUETA_RETURN_IF_ERROR(Lock(setting, At(configuration, knob)));
    }
    const auto l2_bytes = static_cast<double>(host_.device->properties().l2_bytes);
    if (space_.range(Knob::kCacheSetAside).has_value()) {
      const double set_aside = At(configuration, Knob::kCacheSetAside) * l2_bytes;
      GPUETA_RETURN_IF_ERROR(host_.device->SetAsideL2(static_cast<std::size_t>(set_aside)));
      left_l2_mb_ = (l2_bytes - set_aside) / static_cast<double>(1 << 20);
    }
    const absl::Status opened = OpenPart(configuration);
    if (opened.ok()) return backend_.get();
    Release().IgnoreError();
    return opened;
  }

  absl::StatusOr<DeviceSpec> MeasureSpec() override {
    if (backend_ == nullptr) return FailedPrecondition("cuda: not configured");
    const DeviceSpec whole = SpecOf(host_.device->properties());
    GPUETA_ASSIGN_OR_RETURN(const Capabilities measured, MeasureCapabilities(*backend_, host_.clock));
    return WithCapabilities({.slug = whole.slug,
                             .name = whole.name,
                             .architecture = whole.architecture,
                             .compute_capability = whole.compute_capability,
                             .sm_count = units_,
                             .l2_mb = left_l2_mb_ > 0 ? left_l2_mb_ : whole.l2_mb},
                            measured);
  }

  // Samples taken at other clocks are dropped by the backend itself.
  std::string Disturbance() const override { return contention_ != nullptr ? contention_->Disturbance() : ""; }

  absl::Status Restore() override {
    absl::Status restored = Release();
    if (space_.range(Knob::kCacheSetAside).has_value()) restored.Update(host_.device->SetAsideL2(0));
    if (clocks_ != nullptr) restored.Update(clocks_->Restore());
    return restored;
  }

 private:
  absl::Status OpenPart(const Configuration& configuration) {
    GPUETA_ASSIGN_OR_RETURN(SmPartitions parts,
                            host_.device->SplitSms(static_cast<int>(std::lround(At(configuration, Knob::kUnits)))));
    units_ = parts.chosen->properties().sm_count;
    const double duty = space_.range(Knob::kContention).has_value() ? At(configuration, Knob::kContention) : 0;
    if (duty > 0) {
      if (parts.rest == nullptr) return FailedPrecondition("contention: no SMs are left beside {}", units_);
      GPUETA_ASSIGN_OR_RETURN(contention_, host_.contend(std::move(parts.rest), duty));
    }
    GPUETA_RETURN_IF_ERROR(parts.chosen->Activate());
    GPUETA_ASSIGN_OR_RETURN(backend_, host_.open_backend(std::move(parts.chosen)));
    return absl::OkStatus();
  }

  // The parts' contexts end with them; the thread is to have the device's again.
  absl::Status Release() {
    contention_.reset();
    backend_.reset();
    return host_.device->Activate();
  }

  absl::Status InitClocks(const GuardOptions& guard) {
    GPUETA_ASSIGN_OR_RETURN(const CardInfo info, host_.card->Info());
    GPUETA_ASSIGN_OR_RETURN(const std::vector<double> sm_clocks, host_.card->SmClocks(info.max_memory_clock_mhz));
    const std::vector<double> memory_clocks = MemoryClocksFor(sm_clocks);
    if (sm_clocks.size() < 2 && memory_clocks.size() < 2) return absl::OkStatus();  // nothing to choose from
    GPUETA_ASSIGN_OR_RETURN(
        clocks_,
        GuardedCard::Open(MakeNvmlSettings(std::move(host_.card), host_.device->properties().pci_bus_id), guard));
    if (sm_clocks.size() >= 2) {
      space_.range(Knob::kCoreClock) = Downwards(sm_clocks.front(), sm_clocks.back(), sm_clocks[0] - sm_clocks[1]);
    }
    // Many cards list memory clocks but do not let them be locked: that shows when it is
    // tried, with the clock that holds anyway.
    if (memory_clocks.size() < 2 || !Lock(kMemoryClockSetting, memory_clocks.back()).ok()) return absl::OkStatus();
    space_.range(Knob::kMemoryClock) =
        KnobRange{.least = memory_clocks.front(), .most = memory_clocks.back(), .listed = memory_clocks};
    return clocks_->Restore();
  }

  // The least first. At others the SMs' clocks would not be what is asked for.
  std::vector<double> MemoryClocksFor(const std::vector<double>& sm_clocks) const {
    std::vector<double> clocks = host_.card->MemoryClocks().value_or(std::vector<double>());
    std::erase_if(clocks, [&](double mhz) {
      const absl::StatusOr<std::vector<double>> allowed = host_.card->SmClocks(mhz);
      return !allowed.ok() || *allowed != sm_clocks;
    });
    std::ranges::sort(clocks);
    return clocks;
  }

  absl::Status Lock(std::string_view setting, double mhz) {
    return clocks_->Set(std::string(setting), fmt::format("{:g}", mhz));
  }

  CudaHost host_;
  ControlSpace space_;
  std::unique_ptr<GuardedCard> clocks_;
  std::unique_ptr<Contention> contention_;
  std::unique_ptr<Backend> backend_;
  int units_ = 0;
  double left_l2_mb_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceControl>> MakeCudaControl(CudaHost host, const CudaControlOptions& options) {
  auto control = std::make_unique<CudaControl>(std::move(host));
  GPUETA_RETURN_IF_ERROR(control->Init(options));
  return control;
}

absl::StatusOr<std::unique_ptr<DeviceControl>> OpenCudaControl(int ordinal, const CudaControlOptions& options) {
  GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<CudaDriver> opened, OpenCudaDriver());
  const std::shared_ptr<CudaDriver> driver = std::move(opened);
  // Without NVML clocks and throttling go unnoticed.
  const auto card = [driver, ordinal] {
    absl::StatusOr<std::unique_ptr<Card>> found = driver->OpenCard(ordinal);
    return found.ok() ? *std::move(found) : nullptr;
  };
  CudaHost host{.card = card(), .clock = SteadyMicroseconds};
  GPUETA_ASSIGN_OR_RETURN(host.device, driver->Open(ordinal));
  host.open_backend = [card](std::unique_ptr<CudaDevice> part) { return OpenCudaBackendOn(std::move(part), card()); };
  host.contend = [](std::unique_ptr<CudaDevice> rest, double duty) -> absl::StatusOr<std::unique_ptr<Contention>> {
    return SmAntagonist::Start(std::move(rest), duty, MicroKernelsPtx());
  };
  return MakeCudaControl(std::move(host), options);
}

}  // namespace gpueta
