#include "calibration/control/cuda/cuda_control.h"

#include <cmath>
#include <utility>
#include <vector>

#include "calibration/backends/cuda/device/capabilities.h"
#include "calibration/backends/cuda/device/identity.h"
#include "calibration/control/card/nvml_settings.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kCacheStep = 0.05;

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
    space_.range(Knob::kUnits) = Downwards(properties.sm_count, group, group);
    if (properties.persisting_l2_bytes > 0 && properties.l2_bytes > 0) {
      const double most =
          static_cast<double>(properties.persisting_l2_bytes) / static_cast<double>(properties.l2_bytes);
      space_.range(Knob::kCacheSetAside) =
          KnobRange{.least = 0, .most = std::floor(most / kCacheStep) * kCacheStep, .step = kCacheStep};
    }
    return options.allow_card_settings && host_.card != nullptr ? InitClock(options.guard) : absl::OkStatus();
  }

  const ControlSpace& space() const override { return space_; }

  absl::StatusOr<Backend*> Apply(const Configuration& configuration) override {
    if (!IsPossible(space_, configuration)) {
      return InvalidArgument("configuration: {} cannot be made", gpueta::Describe(space_, configuration));
    }
    backend_.reset();
    if (clock_ != nullptr) {
      GPUETA_RETURN_IF_ERROR(
          clock_->Set(std::string(kSmClockSetting), fmt::format("{:g}", At(configuration, Knob::kCoreClock))));
    }
    const auto l2_bytes = static_cast<double>(host_.device->properties().l2_bytes);
    if (space_.range(Knob::kCacheSetAside).has_value()) {
      const double set_aside = At(configuration, Knob::kCacheSetAside) * l2_bytes;
      GPUETA_RETURN_IF_ERROR(host_.device->SetAsideL2(static_cast<std::size_t>(set_aside)));
      left_l2_mb_ = (l2_bytes - set_aside) / static_cast<double>(1 << 20);
    }
    GPUETA_ASSIGN_OR_RETURN(SmPartitions parts,
                            host_.device->SplitSms(static_cast<int>(std::lround(At(configuration, Knob::kUnits)))));
    units_ = parts.chosen->properties().sm_count;
    GPUETA_ASSIGN_OR_RETURN(backend_, host_.open_backend(std::move(parts.chosen)));
    return backend_.get();
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
  std::string Disturbance() const override { return ""; }

  absl::Status Restore() override {
    backend_.reset();
    absl::Status restored =
        space_.range(Knob::kCacheSetAside).has_value() ? host_.device->SetAsideL2(0) : absl::OkStatus();
    if (clock_ != nullptr) restored.Update(clock_->Restore());
    return restored;
  }

 private:
  absl::Status InitClock(const GuardOptions& guard) {
    GPUETA_ASSIGN_OR_RETURN(const CardInfo info, host_.card->Info());
    GPUETA_ASSIGN_OR_RETURN(const std::vector<double> clocks, host_.card->SmClocks(info.max_memory_clock_mhz));
    if (clocks.size() < 2) return absl::OkStatus();  // nothing to choose from
    space_.range(Knob::kCoreClock) = Downwards(clocks.front(), clocks.back(), clocks[0] - clocks[1]);
    GPUETA_ASSIGN_OR_RETURN(
        clock_,
        GuardedCard::Open(MakeNvmlSettings(std::move(host_.card), host_.device->properties().pci_bus_id), guard));
    return absl::OkStatus();
  }

  CudaHost host_;
  ControlSpace space_;
  std::unique_ptr<GuardedCard> clock_;
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

}  // namespace gpueta
