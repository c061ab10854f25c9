#include "calibration/control/testing_simulated_host.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/base/errors.h"

namespace gpueta::testing_util {
namespace {

// Samples that scatter around the true latency.
class Noise {
 public:
  Sample Around(double latency_us, double deviation) {
    return {.latency_us = latency_us * std::exp(deviation * normal_(generator_))};
  }

 private:
  std::mt19937 generator_{7};  // NOLINT(cert-msc51-cpp): the same in every run
  std::normal_distribution<double> normal_;
};

class SimulatedKernel : public PreparedKernel {
 public:
  SimulatedKernel(const Kernel& kernel, const HiddenDevice& device)
      : latency_us_(device.LatencyUs(kernel)), deviation_(device.noise) {}
  absl::StatusOr<Sample> TakeSample(std::size_t /*runs*/) override { return noise_.Around(latency_us_, deviation_); }
  Timing timing() const override { return Timing::kEager; }
  std::string source() const override { return "simulated"; }

 private:
  double latency_us_;
  double deviation_;
  Noise noise_;
};

class SimulatedGraph : public PreparedGraph {
 public:
  SimulatedGraph(std::span<const Kernel> kernels, const HiddenDevice& device) : deviation_(device.noise) {
    for (const Kernel& kernel : kernels) latencies_us_.push_back(device.LatencyUs(kernel));
  }
  absl::StatusOr<GraphSample> Run() override {
    GraphSample sample;
    for (const double latency_us : latencies_us_) sample.kernels.push_back(noise_.Around(latency_us, deviation_));
    return sample;
  }
  Timing timing() const override { return Timing::kEager; }

 private:
  std::vector<double> latencies_us_;
  double deviation_;
  Noise noise_;
};

class SimulatedBackend : public Backend {
 public:
  explicit SimulatedBackend(HiddenDevice device) : device_(std::move(device)) {}
  std::string slug() const override { return device_.slug; }
  std::map<std::string, std::string> labels() const override { return {}; }
  absl::StatusOr<DeviceSpec> Describe() override { return device_.Sheet(); }
  absl::Status Supports(const Kernel& /*kernel*/) const override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Kernel& kernel) override {
    return std::make_unique<SimulatedKernel>(kernel, device_);
  }
  absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareGraph(std::span<const Kernel> kernels) override {
    return std::make_unique<SimulatedGraph>(kernels, device_);
  }

 private:
  HiddenDevice device_;
};

}  // namespace

DeviceSpec HiddenDevice::Sheet() const {
  return {.slug = slug,
          .name = name,
          .architecture = "Simulated",
          .sm_count = static_cast<std::int64_t>(SimulatedHost::kUnits),
          .boost_clock_mhz = SimulatedHost::kMostClockMhz,
          .mem_bandwidth_gb_s = bandwidth_gb_s,
          .l2_mb = cache_mb,
          .fp32_tflops = tflops};
}

double HiddenDevice::LatencyUs(const Kernel& kernel) const {
  constexpr double kOverlap = 3;
  constexpr double kCacheSpeed = 4;
  const double efficiency = 0.5 + 0.08 * static_cast<double>(HashOf(kernel) % 6);
  const Counts counts = CountsOf(kernel);
  const auto bytes = static_cast<double>(counts.bytes().value());
  const double compute_us = static_cast<double>(counts.flops.value()) / (efficiency * tflops * 1e6);
  const double memory_us = bytes / (bandwidth_gb_s * 1e3) / (bytes < 0.5e6 * cache_mb ? kCacheSpeed : 1);
  return launch_us + std::pow(std::pow(compute_us, kOverlap) + std::pow(memory_us, kOverlap), 1 / kOverlap);
}

ControlSpace SimulatedHost::FullSpace() {
  ControlSpace space;
  space.range(Knob::kUnits) = KnobRange{.least = 2, .most = kUnits, .step = 2};
  space.range(Knob::kCoreClock) = KnobRange{.least = 600, .most = kMostClockMhz, .step = 50};
  space.range(Knob::kContention) = KnobRange{.least = 0, .most = 1, .step = 0.05};
  return space;
}

HiddenDevice SimulatedHost::Restricted(const Configuration& configuration) const {
  HiddenDevice device = device_;
  const double units = space_.range(Knob::kUnits).has_value() ? At(configuration, Knob::kUnits) / kUnits : 1;
  const double clock =
      space_.range(Knob::kCoreClock).has_value() ? At(configuration, Knob::kCoreClock) / kMostClockMhz : 1;
  const double contention = space_.range(Knob::kContention).has_value() ? At(configuration, Knob::kContention) : 0;
  const auto& memory = space_.range(Knob::kMemoryClock);
  if (memory.has_value()) device.bandwidth_gb_s *= At(configuration, Knob::kMemoryClock) / memory->most;
  device.tflops *= units * clock;
  device.bandwidth_gb_s *= (1 - std::pow(1 - units, 2.5)) * (1 - 0.7 * contention * std::sqrt(contention));
  device.launch_us *= 0.5 + 0.5 / clock;
  return device;
}

absl::StatusOr<Backend*> SimulatedHost::Apply(const Configuration& configuration) {
  if (!IsPossible(space_, configuration)) return InvalidArgument("configuration: cannot be made");
  if (applied++ == fails_at) return FailedPrecondition("the simulated device was taken away");
  for (const auto& [knob, setting] :
       {std::pair{Knob::kMemoryClock, kMemoryClockSetting}, {Knob::kCoreClock, kClockSetting}}) {
    if (card_ == nullptr || !space_.range(knob).has_value()) continue;
    GPUETA_RETURN_IF_ERROR(card_->Set(setting, fmt::format("{:g}", At(configuration, knob))));
  }
  backend_ = std::make_unique<SimulatedBackend>(Restricted(configuration));
  return backend_.get();
}

absl::StatusOr<DeviceSpec> SimulatedHost::MeasureSpec() {
  if (backend_ == nullptr) return FailedPrecondition("not configured");
  GPUETA_ASSIGN_OR_RETURN(DeviceSpec spec, backend_->Describe());
  if (slower_from >= 0 && measured_++ >= slower_from) spec.mem_bandwidth_gb_s /= 2;
  return spec;
}

absl::Status SimulatedHost::Restore() {
  backend_.reset();
  return card_ == nullptr ? absl::OkStatus() : card_->Restore();
}

SimulatedHost::~SimulatedHost() { SimulatedHost::Restore().IgnoreError(); }

MicrosecondClock SimulatedClock() {
  constexpr double kStepUs = 100;
  return [now = std::make_shared<double>(0)] { return *now += kStepUs; };
}

}  // namespace gpueta::testing_util
