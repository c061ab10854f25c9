// One table fitted over several devices: what they have in common, how each
// departs from it, and how far a device that was left out is off.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/device/spec.h"
#include "core/measurements/measurements.h"
#include "core/profile/profile.h"

namespace gpueta {

// `rows` by device, none empty; `specs` has each of them. Deterministic for
// equal rows and seed. The result's interval and cv_mape come from leaving each
// device out.
Table FitPool(const TableKey& key, std::map<std::string, std::vector<const Measurement*>> rows,
              const std::map<std::string, DeviceSpec>& specs, std::uint64_t seed);

}  // namespace gpueta
