// The clocks of a GPU as settings of a card.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/card.h"
#include "calibration/control/card/card_settings.h"

namespace gpueta {

inline constexpr std::string_view kSmClockSetting = "sm_clock_mhz";
inline constexpr std::string_view kMemoryClockSetting = "memory_clock_mhz";

// "nvml:BUS" for OpenCardSettings.
std::string NvmlCardId(const std::string& pci_bus_id);

// Two settings, kSmClockSetting and kMemoryClockSetting: a clock in MHz that the SMs or
// the memory are locked to, or "default". NVML does not tell what clocks were locked to:
// Read is FAILED_PRECONDITION while an administrator's setting holds, since it could not
// be put back, and "default" otherwise. Once this object has locked one clock, what the
// card says of settings is its own doing.
std::unique_ptr<CardSettings> MakeNvmlSettings(std::unique_ptr<Card> card, std::string pci_bus_id);

// By bus id, in any process. FAILED_PRECONDITION without NVML; errors as
// OpenNvmlCard.
absl::StatusOr<std::unique_ptr<CardSettings>> OpenNvmlSettings(const std::string& pci_bus_id);

}  // namespace gpueta
