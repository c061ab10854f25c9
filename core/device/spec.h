// What a data sheet says about a device.
#pragma once

#include <cstdint>
#include <string>

#include "core/ops/dtype.h"

namespace gpueta {

inline constexpr double kBytesPerGib = 1024.0 * 1024 * 1024;

// 0 and empty mean unknown. Tensor rates are dense, with fp32 accumulation.
struct DeviceSpec {
  std::string slug;
  std::string name;
  std::string architecture;  // as in the catalogue, e.g. "Hopper"; "CPU" for CPUs
  std::string segment;       // datacenter, workstation, consumer, mobile
  double compute_capability = 0;
  std::int64_t sm_count = 0;  // cores of a CPU
  double base_clock_mhz = 0;
  double boost_clock_mhz = 0;
  std::string memory_type;
  double mem_bandwidth_gb_s = 0;
  double memory_gb = 0;
  double l2_mb = 0;  // last-level cache of a CPU
  double fp64_tflops = 0;
  double fp32_tflops = 0;
  double tf32_tensor_tflops = 0;
  double fp16_vector_tflops = 0;
  double fp16_tensor_tflops = 0;
  double bf16_tensor_tflops = 0;
  double fp8_tensor_tflops = 0;
  double int8_tensor_tops = 0;
  double tdp_w = 0;
  double nvlink_gb_s = 0;  // both directions together
  double pcie_gb_s = 0;    // one direction

  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

inline bool IsCpu(const DeviceSpec& spec) { return spec.architecture == "CPU"; }

// A copy without unknown cells in what estimates need (sm_count, clocks,
// bandwidth, l2_mb, fp32_tflops): each is inferred from the others or from the
// architecture's typical ratio.
DeviceSpec WithInferredCells(DeviceSpec spec);

// Whether so many bytes go into the device's memory; yes where that is not
// known. Data sheets' GB of memory are GiB.
bool HasRoomFor(const DeviceSpec& spec, std::int64_t bytes);

// Peak rate for kernels of `dtype`, in TFLOPS (TOPS for integers), always > 0:
// the listed one, or inferred (a type without units of its own runs on the
// next wider type).
double PeakTflops(const DeviceSpec& spec, DType dtype);

// That of the tensor cores at `dtype`; 0 for a card without such units.
double TensorTflops(const DeviceSpec& spec, DType dtype);

}  // namespace gpueta
