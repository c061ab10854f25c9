// Names of kernels as profilers give them.
#pragma once

#include <string>
#include <string_view>

namespace gpueta {

// Without return type, namespaces, template arguments and parameters, as
// Launch::kernel has it: of "void at::native::vectorized_elementwise_kernel<4,
// …>(int, …)" the name "vectorized_elementwise_kernel". Control characters and
// bytes outside ASCII become "?"; long names are cut.
std::string ShortKernelName(std::string_view name);

// The element type that a matrix kernel's name tells, as traces write types:
// "c10::Half" of "ampere_fp16_s16816gemm_…"; empty if it tells none.
std::string TypeInKernelName(std::string_view name);

}  // namespace gpueta
