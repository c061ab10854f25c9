#include "core/measurements/table_of.h"

#include "core/ops/launch.h"

namespace gpueta {

std::optional<TableKey> TableOf(const Measurement& row) {
  if (!GradientOf(row.kernel).empty()) return std::nullopt;
  return KeyOf(row.kernel, row.timing);
}

}  // namespace gpueta
