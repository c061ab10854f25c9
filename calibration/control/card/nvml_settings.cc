#include "calibration/control/card/nvml_settings.h"

#include <charconv>
#include <set>
#include <utility>

#include "calibration/backends/cuda/driver/nvml_api.h"
#include "calibration/backends/cuda/driver/nvml_card.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::string_view kDefault = "default";

class NvmlSettings : public CardSettings {
 public:
  NvmlSettings(std::unique_ptr<Card> card, std::string pci_bus_id)
      : card_(std::move(card)), pci_bus_id_(std::move(pci_bus_id)) {}

  std::string id() const override { return NvmlCardId(pci_bus_id_); }

  absl::StatusOr<std::string> Read(std::string_view setting) const override {
    GPUETA_RETURN_IF_ERROR(Check(setting));
    if (!locked_.empty()) return std::string(kDefault);
    GPUETA_ASSIGN_OR_RETURN(const CardState state, card_->State());
    if (state.Limited(ClockLimit::kSetting)) {
      return FailedPrecondition(
          "{}: its clocks were set already and could not be put back; reset them first "
          "(nvidia-smi --reset-gpu-clocks, --reset-memory-clocks)",
          id());
    }
    return std::string(kDefault);
  }

  absl::Status Write(std::string_view setting, std::string_view value) override {
    GPUETA_RETURN_IF_ERROR(Check(setting));
    const bool sms = setting == kSmClockSetting;
    if (value == kDefault) {
      GPUETA_RETURN_IF_ERROR(sms ? card_->ResetSmClocks() : card_->ResetMemoryClocks());
      locked_.erase(std::string(setting));
      return absl::OkStatus();
    }
    double mhz = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), mhz);
    if (error != std::errc() || end != value.data() + value.size() || !(mhz > 0)) {
      return InvalidArgument("{}: \"{}\" is no clock in MHz", setting, value);
    }
    GPUETA_RETURN_IF_ERROR(sms ? card_->LockSmClocks(mhz, mhz) : card_->LockMemoryClocks(mhz, mhz));
    locked_.emplace(setting);
    return absl::OkStatus();
  }

 private:
  absl::Status Check(std::string_view setting) const {
    if (setting == kSmClockSetting || setting == kMemoryClockSetting) return absl::OkStatus();
    return NotFound("{}: a GPU has no setting {}", id(), setting);
  }

  std::unique_ptr<Card> card_;
  std::string pci_bus_id_;
  std::set<std::string> locked_;  // by this object
};

}  // namespace

std::string NvmlCardId(const std::string& pci_bus_id) { return "nvml:" + pci_bus_id; }

std::unique_ptr<CardSettings> MakeNvmlSettings(std::unique_ptr<Card> card, std::string pci_bus_id) {
  return std::make_unique<NvmlSettings>(std::move(card), std::move(pci_bus_id));
}

absl::StatusOr<std::unique_ptr<CardSettings>> OpenNvmlSettings(const std::string& pci_bus_id) {
  GPUETA_ASSIGN_OR_RETURN(const nvml::Api* api, nvml::Load());
  GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<Card> card, OpenNvmlCard(*api, pci_bus_id));
  return MakeNvmlSettings(std::move(card), pci_bus_id);
}

}  // namespace gpueta
