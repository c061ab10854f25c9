#include "calibration/backends/cuda/device/microbenchmarks.h"

#include <algorithm>
#include <random>
#include <utility>

#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/cuda/driver/kernel_module.h"
#include "calibration/backends/cuda/events.h"
#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/ops/micro_kernels.h"
#include "calibration/backends/cuda/timing/watchdog.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr int kRuns = 5;
// Some milliseconds on any device: what starting a kernel takes does not count.
constexpr int kFmaIterations = 4'000;
constexpr int kMmaIterations = 8'000;
constexpr int kChaseSteps = 1 << 16;
// Of a cache whose size the driver does not tell.
constexpr std::size_t kTypicalL2Bytes = std::size_t{64} << 20;
constexpr std::size_t kStreamCaches = 8;  // L2 caches that are streamed through
constexpr std::size_t kLeastStreamBytes = std::size_t{512} << 20;

constexpr std::size_t kSmallestFootprint = std::size_t{16} << 10;
constexpr std::size_t kLargestL1 = std::size_t{256} << 10;
constexpr std::size_t kLineBytes = micro::kLineWords * sizeof(std::uint32_t);

std::size_t L2Or(std::size_t bytes) { return bytes > 0 ? bytes : kTypicalL2Bytes; }

// Products of a matrix instruction's depth.
struct TensorKernel {
  const char* entry;
  DType dtype;
  int depth;
  std::uint32_t ones;  // a register of ones
};
constexpr TensorKernel kTensorKernels[] = {{"mma_fp16", DType::kFp16, 16, 0x3c003c00},
                                           {"mma_bf16", DType::kBf16, 16, 0x3f803f80},
                                           {"mma_tf32", DType::kTf32, 8, 0x3f800000},
                                           {"mma_int8", DType::kInt8, 32, 0x01010101}};

