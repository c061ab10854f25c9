// vector_kernels.cu as PTX, put into the program by the assembler.
#include "calibration/backends/cuda/ops/vector_library.h"

#ifdef GPUETA_VECTOR_KERNELS_PTX
asm(R"(
  .section .rodata
  .global gpueta_vector_kernels_ptx
  .global gpueta_vector_kernels_ptx_end
gpueta_vector_kernels_ptx:
  .incbin ")" GPUETA_VECTOR_KERNELS_PTX R"("
gpueta_vector_kernels_ptx_end:
  .text
)");
extern "C" const char gpueta_vector_kernels_ptx[];
extern "C" const char gpueta_vector_kernels_ptx_end[];
#endif

namespace gpueta {

std::string_view VectorKernelsPtx() {
#ifdef GPUETA_VECTOR_KERNELS_PTX
  return {gpueta_vector_kernels_ptx,
          static_cast<std::size_t>(gpueta_vector_kernels_ptx_end - gpueta_vector_kernels_ptx)};
#else
  return {};
#endif
}

}  // namespace gpueta
