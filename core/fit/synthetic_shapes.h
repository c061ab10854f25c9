// Shapes like those that were measured.
#pragma once

#include <cstdint>

#include "core/fit/table_data.h"

namespace gpueta {

// `count` rows without latencies (ln_us is 0) inside the hull of `data`: dims
// of measured rows crossed and shifted, kept to the granularity all measured
// rows share (for example, multiples of 8), valid for the op; launches are as
// those of measured rows (LaunchLike). `storage` owns
// the rows and must outlive the result. Deterministic.
TableData SyntheticShapes(const TableData& data, std::size_t count, std::uint64_t seed,
                          std::vector<Measurement>& storage);

}  // namespace gpueta