class Bench {
 public:
  Bench(CudaDevice& device, const HostTime& time) : device_(device), time_(time), events_(device) {}
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    if (opened_) device_.DestroyStream(stream_).IgnoreError();
  }

  absl::Status Init() {
    GPUETA_ASSIGN_OR_RETURN(kernels_, KernelModule::Load(device_, MicroKernelsPtx()));
    GPUETA_ASSIGN_OR_RETURN(stream_, device_.CreateStream());
    opened_ = true;
    return events_.Reserve(2);
  }

  absl::Status Arithmetic(Microbenchmarks& result) {
    const struct {
      const char* entry;
      DType dtype;
      int width;  // elements a thread works on side by side
    } kKernels[] = {{"fma_fp32", DType::kFp32, 1}, {"fma_fp64", DType::kFp64, 1}, {"fma_fp16", DType::kFp16, 2}};
    for (const auto& kernel : kKernels) {
      const double flops_a_thread = 2.0 * kernel.width * micro::kFmaChains * micro::kFmaSteps * kFmaIterations;
      GPUETA_ASSIGN_OR_RETURN(result.fma_tflops[kernel.dtype], Tflops(kernels_, kernel.entry, micro::kFmaThreads,
                                                                      flops_a_thread, 0.5F, 1.0F, kFmaIterations));
    }
    if (device_.properties().compute_capability() < 80 || TensorKernelsPtx().empty()) return absl::OkStatus();
    GPUETA_ASSIGN_OR_RETURN(KernelModule tensor, KernelModule::Load(device_, TensorKernelsPtx()));
    for (const TensorKernel& kernel : kTensorKernels) {
      constexpr int kWarp = 32;
      const double flops_a_thread =
          2.0 * micro::kMmaRows * micro::kMmaColumns * kernel.depth * micro::kMmaTiles * kMmaIterations / kWarp;
      GPUETA_ASSIGN_OR_RETURN(
          result.tensor_tflops[kernel.dtype],
          Tflops(tensor, kernel.entry, micro::kMmaThreads, flops_a_thread, kernel.ones, kernel.ones, kMmaIterations));
    }
    return absl::OkStatus();
  }

  absl::Status Streams(Microbenchmarks& result) {
    const std::size_t wanted = std::max(kLeastStreamBytes, kStreamCaches * L2Or(device_.properties().l2_bytes));
    GPUETA_ASSIGN_OR_RETURN(const std::size_t free, device_.FreeMemory());
    const std::size_t bytes = std::min(wanted, free / 4) / 4096 * 4096;
    GPUETA_ASSIGN_OR_RETURN(const DeviceBuffer from, DeviceBuffer::Allocate(device_, bytes));
    GPUETA_ASSIGN_OR_RETURN(const DeviceBuffer to, DeviceBuffer::Allocate(device_, bytes));
    GPUETA_RETURN_IF_ERROR(device_.Fill(from.pointer(), 1, bytes, stream_));
    const auto packs = static_cast<long long>(bytes / 16);
    const auto gb_s = [&](const std::string& entry, double moved) -> absl::StatusOr<double> {
      GPUETA_ASSIGN_OR_RETURN(const std::uint32_t blocks, kernels_.BlocksToFill(entry, micro::kStreamThreads));
      GPUETA_ASSIGN_OR_RETURN(const double us, ShortestUs(entry, [&] {
                                return kernels_.Launch(entry, blocks, micro::kStreamThreads, stream_, to.pointer(),
                                                       from.pointer(), packs);
                              }));
      return moved / us / 1e3;
    };
    GPUETA_ASSIGN_OR_RETURN(result.read_gb_s, gb_s("read", static_cast<double>(bytes)));
    GPUETA_ASSIGN_OR_RETURN(result.copy_gb_s, gb_s("copy", 2 * static_cast<double>(bytes)));
    return absl::OkStatus();
  }

  absl::Status Chases(Microbenchmarks& result) {
    GPUETA_ASSIGN_OR_RETURN(const DeviceBuffer out, DeviceBuffer::Allocate(device_, 256));
    for (const std::size_t footprint : ChaseFootprints(device_.properties().l2_bytes)) {
      const std::vector<std::uint32_t> cycle = ChaseCycle(footprint / kLineBytes, footprint);
      GPUETA_ASSIGN_OR_RETURN(const DeviceBuffer next, DeviceBuffer::Allocate(device_, footprint));
      GPUETA_RETURN_IF_ERROR(device_.CopyToDevice(next.pointer(), std::as_bytes(std::span(cycle))));
      GPUETA_ASSIGN_OR_RETURN(const double us, ShortestUs("chase", [&] {
                                return kernels_.Launch("chase", 1, 1, stream_, out.pointer(), next.pointer(),
                                                       std::uint32_t{0}, kChaseSteps);
                              }));
      result.chase.push_back({.footprint_bytes = footprint, .ns = 1e3 * us / kChaseSteps});
    }
    return absl::OkStatus();
  }

 private:
  // `enqueue` a few times; the first run is not counted.
  template <class Enqueue>
  absl::StatusOr<double> ShortestUs(const std::string& what, const Enqueue& enqueue) {
    double shortest_us = 0;
    for (int run = 0; run <= kRuns; ++run) {
      GPUETA_RETURN_IF_ERROR(device_.Record(events_[0], stream_));
      GPUETA_RETURN_IF_ERROR(enqueue());
      GPUETA_RETURN_IF_ERROR(device_.Record(events_[1], stream_));
      GPUETA_RETURN_IF_ERROR(Await(device_, events_[1], what, time_));
      GPUETA_ASSIGN_OR_RETURN(const double us, events_.ElapsedUs(0));
      if (run == 1 || (run > 1 && us < shortest_us)) shortest_us = us;
    }
    if (shortest_us <= 0) return Internal("{}: took no time", what);
    return shortest_us;
  }

  // Of a kernel that fills the device and writes at most eight bytes a thread.
  template <class... Arguments>
  absl::StatusOr<double> Tflops(KernelModule& module, const std::string& entry, std::uint32_t threads,
                                double flops_a_thread, Arguments... arguments) {
    GPUETA_ASSIGN_OR_RETURN(const std::uint32_t blocks, module.BlocksToFill(entry, threads));
    const double all_threads = static_cast<double>(blocks) * threads;
    GPUETA_ASSIGN_OR_RETURN(const DeviceBuffer out,
                            DeviceBuffer::Allocate(device_, static_cast<std::size_t>(all_threads) * sizeof(double)));
    GPUETA_ASSIGN_OR_RETURN(const double us, ShortestUs(entry, [&] {
                              return module.Launch(entry, blocks, threads, stream_, out.pointer(), arguments...);
                            }));
    return all_threads * flops_a_thread / us / 1e6;
  }

  CudaDevice& device_;
  const HostTime& time_;
  Events events_;
  KernelModule kernels_;
  StreamHandle stream_{};
  bool opened_ = false;
};

}  // namespace

