#include "calibration/backends/cpu/describe.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "calibration/backends/cpu/buffers.h"
#include "calibration/backends/cpu/loops.h"
#include "calibration/backends/cpu/parallel.h"
#include "calibration/backends/cpu/weight_pool.h"
#include "calibration/backends/timing.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Long enough that on a busy machine some run is undisturbed.
constexpr double kSearchUs = 250'000;
constexpr int kMinRuns = 3;

// What libraries do best, a few milliseconds each: which one comes closest to
// the peak differs with the type and the processor.
std::vector<Work> DemandingWork(int threads) {
  constexpr std::int64_t kRowsAThread = 64;
  return {
      Gemm{.layer = Gemm::Layer::kLinear, .batch = 1, .m = kRowsAThread * threads, .n = 1'024, .k = 1'024},
      Gemm{.layer = Gemm::Layer::kLinear, .batch = 1, .m = 8 * kRowsAThread * threads, .n = 960, .k = 960},
      Conv2d{.batch = threads,
             .in_channels = 256,
             .height = 28,
             .width = 28,
             .out_channels = 256,
             .kernel_h = 3,
             .kernel_w = 3,
             .pad_h = 1,
             .pad_w = 1},
  };
}

constexpr double kTriadSearchUs = 600'000;
constexpr std::size_t kTriadParts = 16;
// One pass in four is faster than the one that counts. The fastest would tell of a
// moment's pause in the traffic of others who always share the bandwidth.
constexpr std::size_t kTriadOneIn = 4;
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

absl::StatusOr<double> MeasureTflops(const Kernel& kernel, const OneDnn& onednn) {
  GPUETA_ASSIGN_OR_RETURN(const CpuOperator op, MakeCpuOperator(kernel, onednn));
  GPUETA_ASSIGN_OR_RETURN(const Buffer input,
                          Buffer::Random(op.sizes.inputs[0], kernel.dtype, kActivationScale, "peak rates"));
  GPUETA_ASSIGN_OR_RETURN(const Buffer weights,
                          Buffer::Random(op.sizes.weights, kernel.dtype, kWeightScale, "peak rates"));
  GPUETA_ASSIGN_OR_RETURN(const Buffer output, Buffer::Allocate(op.sizes.output, "peak rates"));
  Buffers buffers{.weights = weights.data(), .output = output.data()};
  buffers.inputs[0] = input.data();
  const auto flops = static_cast<double>(CountsOf(kernel).flops.value());
  return flops / ShortestUs(op.bind(buffers)) / 1e6;
}

absl::StatusOr<double> MeasurePeakTflops(DType dtype, int threads, const OneDnn& onednn) {
  double peak = 0;
  for (const Work& work : DemandingWork(threads)) {
    const Kernel kernel{.dtype = dtype, .work = work};
    if (!SupportsOnCpu(kernel).ok()) continue;
    GPUETA_ASSIGN_OR_RETURN(const double tflops, MeasureTflops(kernel, onednn));
    peak = std::max(peak, tflops);
  }
  return peak;
}

absl::StatusOr<double> MeasureBandwidthGbS(std::size_t cache_bytes) {
  const std::size_t array_bytes = std::max(kTriadCaches * cache_bytes, kLeastTriadBytes) / 3;
  GPUETA_ASSIGN_OR_RETURN(const Buffer a, Buffer::Allocate(array_bytes, "bandwidth"));
  GPUETA_ASSIGN_OR_RETURN(const Buffer b, Buffer::Allocate(array_bytes, "bandwidth"));
  GPUETA_ASSIGN_OR_RETURN(const Buffer y, Buffer::Allocate(array_bytes, "bandwidth"));
  const auto* from_a = reinterpret_cast<const float*>(a.data());
  const auto* from_b = reinterpret_cast<const float*>(b.data());
  auto* to = reinterpret_cast<float*>(y.data());
  // Each part by itself, as hardly a whole pass is undisturbed on a busy machine.
  const std::size_t part = array_bytes / sizeof(float) / kTriadParts;
  std::vector<std::vector<double>> times_us(kTriadParts);
  const double start_us = SteadyMicroseconds();
  for (int pass = 0; pass < kMinRuns || SteadyMicroseconds() - start_us < kTriadSearchUs; ++pass) {
    for (std::size_t i = 0; i < kTriadParts; ++i) {
      const double begin_us = SteadyMicroseconds();
      ParallelParts(part, true, [=](std::size_t begin, std::size_t end) {
        const std::size_t offset = i * part + begin;
        Triad(from_a + offset, from_b + offset, 2, to + offset, end - begin);
      });
      times_us[i].push_back(SteadyMicroseconds() - begin_us);
    }
  }
  double total_us = 0;
  for (std::vector<double>& times : times_us) {
    const auto fast = times.begin() + static_cast<std::ptrdiff_t>(times.size() / kTriadOneIn);
    std::nth_element(times.begin(), fast, times.end());
    total_us += *fast;
  }
  return 3.0 * sizeof(float) * static_cast<double>(part * kTriadParts) / total_us / 1e3;
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
  GPUETA_ASSIGN_OR_RETURN(spec.fp32_tflops, MeasurePeakTflops(DType::kFp32, threads, onednn));
  GPUETA_ASSIGN_OR_RETURN(spec.bf16_tensor_tflops, MeasurePeakTflops(DType::kBf16, threads, onednn));
  GPUETA_ASSIGN_OR_RETURN(spec.int8_tensor_tops, MeasurePeakTflops(DType::kInt8, threads, onednn));
  GPUETA_ASSIGN_OR_RETURN(spec.mem_bandwidth_gb_s, MeasureBandwidthGbS(info.last_level_cache_bytes));
  return spec;
}

}  // namespace gpueta
