// Which table a measured row is about.
#pragma once

#include <optional>

#include "core/measurements/measurements.h"
#include "core/ops/table_key.h"

namespace gpueta {

// The table that the row teaches and that may be judged by it. nullopt for a kernel whose
// launch says that it computes a gradient (GradientOf): tables are about forward kernels,
// and a gradient has the shape of one but not its time.
std::optional<TableKey> TableOf(const Measurement& row);

}  // namespace gpueta
