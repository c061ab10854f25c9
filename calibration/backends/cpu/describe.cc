#include "calibration/backends/cpu/describe.h"

#include <algorithm>
#include <functional>

#include "calibration/backends/cpu/buffers.h"
#include "calibration/backends/cpu/loops.h"
#include "calibration/backends/cpu/parallel.h"
#include "calibration/backends/timing.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Long enough that on a busy machine some run is undisturbed.
constexpr double kSearchUs = 600'000;
constexpr int kMinRuns = 3;

// Enough work for a hundred cores, 0.2 s on one.
constexpr std::int64_t kPeakDim = 2'048;

// Bytes that the triad passes over, in last-level caches; the least in bytes.
constexpr std::size_t kTriadCaches = 4;
constexpr std::size_t kLeastTriadBytes = std::size_t{96} << 20;

double ShortestUs(const std::function<void()>& run) {
  const double start = SteadyMicroseconds();
  run();  // warms up
  double shortest = std::numeric_limits<double>::max();
  for (int runs = 0; runs < kMinRuns || SteadyMicroseconds() - start < kSearchUs; ++runs) {
    const double begin = SteadyMicroseconds();
    run();
    shortest = std::min(shortest, SteadyMicroseconds() - begin);
  }
  return shortest;
}

absl::StatusOr<double> MeasurePeakTflops(DType dtype, const OneDnn& onednn) {
  if (!IsNativeOnCpu(dtype)) return 0.0;
  const Kernel product{
      .dtype = dtype,
      .work = Gemm{.layer = Gemm::Layer::kLinear, .batch = 1, .m = kPeakDim, .n = kPeakDim, .k = kPeakDim}};
  GPUETA_ASSIGN_OR_RETURN(const CpuOperator op, MakeCpuOperator(product, onednn));
  constexpr double kScale = 0.05;
  GPUETA_ASSIGN_OR_RETURN(const Buffer input, Buffer::Random(op.sizes.inputs[0], dtype, kScale, "peak rates"));
  GPUETA_ASSIGN_OR_RETURN(const Buffer weights, Buffer::Random(op.sizes.weights, dtype, kScale, "peak rates"));
  GPUETA_ASSIGN_OR_RETURN(const Buffer output, Buffer::Allocate(op.sizes.output, "peak rates"));
  Buffers buffers{.weights = weights.data(), .output = output.data()};
  buffers.inputs[0] = input.data();
  const auto flops = static_cast<double>(CountsOf(product).flops.value());
  return flops / ShortestUs(op.bind(buffers)) / 1e6;
}

absl::StatusOr<double> MeasureBandwidthGbS(std::size_t cache_bytes) {
  const std::size_t array_bytes = std::max(kTriadCaches * cache_bytes, kLeastTriadBytes) / 3;
  GPUETA_ASSIGN_OR_RETURN(const Buffer a, Buffer::Allocate(array_bytes, "bandwidth"));
  GPUETA_ASSIGN_OR_RETURN(const Buffer b, Buffer::Allocate(array_bytes, "bandwidth"));
  GPUETA_ASSIGN_OR_RETURN(const Buffer y, Buffer::Allocate(array_bytes, "bandwidth"));
  const auto* from_a = reinterpret_cast<const float*>(a.data());
  const auto* from_b = reinterpret_cast<const float*>(b.data());
  auto* to = reinterpret_cast<float*>(y.data());
  const double shortest_us = ShortestUs([=] {
    ParallelParts(array_bytes / sizeof(float), true, [=](std::size_t begin, std::size_t end) {
      Triad(from_a + begin, from_b + begin, 2, to + begin, end - begin);
    });
  });
  return 3.0 * static_cast<double>(array_bytes) / shortest_us / 1e3;
}

}  // namespace

absl::StatusOr<DeviceSpec> DescribeCpu(const CpuInfo& info, const std::string& slug, int threads,
                                       const OneDnn& onednn) {
  DeviceSpec spec;
  spec.slug = slug;
  spec.name = info.model;
  spec.architecture = "CPU";
  spec.sm_count = threads;
  spec.boost_clock_mhz = info.clock_mhz;
  spec.memory_gb = static_cast<double>(info.memory_bytes) / 1e9;
  spec.l2_mb = static_cast<double>(info.last_level_cache_bytes) / static_cast<double>(1 << 20);
  GPUETA_ASSIGN_OR_RETURN(spec.fp32_tflops, MeasurePeakTflops(DType::kFp32, onednn));
  GPUETA_ASSIGN_OR_RETURN(spec.bf16_tensor_tflops, MeasurePeakTflops(DType::kBf16, onednn));
  GPUETA_ASSIGN_OR_RETURN(spec.int8_tensor_tops, MeasurePeakTflops(DType::kInt8, onednn));
  GPUETA_ASSIGN_OR_RETURN(spec.mem_bandwidth_gb_s, MeasureBandwidthGbS(info.last_level_cache_bytes));
  return spec;
}

}  // namespace gpueta
