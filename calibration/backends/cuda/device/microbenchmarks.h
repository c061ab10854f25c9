// What the parts of a device do at most, each by kernels that ask for nothing else
// (micro_kernels.cu, tensor_kernels.cu).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/timing.h"
#include "core/ops/dtype.h"

namespace gpueta {

// Of one load after the other within so many bytes, each visit of a 128-byte line of a
// random cycle over all of them.
struct ChaseLatency {
  std::size_t footprint_bytes = 0;
  double ns = 0;
};

struct Microbenchmarks {
  std::map<DType, double> fma_tflops;     // by multiply-adds of the SMs' ordinary units
  std::map<DType, double> tensor_tflops;  // by warp-level matrix instructions; TOPS of int8
  double read_gb_s = 0;                   // of memory far larger than the L2 cache
  double copy_gb_s = 0;                   // read and written together
  std::vector<ChaseLatency> chase;        // by growing footprint
};

// A second or so. The best of a few runs each. Without tensor cores of compute capability
// 8.0 or in builds without their kernels tensor_tflops is empty. Errors as CudaDevice, with
// the kernel's name; DEADLINE_EXCEEDED for a kernel that hangs. The device must be the
// calling thread's.
absl::StatusOr<Microbenchmarks> RunMicrobenchmarks(CudaDevice& device, const HostTime& time);

// Names with their unit, for people: "fma_fp32_tflops", "l2_latency_ns"; what is unknown is
// left out.
std::map<std::string, double> FiguresOf(const Microbenchmarks& measured, std::size_t l2_bytes);

// The rest is for tests.

// From 16 KiB by fours to at least four times the cache.
std::vector<std::size_t> ChaseFootprints(std::size_t l2_bytes);

// Words where `at` every kLineWords-th word names the next one to visit: one random cycle
// (Sattolo 1986) over `lines` lines, the same for a seed.
std::vector<std::uint32_t> ChaseCycle(std::size_t lines, std::uint64_t seed);

// Where each level is well inside: L1 at the smallest footprint, L2 at the largest of at
// most a quarter of it (and past any L1), memory at the largest. 0 where there is none.
struct CacheLatencies {
  double l1_ns = 0;
  double l2_ns = 0;
  double memory_ns = 0;
};
CacheLatencies LatenciesOf(std::span<const ChaseLatency> chase, std::size_t l2_bytes);

}  // namespace gpueta
