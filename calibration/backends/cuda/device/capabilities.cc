#include "calibration/backends/cuda/device/capabilities.h"

#include <algorithm>

#include "calibration/backends/measure.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Peaks need few samples, and there are many of them to take.
constexpr TimingPolicy kQuick = {.warm_up_us = 20'000,
                                 .sample_us = 2'000,
                                 .relative_error = 0.01,
                                 .min_samples = 5,
                                 .max_samples = 50,
                                 .min_time_us = 20'000,
                                 .time_budget_us = 200'000};

// Full waves of large tiles on any device up to several hundred SMs; some
// libraries prefer one of them by a few per cent.
constexpr std::int64_t kSides[] = {4'096, 6'144, 8'192};
// Rows of the copy, of 4096 floats: 0.5 and 1 GB, 8 times the largest L2 cache.
constexpr std::int64_t kCopyRows[] = {1 << 15, 1 << 16};

// 0 where it cannot run.
double ShortestUs(Backend& backend, const Kernel& kernel, const MicrosecondClock& clock) {
  if (!backend.Supports(kernel).ok()) return 0;
  const absl::StatusOr<MeasuredKernel> measured = MeasureKernel(backend, kernel, kQuick, clock);
  return measured.ok() ? measured->measurement.latency_us : 0;
}

// An unknown cell.
void Fill(double& cell, double value) {
  if (cell <= 0) cell = value;
}
void FillRate(double& cell, const std::map<DType, double>& rates, DType dtype) {
  if (const auto at = rates.find(dtype); at != rates.end()) Fill(cell, at->second);
}
void FillTensorRates(DeviceSpec& spec, const std::map<DType, double>& rates) {
  FillRate(spec.tf32_tensor_tflops, rates, DType::kTf32);
  FillRate(spec.fp16_tensor_tflops, rates, DType::kFp16);
  FillRate(spec.bf16_tensor_tflops, rates, DType::kBf16);
  FillRate(spec.int8_tensor_tops, rates, DType::kInt8);
}

}  // namespace

absl::StatusOr<Capabilities> MeasureCapabilities(Backend& backend, const MicrosecondClock& clock) {
  Capabilities capabilities;
  for (DType dtype : kAllDTypes) {
    for (std::int64_t side : kSides) {
      const Kernel product{.dtype = dtype,
                           .work = Gemm{.layer = Gemm::Layer::kLinear, .m = side, .n = side, .k = side}};
      const double us = ShortestUs(backend, product, clock);
      if (us <= 0) continue;
      double& tflops = capabilities.tflops[dtype];
      tflops = std::max(tflops, static_cast<double>(CountsOf(product).flops.value()) / us / 1e6);
    }
  }
  for (std::int64_t rows : kCopyRows) {
    const Kernel copy{.dtype = DType::kFp32, .work = Vector{.op = "copy", .rows = rows, .cols = 4'096}};
    const double us = ShortestUs(backend, copy, clock);
    if (us <= 0) continue;
    const double gb_s = static_cast<double>(CountsOf(copy).bytes().value()) / us / 1e3;
    capabilities.bandwidth_gb_s = std::max(capabilities.bandwidth_gb_s, gb_s);
  }
  if (!capabilities.tflops.contains(DType::kFp32) && capabilities.bandwidth_gb_s <= 0) {
    return FailedPrecondition("neither products nor copies could be measured on {}", backend.slug());
  }
  return capabilities;
}

DeviceSpec WithCapabilities(DeviceSpec spec, const Capabilities& measured) {
  FillRate(spec.fp64_tflops, measured.tflops, DType::kFp64);
  FillRate(spec.fp32_tflops, measured.tflops, DType::kFp32);
  FillTensorRates(spec, measured.tflops);
  FillRate(spec.fp8_tensor_tflops, measured.tflops, DType::kFp8);
  Fill(spec.mem_bandwidth_gb_s, measured.bandwidth_gb_s);
  return spec;
}

DeviceSpec WithMicrobenchmarks(DeviceSpec spec, const Microbenchmarks& measured) {
  FillRate(spec.fp64_tflops, measured.fma_tflops, DType::kFp64);
  FillRate(spec.fp32_tflops, measured.fma_tflops, DType::kFp32);
  FillRate(spec.fp16_vector_tflops, measured.fma_tflops, DType::kFp16);
  FillTensorRates(spec, measured.tensor_tflops);
  Fill(spec.mem_bandwidth_gb_s, measured.copy_gb_s);
  return spec;
}

}  // namespace gpueta
