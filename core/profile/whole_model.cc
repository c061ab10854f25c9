#include "core/profile/whole_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/device/relatedness.h"
#include "core/profile/transfer.h"

namespace gpueta {
namespace {

// Positions in theta.
enum Param : std::size_t {
  kCuda,                     // by kind of convolution and product
  kTensorShare = kCuda + 7,  // of the tensor cores' peak
  kSmRate,                   // what an SM feeds them, TFLOPS an SM and GHz, by kind
  kSm16 = kSmRate + 6,       // over that of TF32, of 16-bit types
  kMemory,                   // share of the bandwidth, by kind of traffic but gradients, which are as other
  kMemory16 = kMemory + 5,   // over that, of 16-bit types
  kDepthOverhead,
  kKernelFixed,
  kEmulated16,  // rate of 16-bit types without tensor cores
  kIssueProduct,
  kIssueNorm,
  kIssueGradients,
  kIssueTraining,
  kStepFixed,
  kParams
};

// A start and a standard deviation in ln.
constexpr ParamSpec Ln(std::string_view name, double start, double deviation) {
  return {name, start, start - 4 * deviation, start + 4 * deviation};
}

// Starts and deviations are what is known before any whole model was timed:
// Winograd does fewer FLOPs than are counted, depthwise convolutions reach a
// quarter of the peak, passes near the full bandwidth.
constexpr std::array<ParamSpec, kParams> kWholeModelParams = {{
    Ln("cuda 3x3", 0.41, 0.4),
    Ln("cuda 3x3 strided", -0.36, 0.4),
    Ln("cuda 1x1", -0.11, 0.4),
    Ln("cuda large", -0.60, 0.4),
    Ln("cuda grouped", -1.05, 0.4),
    Ln("cuda depthwise", -1.31, 0.4),
    Ln("cuda product", -0.69, 0.4),
    Ln("tensor peak", -0.20, 0.15),
    Ln("sm 3x3", 0.18, 0.5),
    Ln("sm 3x3 strided", 0.18, 0.5),
    Ln("sm 1x1", -0.92, 0.5),
    Ln("sm large", -1.20, 0.5),
    Ln("sm grouped", -2.30, 0.5),
    Ln("sm product", -0.69, 0.5),
    Ln("sm 16-bit", 0.34, 0.3),
    Ln("memory product", -0.36, 0.25),
    Ln("memory depthwise", -0.51, 0.25),
    Ln("memory norm", -0.22, 0.25),
    Ln("memory elementwise", 0.0, 0.25),
    Ln("memory other", -0.36, 0.25),
    Ln("memory 16-bit", -0.45, 0.3),
    Ln("depth overhead", 2.89, 0.5),
    Ln("kernel fixed us", 0.74, 0.3),
    Ln("emulated 16-bit", -0.1, 0.3),
    Ln("issue product", 0.92, 0.4),
    Ln("issue norm", 1.10, 0.4),
    Ln("issue gradients", 1.10, 0.5),
    Ln("issue training", 0, 0.3),
    Ln("step fixed us", 4.66, 0.5),
}};

// A typical machine: µs to issue a plain kernel, µs to copy a byte of input.
constexpr std::array<ParamSpec, WholeModel::kDepartures> kDepartureParams = {{
    Ln("compute", 0, 0.25),
    Ln("memory", 0, 0.25),
    Ln("launch", 2.2, 0.5),
    Ln("copy", -8.3, 0.6),
}};

constexpr double kTypes = 4;        // power of CUDA and tensor cores together
constexpr double kRoofline = 2.5;   // of compute and memory
constexpr double kHostPower = 2.3;  // of device and host

// Consumer dies from 8.6 on count fp32 lanes that integers share. What
// frameworks reach of that peak is less by this; not fitted: no whole model was
// timed on such a card in fp32.
double SharedLanes(const DeviceSpec& spec) {
  const double capability = spec.compute_capability;
  const bool shared = (capability > 8.55 && capability < 8.95) || capability > 11.95;
  return shared ? 0.65 : 1;
}

bool Is16Bit(DType dtype) { return BitsOf(dtype).activation <= 16; }

RunKernel::Kind KindOf(const Conv2d& conv) {
  using enum RunKernel::Kind;
  if (conv.groups > 1) return conv.groups == conv.in_channels ? kDepthwise : kConvGrouped;
  if (conv.kernel_h * conv.kernel_w == 1) return kConv1x1;
  if (conv.kernel_h == 3 && conv.kernel_w == 3) return conv.stride_h > 1 ? kConv3x3Strided : kConv3x3;
  return kConvLarge;
}

RunKernel::Traffic TrafficOf(const Vector& vector) {
  using enum RunKernel::Traffic;
  const std::string_view op = vector.op;
  if (op == "batchnorm" || op == "layernorm" || op == "rmsnorm" || op == "groupnorm") return kNorm;
  if (op == "clear_gradient" || op == "accumulate_gradient") return kGradients;
  if (op == "pool" || op == "copy" || op == "reduce" || op == "resize" || op == "embedding" || op == "cumsum")
    return kRest;
  return kElementwise;
}

double FromLn(std::span<const double> theta, std::size_t at) { return std::exp(theta[at]); }

}  // namespace

std::span<const ParamSpec> WholeModelParams() { return kWholeModelParams; }
std::span<const ParamSpec> DepartureParams() { return kDepartureParams; }

RunKernel RunKernelOf(const Kernel& kernel) {
  using enum RunKernel::Kind;
  const Counts counts = CountsOf(kernel);
  RunKernel out;
  out.dtype = kernel.dtype;
  out.flops = static_cast<double>(counts.flops.value());
  out.bytes = static_cast<double>(counts.bytes().value());
  out.traffic = RunKernel::Traffic::kProduct;
  if (const auto* conv = std::get_if<Conv2d>(&kernel.work); conv != nullptr) {
    out.kind = KindOf(*conv);
    if (out.kind == kDepthwise) out.traffic = RunKernel::Traffic::kDepthwise;
    out.depth = static_cast<double>(conv->in_channels / conv->groups * conv->kernel_h * conv->kernel_w);
  } else if (const auto* gemm = std::get_if<Gemm>(&kernel.work); gemm != nullptr) {
    out.kind = kProduct;
    out.depth = static_cast<double>(gemm->k);
  } else if (const auto* vector = std::get_if<Vector>(&kernel.work); vector != nullptr) {
    out.traffic = TrafficOf(*vector);
  } else {
    constexpr double kTypicalDepth = 128;
    out.kind = kProduct;
    out.depth = kTypicalDepth;
  }
  out.depth = std::max(out.depth, 1.0);
  return out;
}

RunForm::RunForm(const DeviceSpec& sheet, DType dtype, std::span<const double> theta,
                 std::span<const double> departure) {
  const DeviceSpec spec = WithInferredCells(sheet);
  const double slower = std::exp(departure[WholeModel::kCompute]);
  const double tensor = TensorTflops(spec, dtype) * 1e6;  // FLOP/µs
  const DType vector_type = dtype == DType::kFp64 ? DType::kFp64 : DType::kFp32;
  double cuda = PeakTflops(spec, vector_type) * 1e6 * SustainedShare(spec, vector_type) * SharedLanes(spec);
  if (Is16Bit(dtype) && !(tensor > 0)) cuda *= FromLn(theta, kEmulated16);
  for (std::size_t kind = 0; kind + 1 < kKinds; ++kind) {
    double rate = cuda * FromLn(theta, kCuda + kind);
    const bool depthwise = kind == static_cast<std::size_t>(RunKernel::Kind::kDepthwise);
    if (tensor > 0 && !depthwise) {
      const std::size_t place = kind > static_cast<std::size_t>(RunKernel::Kind::kDepthwise) ? kind - 1 : kind;
      const double fed = static_cast<double>(spec.sm_count) * spec.boost_clock_mhz * 1e-3 * 1e6 *
                         FromLn(theta, kSmRate + place) * (Is16Bit(dtype) ? FromLn(theta, kSm16) : 1);
      const double peak = tensor * SustainedShare(spec, dtype) * FromLn(theta, kTensorShare);
      rate = std::pow(std::pow(rate, kTypes) + std::pow(1 / (1 / peak + 1 / fed), kTypes), 1 / kTypes);
    }
    us_per_flop_[kind] = slower / rate;
  }
  for (std::size_t traffic = 0; traffic < kTraffics; ++traffic) {
    const std::size_t place = std::min(traffic, static_cast<std::size_t>(RunKernel::Traffic::kRest));
    us_per_byte_[traffic] =
        std::exp(departure[WholeModel::kMemory]) / (spec.mem_bandwidth_gb_s * 1e3 * FromLn(theta, kMemory + place) *
                                                    (Is16Bit(dtype) ? FromLn(theta, kMemory16) : 1));
  }
  depth_overhead_ = FromLn(theta, kDepthOverhead);
  fixed_us_ = FromLn(theta, kKernelFixed);
}

RunTime RunForm::Time(const RunKernel& kernel) const {
  const double compute =
      kernel.kind == RunKernel::Kind::kPass
          ? 0
          : kernel.flops * us_per_flop_[static_cast<std::size_t>(kernel.kind)] * (1 + depth_overhead_ / kernel.depth);
  const double memory = kernel.bytes * us_per_byte_[static_cast<std::size_t>(kernel.traffic)];
  const double larger = std::max(compute, memory);
  RunTime out;
  if (!(larger > 0)) {
    out.us = fixed_us_;
    return out;
  }
  const double compute_power = std::pow(compute / larger, kRoofline);
  const double memory_power = std::pow(memory / larger, kRoofline);
  const double body = larger * std::pow(compute_power + memory_power, 1 / kRoofline);
  out.us = body + fixed_us_;
  out.compute_share = body / out.us * compute_power / (compute_power + memory_power);
  out.memory_share = body / out.us - out.compute_share;
  return out;
}

double IssueWeight(const RunKernel& kernel, std::span<const double> theta, bool training) {
  using enum RunKernel::Traffic;
  if (kernel.traffic == kGradients) return FromLn(theta, kIssueGradients);
  double weight = training ? FromLn(theta, kIssueTraining) : 1;
  if (kernel.kind != RunKernel::Kind::kPass) weight *= FromLn(theta, kIssueProduct);
  if (kernel.traffic == kNorm) weight *= FromLn(theta, kIssueNorm);
  return weight;
}

double StepFixedUs(std::span<const double> theta) { return FromLn(theta, kStepFixed); }

double OverlapUs(double device_us, double host_us) {
  const double larger = std::max(device_us, host_us);
  if (!(larger > 0)) return 0;
  return larger *
         std::pow(std::pow(device_us / larger, kHostPower) + std::pow(host_us / larger, kHostPower), 1 / kHostPower);
}

WholeModel InHost(WholeModel learnt, const HostRates& host) {
  const auto know = [&learnt](WholeModel::Way way, double ln) {
    learnt.departure[way] = ln;
    for (std::size_t other = 0; other < WholeModel::kDepartures; ++other)
      learnt.covariance[way][other] = learnt.covariance[other][way] = 0;
  };
  constexpr double kBytesPerUs = 1e3;  // at 1 GB/s
  if (host.issue_us > 0) know(WholeModel::kLaunch, std::log(host.issue_us));
  if (host.copy_gb_s > 0) know(WholeModel::kCopy, -std::log(host.copy_gb_s * kBytesPerUs));
  return learnt;
}

LearntMachine::LearntMachine(const DeviceSpec& spec, WholeModel learnt) : learnt_(std::move(learnt)) {
  for (const DType dtype : kAllDTypes) forms_.emplace_back(spec, dtype, learnt_.theta, learnt_.departure);
  launch_us_ = std::exp(learnt_.departure[WholeModel::kLaunch]);
  us_per_input_byte_ = std::exp(learnt_.departure[WholeModel::kCopy]);
}

WholeModel WholeModelFor(const WholeModel& pooled, std::span<const DeviceSpec> pool, const DeviceSpec& device,
                         std::span<const std::string> without) {
  WholeModel out = pooled;
  out.machines.clear();
  // A device may have been measured on several machines: one voice a device.
  struct Known {
    const DeviceSpec* spec = nullptr;
    WholeModel::Departure sum{};
    double machines = 0;
  };
  std::map<std::string, Known> by_device;
  for (const WholeModel::Machine& machine : pooled.machines) {
    if (std::find(without.begin(), without.end(), machine.device) != without.end()) continue;
    const auto spec =
        std::find_if(pool.begin(), pool.end(), [&](const DeviceSpec& one) { return one.slug == machine.device; });
    if (spec == pool.end()) continue;
    Known& known = by_device[machine.device];
    known.spec = &*spec;
    for (std::size_t v = 0; v < WholeModel::kDepartures; ++v) known.sum[v] += machine.departure[v];
    ++known.machines;
  }
  std::vector<const DeviceSpec*> specs;
  std::vector<WholeModel::Departure> departures;
  for (const auto& [slug, known] : by_device) {
    specs.push_back(known.spec);
    departures.push_back(known.sum);
    for (double& value : departures.back()) value /= known.machines;
  }
  const WeightedRelatives relatives = WeighRelatives(specs, device, DType::kFp32);
  for (std::size_t v = 0; v < WholeModel::kDepartures; ++v) {
    const ParamSpec& param = kDepartureParams[v];
    const double deviation = (param.high - param.start) / 4;
    double typical = specs.empty() ? param.start : 0;
    for (const WholeModel::Departure& departure : departures)
      typical += departure[v] / static_cast<double>(departures.size());
    out.departure[v] = typical;
    // What a host is like does not depend on the card in it.
    const bool of_host = v == WholeModel::kLaunch || v == WholeModel::kCopy;
    for (std::size_t i = 0; i < specs.size() && !of_host; ++i)
      out.departure[v] += relatives.weights[i] * (departures[i][v] - typical);
    out.covariance[v] = {};
    out.covariance[v][v] = deviation * deviation * (of_host || specs.empty() ? 1 : relatives.variance);
  }
  return out;
}

}  // namespace gpueta
