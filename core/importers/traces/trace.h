// What a profiler recorded: calls of framework operators on the host, kernels
// on the device, and which launched which. The same for all profilers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/device/card_name.h"
#include "core/ops/kernel.h"

namespace gpueta {

// An argument of an operator: dims of a tensor, of several in a list; none for
// numbers, and for tensors of no dims.
struct TraceArgument {
  std::vector<std::vector<std::int64_t>> tensors;
  std::string type;      // "float", "c10::BFloat16", "ScalarList", "TensorList"; empty where not recorded
  std::string concrete;  // the value of a number or list of numbers, "[2, 2]"; empty where not recorded
};

// Calls of an operator with equal arguments. Arguments are kept only of
// operators that aten_ops.h knows; of others the bytes of their tensors.
struct OpSignature {
  std::string name;  // "aten::addmm"
  std::vector<TraceArgument> arguments;
  std::int64_t tensor_bytes = 0;  // of all tensors among the arguments
};

inline constexpr std::uint32_t kNoThread = UINT32_MAX;

struct OpCall {
  double start_us = 0;
  double duration_us = 0;
  std::int64_t external_id = 0;  // as kernels refer to it; 0: none
  std::uint32_t signature = 0;
  std::uint32_t thread = 0;
};

// A kernel, copy or fill on the device.
struct DeviceKernel {
  double start_us = 0;
  double duration_us = 0;
  double launch_us = 0;                     // when the host launched it, on `launch_thread`
  std::uint32_t launch_thread = kNoThread;  // kNoThread: not known
  std::uint32_t name = 0;                   // in Trace::kernel_names
  std::int64_t external_id = 0;             // of the call that launched it; 0: not known
  std::int64_t stream = 0;                  // and device: what runs in order
  std::int64_t bytes = 0;                   // of copies and fills
  std::int64_t grid_x = 0, grid_y = 0, grid_z = 0, block_x = 0;
};

struct Trace {
  NamedCard device;  // the first
  std::vector<OpSignature> signatures;
  std::vector<OpCall> calls;  // in the file's order
  std::vector<std::string> kernel_names;
  std::vector<DeviceKernel> kernels;
  std::map<std::string, std::int64_t> call_counts;  // by operator name
  std::int64_t steps = 0;                           // marked by the profiler; 0: none
};

// Times beyond this (some thousand years) are no times.
inline constexpr double kLargestTimeUs = 1e17;

// Calls and kernels above this are refused: at 32 to 100 bytes each they
// would not fit into memory beside what is made of them.
inline constexpr std::size_t kMaxTraceEvents = std::size_t{1} << 23;

}  // namespace gpueta
