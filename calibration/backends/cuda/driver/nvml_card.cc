#include "calibration/backends/cuda/driver/nvml_card.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// The longest text that NVML returns is a name of 96 characters.
constexpr unsigned kTextSize = 128;

class NvmlCard : public Card {
 public:
  NvmlCard(const nvml::Api& api, nvml::Device device) : api_(api), device_(device) {}

  // Cards differ in what they tell: what one does not is left unknown.
  absl::StatusOr<CardInfo> Info() override {
    CardInfo info;
    GPUETA_ASSIGN_OR_RETURN(info.uuid, Text(api_.nvmlDeviceGetUUID, "nvmlDeviceGetUUID"));
    info.name = Text(api_.nvmlDeviceGetName, "nvmlDeviceGetName").value_or("");
    info.vbios_version = Text(api_.nvmlDeviceGetVbiosVersion, "nvmlDeviceGetVbiosVersion").value_or("");
    char version[kTextSize] = {};
    if (api_.nvmlSystemGetDriverVersion != nullptr && api_.nvmlSystemGetDriverVersion(version, kTextSize) == 0)
      info.driver_version = version;
    info.ecc = IsOn(api_.nvmlDeviceGetEccMode);
    info.mig = IsOn(api_.nvmlDeviceGetMigMode);
    unsigned persistence = 0;
    info.persistence =
        Call("nvmlDeviceGetPersistenceMode", api_.nvmlDeviceGetPersistenceMode, &persistence).ok() && persistence != 0;
    int mode = 0;
    info.exclusive =
        Call("nvmlDeviceGetComputeMode", api_.nvmlDeviceGetComputeMode, &mode).ok() && mode == nvml::kExclusiveProcess;
    info.max_sm_clock_mhz = Mhz(api_.nvmlDeviceGetMaxClockInfo, nvml::kSmClock).value_or(0);
    info.max_memory_clock_mhz = Mhz(api_.nvmlDeviceGetMaxClockInfo, nvml::kMemoryClock).value_or(0);
    info.power_limit_w = Watts(api_.nvmlDeviceGetPowerManagementLimit).value_or(0);
    info.default_power_limit_w = Watts(api_.nvmlDeviceGetPowerManagementDefaultLimit).value_or(0);
    unsigned lowest = 0;
    unsigned highest = 0;
    if (Call("nvmlDeviceGetPowerManagementLimitConstraints", api_.nvmlDeviceGetPowerManagementLimitConstraints, &lowest,
             &highest)
            .ok()) {
      info.min_power_limit_w = lowest * 1e-3;
      info.max_power_limit_w = highest * 1e-3;
    }
    return info;
  }

  // The clock must be known; a MIG instance tells neither power nor business.
  absl::StatusOr<CardState> State() override {
    CardState state;
    GPUETA_ASSIGN_OR_RETURN(state.sm_clock_mhz, Mhz(api_.nvmlDeviceGetClockInfo, nvml::kSmClock));
    state.memory_clock_mhz = Mhz(api_.nvmlDeviceGetClockInfo, nvml::kMemoryClock).value_or(0);
    state.power_w = Watts(api_.nvmlDeviceGetPowerUsage).value_or(0);
    unsigned celsius = 0;
    if (Call("nvmlDeviceGetTemperature", api_.nvmlDeviceGetTemperature, nvml::kGpuTemperature, &celsius).ok())
      state.temperature_c = celsius;
    nvml::Utilization utilization{};
    if (Call("nvmlDeviceGetUtilizationRates", api_.nvmlDeviceGetUtilizationRates, &utilization).ok())
      state.busy = utilization.gpu / 100.0;
    unsigned long long reasons = 0;  // their bits are those of ClockLimit
    if (Call("nvmlDeviceGetCurrentClocksThrottleReasons", api_.nvmlDeviceGetCurrentClocksThrottleReasons, &reasons)
            .ok())
      state.limits = static_cast<std::uint32_t>(reasons);
    return state;
  }

  absl::StatusOr<std::vector<CardProcess>> Processes() override {
    // Processes come and go between the two calls.
    constexpr unsigned kSpare = 16;
    unsigned count = 0;
    std::vector<nvml::ProcessInfo> infos;
    for (nvml::Result result = nvml::kInsufficientSize; result == nvml::kInsufficientSize;) {
      infos.resize(count + kSpare);
      count = static_cast<unsigned>(infos.size());
      if (api_.nvmlDeviceGetComputeRunningProcesses_v3 == nullptr)
        return absl::UnimplementedError("nvmlDeviceGetComputeRunningProcesses: not in this driver");
      result = api_.nvmlDeviceGetComputeRunningProcesses_v3(device_, &count, infos.data());
      if (result != nvml::kInsufficientSize)
        GPUETA_RETURN_IF_ERROR(nvml::StatusOf(api_, result, "nvmlDeviceGetComputeRunningProcesses"));
    }
    std::vector<CardProcess> processes;
    for (const nvml::ProcessInfo& info : std::span(infos).first(count)) {
      processes.push_back({info.pid, info.used_memory == nvml::kMemoryNotAvailable ? 0 : info.used_memory});
    }
    return processes;
  }

