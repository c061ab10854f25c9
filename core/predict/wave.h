// The kernel-aware form: one kernel configuration, its waves explicit
// (PM2Lat; design, section 7).
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "core/device/spec.h"
#include "core/ops/kernel.h"
#include "core/ops/launch.h"
#include "core/ops/machine.h"
#include "core/profile/profile.h"

namespace gpueta {

// The regressors of t = a + b·w + c·w·q + d·(g/S)·q + e·bytes/BW, in µs except
// for the constant: w waves of thread blocks over SMs; q work of one block
// (tile_m·tile_n·ceil(K/split_k) for products, its part of the FLOPs for custom
// kernels, 0 for memory-bound ones) over one SM's share of the peak; g/S blocks an
// SM. `blocks` 0 means unknown: the grid then follows from the tile. nullopt when
// neither grid nor tile is known.
std::optional<std::array<double, 5>> WaveRegressors(const Kernel& kernel, const Machine<double>& machine, Tile tile,
                                                    int resident_blocks);

// Latency in µs by a fitted configuration; nullopt as above.
std::optional<double> WaveLatencyUs(const Kernel& kernel, const Machine<double>& machine, const KernelConfig& config);

// Of configurations sorted by kernel; nullptr if it is not among them.
const KernelConfig* FindConfig(std::span<const KernelConfig> configs, std::string_view kernel);

// The configuration that the library is likely to choose for a shape, whatever its launch:
// that of least latency·e^selection_ln. nullptr where no configuration has a selection_ln
// and a latency for it.
const KernelConfig* SelectedConfig(const Kernel& kernel, const Machine<double>& machine,
                                   std::span<const KernelConfig> configs);

// Of a custom kernel by its own configuration, in µs: what its launch's residual
// is over. nullopt for other kernels, without a configuration and without a grid.
std::optional<double> CustomLatencyUs(const Kernel& kernel, const Machine<double>& machine,
                                      std::span<const KernelConfig> configs);

}  // namespace gpueta
