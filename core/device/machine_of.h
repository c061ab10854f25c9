// The device numbers of one table.
#pragma once

#include "core/device/spec.h"
#include "core/ops/machine.h"
#include "core/ops/table_key.h"

namespace gpueta {

// From the spec with inferred cells. All values are positive and finite.
Machine<double> MachineOf(const DeviceSpec& spec, const TableKey& key);

}  // namespace gpueta
