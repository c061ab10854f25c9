#include "calibration/backends/cuda/simulated/simulated_gpu.h"

#include <cmath>

namespace gpueta {

double SimulatedDurationUs(const SimulatedGpu& gpu, const SimulatedWork& work, double clock_share) {
  const double slots = static_cast<double>(gpu.properties.sm_count) * work.resident_blocks;
  const double waves = std::ceil(static_cast<double>(work.geometry.grid.count()) / slots);
  const auto rate = gpu.tflops.contains(work.dtype) ? gpu.tflops.at(work.dtype) : gpu.tflops.at(DType::kFp32);
  const double wave_flops_us = work.block_flops * slots / (rate * 1e6 * work.efficiency);
  const double memory_us = work.bytes / (gpu.bandwidth_gb_s * 1e3);
  return (gpu.start_us + waves * (gpu.wave_us + wave_flops_us)) / clock_share + memory_us;
}

}  // namespace gpueta
