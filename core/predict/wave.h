// The kernel-aware form: one kernel configuration, its waves explicit
// (PM2Lat; design, section 7).
#pragma once

#include <array>
#include <optional>

#include "core/device/spec.h"
#include "core/ops/kernel.h"
#include "core/ops/launch.h"
#include "core/ops/machine.h"
#include "core/profile/profile.h"

namespace gpueta {

// The regressors of t = a + b·w + c·w·q + d·(g/S)·q + e·bytes/BW, in µs except
// for the constant: w waves of thread blocks over SMs; q work of one block
// (tile_m·tile_n·ceil(K/split_k) for products, 0 for memory-bound kernels) over
// one SM's share of the peak; g/S blocks an SM. `blocks` 0 means unknown: the
// grid then follows from the tile. nullopt when neither grid nor tile is known.
std::optional<std::array<double, 5>> WaveRegressors(const Kernel& kernel, const Machine<double>& machine, Tile tile,
                                                    int resident_blocks);

// Latency in µs by a fitted configuration; nullopt as above.
std::optional<double> WaveLatencyUs(const Kernel& kernel, const Machine<double>& machine, const KernelConfig& config);

}  // namespace gpueta
