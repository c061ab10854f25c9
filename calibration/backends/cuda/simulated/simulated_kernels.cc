#include "calibration/backends/cuda/simulated/simulated_kernels.h"

#include <cstring>

#include "calibration/backends/cuda/ops/micro_kernels.h"

namespace gpueta {
namespace {

template <class T>
T At(std::span<void* const> arguments, std::size_t i) {
  T value;
  std::memcpy(&value, arguments[i], sizeof value);
  return value;
}

struct Arithmetic {
  const char* entry;
  DType dtype;
  double flops_a_thread;  // of one iteration
};
constexpr double kFma = 2.0 * micro::kFmaChains * micro::kFmaSteps;
constexpr double kMma = 2.0 * micro::kMmaRows * micro::kMmaColumns * micro::kMmaTiles / 32;
constexpr Arithmetic kArithmetic[] = {{"fma_fp32", DType::kFp32, kFma},      {"fma_fp64", DType::kFp64, kFma},
                                      {"fma_fp16", DType::kFp16, 2 * kFma},  {"mma_fp16", DType::kFp16, 16 * kMma},
                                      {"mma_bf16", DType::kBf16, 16 * kMma}, {"mma_tf32", DType::kTf32, 8 * kMma},
                                      {"mma_int8", DType::kInt8, 32 * kMma}};

}  // namespace

void DescribeMicroKernel(SimulatedWork& work, std::span<void* const> arguments) {
  for (const Arithmetic& kernel : kArithmetic) {
    if (work.name != kernel.entry || arguments.size() != 4) continue;
    work.dtype = kernel.dtype;
    work.block_flops = kernel.flops_a_thread * At<int>(arguments, 3) * static_cast<double>(work.geometry.block.count());
  }
  if ((work.name == "read" || work.name == "copy") && arguments.size() == 3) {
    work.bytes = 16.0 * (work.name == "copy" ? 2 : 1) * static_cast<double>(At<long long>(arguments, 2));
  }
}

}  // namespace gpueta
