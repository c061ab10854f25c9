// A simulated GPU: the laws by which it takes its time. For tests of everything
// above the driver interface. It computes nothing, and no real device behaves so
// simply.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibration/backends/cuda/driver/card.h"
#include "calibration/backends/cuda/driver/cuda_types.h"
#include "core/ops/dtype.h"

namespace gpueta {

// A stretch of time in which the card is held back.
struct SimulatedStretch {
  double begin_us = 0;
  double end_us = 0;
  double clock_share = 1;    // of the SM clock
  std::uint32_t limits = 0;  // of ClockLimit: what the card says; 0: nothing
};

// What tests know and calibration has to find out.
struct SimulatedGpu {
  DeviceProperties properties = {.name = "Simulated GPU",
                                 .uuid = "GPU-00000000-0000-0000-0000-000000000000",
                                 .pci_bus_id = "0000:01:00.0",
                                 .compute_major = 8,
                                 .compute_minor = 0,
                                 .sm_count = 72,
                                 .memory_bytes = std::size_t{24} << 30,
                                 .l2_bytes = std::size_t{32} << 20,
                                 .persisting_l2_bytes = std::size_t{24} << 20,
                                 .sm_clock_mhz = 1500,
                                 .memory_clock_mhz = 1200,
                                 .memory_bus_bits = 3072,
                                 .threads_per_sm = 2048,
                                 .blocks_per_sm = 32,
                                 .shared_per_sm_bytes = 164 << 10,
                                 .shared_per_block_bytes = 163 << 10,
                                 .registers_per_sm = 65536,
                                 .cooperative_launch = true,
                                 .driver_version = 13000};
  CardInfo card = {.uuid = "GPU-00000000-0000-0000-0000-000000000000",
                   .name = "Simulated GPU",
                   .driver_version = "simulated",
                   .max_sm_clock_mhz = 1500,
                   .max_memory_clock_mhz = 1200,
                   .power_limit_w = 300,
                   .default_power_limit_w = 300,
                   .min_power_limit_w = 100,
                   .max_power_limit_w = 300};

  // TFLOPS of all SMs when they do nothing but compute, at the full clock. A type
  // that is not here runs at the rate of fp32.
  std::map<DType, double> tflops = {{DType::kFp32, 14}, {DType::kTf32, 56}, {DType::kFp16, 110}, {DType::kBf16, 110}};
  double bandwidth_gb_s = 850;  // at the highest memory clock, below in proportion
  // Memory clocks that can be locked, MHz, the highest first; below kFreeMemoryMhz the
  // SMs cannot run at all their clocks.
  std::vector<double> memory_clocks_mhz = {1200, 900, 600, 400};
  static constexpr double kFreeMemoryMhz = 500;
  bool memory_lock_allowed = true;  // and its reset
  bool sm_lock_allowed = true;
  double contended_share = 0.6;  // of it, taken by copying on other SMs all the time

  double host_issue_us = 2.5;    // host time of one launch
  double launch_latency_us = 4;  // until a kernel starts on an idle stream
  double graph_launch_us = 6;    // host time of starting a graph
  double graph_gap_us = 0.9;     // between two kernels of a graph
  double start_us = 2.2;         // of every kernel: start and drain
  double wave_us = 0.8;          // of every wave of blocks: what is not overlapped

  double noise = 0;              // standard deviation of ln(time) from run to run
  double placement_noise = 0;    // the same of a prepared kernel as a whole, e.g. where its memory lies
  double spike_probability = 0;  // that something else runs meanwhile
  double spike_us = 0;

  std::vector<SimulatedStretch> stretches;
  std::string hangs;                // kernels whose name holds this never end; empty: none
  std::vector<CardProcess> others;  // other processes with a context on the card
  double others_busy = 0;           // what they make of CardState::busy
  std::uint64_t seed = 1;
};

// What a kernel asks of the device.
struct SimulatedWork {
  std::string name;
  LaunchGeometry geometry;
  int resident_blocks = 1;  // an SM holds at once
  double block_flops = 0;   // of one block
  double efficiency = 1;    // of the peak, when the device is full of such blocks
  DType dtype = DType::kFp32;
  double bytes = 0;             // to and from memory
  double placement_factor = 1;  // of the time: exp of placement noise
};

// start + waves·wave + waves·(time of a full wave at efficiency·peak) + bytes over
// bandwidth; without noise, host time and gaps. At a lower clock everything but the
// bytes takes longer.
double SimulatedDurationUs(const SimulatedGpu& gpu, const SimulatedWork& work, double clock_share = 1);

}  // namespace gpueta