absl::StatusOr<Microbenchmarks> RunMicrobenchmarks(CudaDevice& device, const HostTime& time) {
  if (MicroKernelsPtx().empty()) return absl::UnimplementedError("built without the CUDA toolkit");
  Bench bench(device, time);
  GPUETA_RETURN_IF_ERROR(bench.Init());
  Microbenchmarks result;
  GPUETA_RETURN_IF_ERROR(bench.Arithmetic(result));
  GPUETA_RETURN_IF_ERROR(bench.Streams(result));
  GPUETA_RETURN_IF_ERROR(bench.Chases(result));
  return result;
}

std::map<std::string, double> FiguresOf(const Microbenchmarks& measured, std::size_t l2_bytes) {
  std::map<std::string, double> figures;
  const auto add = [&](const std::string& name, double value) {
    if (value > 0) figures[name] = value;
  };
  for (const auto& [dtype, tflops] : measured.fma_tflops) add(fmt::format("fma_{}_tflops", Name(dtype)), tflops);
  for (const auto& [dtype, tflops] : measured.tensor_tflops) add(fmt::format("mma_{}_tflops", Name(dtype)), tflops);
  add("read_gb_s", measured.read_gb_s);
  add("copy_gb_s", measured.copy_gb_s);
  const CacheLatencies latencies = LatenciesOf(measured.chase, l2_bytes);
  add("l1_latency_ns", latencies.l1_ns);
  add("l2_latency_ns", latencies.l2_ns);
  add("memory_latency_ns", latencies.memory_ns);
  return figures;
}

std::vector<std::size_t> ChaseFootprints(std::size_t l2_bytes) {
  std::vector<std::size_t> footprints = {kSmallestFootprint};
  while (footprints.back() < 4 * L2Or(l2_bytes)) footprints.push_back(4 * footprints.back());
  return footprints;
}

std::vector<std::uint32_t> ChaseCycle(std::size_t lines, std::uint64_t seed) {
  std::vector<std::uint32_t> order(lines);
  for (std::size_t i = 0; i < lines; ++i) order[i] = static_cast<std::uint32_t>(i);
  std::mt19937_64 random(seed);
  for (std::size_t i = lines; i-- > 1;) std::swap(order[i], order[random() % i]);
  std::vector<std::uint32_t> words(lines * micro::kLineWords);
  for (std::size_t i = 0; i < lines; ++i) words[i * micro::kLineWords] = order[i] * micro::kLineWords;
  return words;
}

CacheLatencies LatenciesOf(std::span<const ChaseLatency> chase, std::size_t l2_bytes) {
  CacheLatencies latencies;
  for (const ChaseLatency& at : chase) {
    if (at.footprint_bytes <= kSmallestFootprint) latencies.l1_ns = at.ns;
    if (at.footprint_bytes > kLargestL1 && at.footprint_bytes <= L2Or(l2_bytes) / 4) latencies.l2_ns = at.ns;
    if (at.footprint_bytes >= 4 * L2Or(l2_bytes)) latencies.memory_ns = at.ns;
  }
  return latencies;
}

}  // namespace gpueta
