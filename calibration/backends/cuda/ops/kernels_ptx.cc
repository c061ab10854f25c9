#include "calibration/backends/cuda/ops/kernels_ptx.h"

// Files of PTX are put into the program by the assembler; the build says where they
// are.
#ifdef GPUETA_VECTOR_KERNELS_PTX
#define GPUETA_EMBED(name, file)                                                                           \
  asm("  .section .rodata\n"                                                                               \
      "  .global gpueta_" #name                                                                            \
      "_ptx\n"                                                                                             \
      "  .global gpueta_" #name                                                                            \
      "_ptx_end\n"                                                                                         \
      "gpueta_" #name                                                                                      \
      "_ptx:\n"                                                                                            \
      "  .incbin \"" file                                                                                  \
      "\"\n"                                                                                               \
      "gpueta_" #name                                                                                      \
      "_ptx_end:\n"                                                                                        \
      "  .text\n");                                                                                        \
  extern "C" const char gpueta_##name##_ptx[];                                                             \
  extern "C" const char gpueta_##name##_ptx_end[];                                                         \
  static std::string_view name() {                                                                         \
    return {gpueta_##name##_ptx, static_cast<std::size_t>(gpueta_##name##_ptx_end - gpueta_##name##_ptx)}; \
  }
GPUETA_EMBED(vector_kernels, GPUETA_VECTOR_KERNELS_PTX)
GPUETA_EMBED(micro_kernels, GPUETA_MICRO_KERNELS_PTX)
GPUETA_EMBED(moe_kernels, GPUETA_MOE_KERNELS_PTX)
GPUETA_EMBED(moe_fp8_kernels, GPUETA_MOE_FP8_KERNELS_PTX)
GPUETA_EMBED(tensor_kernels, GPUETA_TENSOR_KERNELS_PTX)
#else
static std::string_view vector_kernels() { return {}; }
static std::string_view micro_kernels() { return {}; }
static std::string_view moe_kernels() { return {}; }
static std::string_view moe_fp8_kernels() { return {}; }
static std::string_view tensor_kernels() { return {}; }
#endif

namespace gpueta {

std::string_view VectorKernelsPtx() { return vector_kernels(); }
std::string_view MicroKernelsPtx() { return micro_kernels(); }
std::string_view MoeKernelsPtx() { return moe_kernels(); }
std::string_view MoeFp8KernelsPtx() { return moe_fp8_kernels(); }
std::string_view TensorKernelsPtx() { return tensor_kernels(); }

}  // namespace gpueta
