// Products and vector operators on a simulated GPU, as a library chooses and
// launches them: a few tiles, a heuristic of its own that knows nothing of the
// device's hidden parameters.
#pragma once

#include <memory>
#include <span>

#include "calibration/backends/cuda/ops/operation.h"
#include "calibration/backends/cuda/simulated/simulated_driver.h"

namespace gpueta {

// How fast a tile computes, of the peak; hidden from calibration as the device's
// parameters are.
struct SimulatedTile {
  int m = 0;
  int n = 0;
  int resident_blocks = 1;
  double efficiency = 1;
};
inline constexpr SimulatedTile kSimulatedTiles[] = {
    {256, 128, 1, 0.88}, {128, 128, 2, 0.8}, {128, 64, 2, 0.7}, {64, 64, 4, 0.55}};

// `tiles` must outlive the library.
std::unique_ptr<OperatorLibrary> MakeSimulatedLibrary(SimulatedDevice& device,
                                                      std::span<const SimulatedTile> tiles = kSimulatedTiles);

}  // namespace gpueta