  absl::StatusOr<std::vector<double>> MemoryClocks() override {
    return Clocks("nvmlDeviceGetSupportedMemoryClocks", [this](unsigned* count, unsigned* mhz) {
      return Call("nvmlDeviceGetSupportedMemoryClocks", api_.nvmlDeviceGetSupportedMemoryClocks, count, mhz);
    });
  }
  absl::StatusOr<std::vector<double>> SmClocks(double memory_clock_mhz) override {
    return Clocks("nvmlDeviceGetSupportedGraphicsClocks", [this, memory_clock_mhz](unsigned* count, unsigned* mhz) {
      return Call("nvmlDeviceGetSupportedGraphicsClocks", api_.nvmlDeviceGetSupportedGraphicsClocks,
                  Whole(memory_clock_mhz), count, mhz);
    });
  }

  absl::Status LockSmClocks(double lowest_mhz, double highest_mhz) override {
    return Call("nvmlDeviceSetGpuLockedClocks", api_.nvmlDeviceSetGpuLockedClocks, Whole(lowest_mhz),
                Whole(highest_mhz));
  }
  absl::Status ResetSmClocks() override {
    return Call("nvmlDeviceResetGpuLockedClocks", api_.nvmlDeviceResetGpuLockedClocks);
  }
  absl::Status LockMemoryClocks(double lowest_mhz, double highest_mhz) override {
    return Call("nvmlDeviceSetMemoryLockedClocks", api_.nvmlDeviceSetMemoryLockedClocks, Whole(lowest_mhz),
                Whole(highest_mhz));
  }
  absl::Status ResetMemoryClocks() override {
    return Call("nvmlDeviceResetMemoryLockedClocks", api_.nvmlDeviceResetMemoryLockedClocks);
  }
  absl::Status SetPowerLimit(double watts) override {
    return Call("nvmlDeviceSetPowerManagementLimit", api_.nvmlDeviceSetPowerManagementLimit, Whole(watts * 1e3));
  }

 private:
  static unsigned Whole(double value) { return static_cast<unsigned>(std::llround(std::max(value, 0.0))); }

  template <class... Parameters, class... Arguments>
  absl::Status Call(const char* name, nvml::Result (*function)(nvml::Device, Parameters...), Arguments... arguments) {
    if (function == nullptr) return absl::UnimplementedError(std::string(name) + ": not in this driver");
    return nvml::StatusOf(api_, function(device_, arguments...), name);
  }

  absl::StatusOr<std::string> Text(nvml::Result (*function)(nvml::Device, char*, unsigned), const char* name) {
    char text[kTextSize] = {};
    GPUETA_RETURN_IF_ERROR(Call(name, function, text, kTextSize));
    return std::string(text);
  }
  bool IsOn(nvml::Result (*function)(nvml::Device, unsigned*, unsigned*)) {
    unsigned current = 0;
    unsigned pending = 0;
    return Call("mode", function, &current, &pending).ok() && current == nvml::kEnabled;
  }
  absl::StatusOr<double> Mhz(nvml::Result (*function)(nvml::Device, int, unsigned*), int clock) {
    unsigned mhz = 0;
    GPUETA_RETURN_IF_ERROR(Call("nvmlDeviceGetClockInfo", function, clock, &mhz));
    return mhz;
  }
  absl::StatusOr<double> Watts(nvml::Result (*function)(nvml::Device, unsigned*)) {
    unsigned milliwatts = 0;
    GPUETA_RETURN_IF_ERROR(Call("nvmlDeviceGetPower", function, &milliwatts));
    return milliwatts * 1e-3;
  }
  // The lists are of tens to some hundred clocks.
  absl::StatusOr<std::vector<double>> Clocks(const char* name,
                                             const std::function<absl::Status(unsigned*, unsigned*)>& ask) {
    std::vector<unsigned> mhz(1024);
    auto count = static_cast<unsigned>(mhz.size());
    GPUETA_RETURN_IF_ERROR(ask(&count, mhz.data()));
    if (count > mhz.size()) return Internal("{}: {} clocks", name, count);
    std::vector<double> clocks(mhz.begin(), mhz.begin() + count);
    std::ranges::sort(clocks, std::greater<>());
    return clocks;
  }

  const nvml::Api& api_;
  nvml::Device device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Card>> OpenNvmlCard(const nvml::Api& api, const std::string& pci_bus_id) {
  nvml::Device device = nullptr;
  GPUETA_RETURN_IF_ERROR(nvml::StatusOf(api, api.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.c_str(), &device),
                                        "nvmlDeviceGetHandleByPciBusId"));
  return std::make_unique<NvmlCard>(api, device);
}

}  // namespace gpueta
