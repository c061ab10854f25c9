// A device's table from what other devices taught and its own few rows.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/fit/prior.h"
#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

// `pooled` is the table of the same key, `pool` the specs of its devices; those
// in `without` do not count as relatives. The posterior weighs what relatives
// say, each relative alone, and nothing but the pool, by how well each explains
// the rows: a relative that helps is used, one that does not is dropped. With
// enough rows the exact model of them alone has a say as well, by how much it
// errs on rows it did not see. Measured kernels are remembered. For fewer rows than
// kMostlyOwnRows. Deterministic.
Table FitTransferred(const TableData& data, const Table& pooled, std::span<const DeviceSpec> pool,
                     const DeviceSpec& device, std::span<const std::string> without, std::uint64_t seed);

// The same posterior as a prior of the residual, for tables with rows enough that
// most is learnt from them. `pooled` must outlive it.
std::unique_ptr<Prior> FitPooledPrior(const TableData& data, const Table& pooled, std::span<const DeviceSpec> pool,
                                      const DeviceSpec& device, std::span<const std::string> without);

// From so many rows on the device's own say more than others' do.
inline constexpr Eigen::Index kMostlyOwnRows = 100;

// With more rows than this, other devices have nothing to add.
inline constexpr Eigen::Index kMostTransferredRows = 2500;

}  // namespace gpueta
