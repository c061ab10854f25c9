// A card through NVML.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/card.h"
#include "calibration/backends/cuda/driver/nvml_api.h"

namespace gpueta {

// `api` must outlive the card. NOT_FOUND for a bus id that NVML does not know.
absl::StatusOr<std::unique_ptr<Card>> OpenNvmlCard(const nvml::Api& api, const std::string& pci_bus_id);

}  // namespace gpueta
