// Prices of devices as commands take them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta::cli {

using Prices = std::map<std::string, double>;  // of one GPU for an hour, by device

// DEVICE=USD each. INVALID_ARGUMENT naming --price.
absl::StatusOr<Prices> ParsePrices(const std::vector<std::string>& texts);

}  // namespace gpueta::cli
