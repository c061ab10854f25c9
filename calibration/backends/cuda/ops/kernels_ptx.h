// Our own CUDA kernels as PTX text, part of the program; empty in builds without the
// CUDA toolkit.
#pragma once

#include <string_view>

namespace gpueta {

std::string_view VectorKernelsPtx();  // vector_kernels.cu
std::string_view MicroKernelsPtx();   // micro_kernels.cu
std::string_view MoeKernelsPtx();     // moe/moe_kernels.cu
std::string_view MoeFp8KernelsPtx();  // moe/moe_fp8_kernels.cu: for compute capability 8.9 and newer
std::string_view TensorKernelsPtx();  // tensor_kernels.cu: for compute capability 8.0 and newer

}  // namespace gpueta
