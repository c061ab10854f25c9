// How long a framework takes over a whole model, from the device's data sheet
// and from what times of whole models on other devices taught.
//
// Device time of a kernel of F FLOPs, B bytes and depth k of its reduction:
//   cuda   = e_kind · lanes · sustained · fp32 peak
//   tensor = 1 / (1/(tensor_peak · sustained · tensor peak) + 1/(sm_kind · SMs · clock))
//   rate   = (cuda⁴ + tensor⁴)^¼, of depthwise convolutions cuda alone
//   Tc = F/rate · (1 + depth_overhead/k),  Tm = B/(bandwidth · memory_kind)
//   t  = (Tc^2.5 + Tm^2.5)^(1/2.5) + kernel_fixed_us
// The host issues kernels meanwhile, some at a higher cost; a step begins with
// copying its inputs to the device (core/predict/compose.h puts these together).
// Rates of kinds are pooled over devices; a device departs from them by a
// factor of compute and one of memory, its machine by what a launch and a byte
// of input cost.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/device/spec.h"
#include "core/ops/form.h"
#include "core/ops/kernel.h"
#include "core/profile/profile.h"

namespace gpueta {

// Logarithms of what the formulas above name, with start and bounds; the bounds
// are four standard deviations of the prior away from the start.
std::span<const ParamSpec> WholeModelParams();

// Of the ways a whole model departs: start (a device nobody knows anything of)
// and bounds alike.
std::span<const ParamSpec> DepartureParams();

// A kernel as the form sees it: the same on every device.
struct RunKernel {
  enum class Kind : std::uint8_t {
    kConv3x3,
    kConv3x3Strided,
    kConv1x1,
    kConvLarge,
    kConvGrouped,
    kDepthwise,
    kProduct,
    kPass
  };
  // kGradients: clearing their buffers, adding into them.
  enum class Traffic : std::uint8_t { kProduct, kDepthwise, kNorm, kElementwise, kRest, kGradients };
  Kind kind = Kind::kPass;
  Traffic traffic = Traffic::kElementwise;
  DType dtype = DType::kFp32;
  double flops = 0;
  double bytes = 0;
  double depth = 1;
};
RunKernel RunKernelOf(const Kernel& kernel);

struct CountedKernel {
  RunKernel kernel;
  double count = 0;
};

// What of a latency goes with compute and with memory, the rest with neither.
struct RunTime {
  double us = 0;
  double compute_share = 0;
  double memory_share = 0;
};

// Evaluates kernels of one type on one device.
class RunForm {
 public:
  // `theta` and `departure` in the order of their parameter lists.
  RunForm(const DeviceSpec& spec, DType dtype, std::span<const double> theta, std::span<const double> departure);

  RunTime Time(const RunKernel& kernel) const;

 private:
  static constexpr std::size_t kKinds = 8;
  static constexpr std::size_t kTraffics = 6;
  std::array<double, kKinds> us_per_flop_{};
  std::array<double, kTraffics> us_per_byte_{};
  double depth_overhead_ = 0;
  double fixed_us_ = 0;
};

// Host time of a kernel over that of a plain one. In a training step most
// kernels are issued by the framework's own code for gradients, not by the
// user's.
double IssueWeight(const RunKernel& kernel, std::span<const double> theta, bool training);
inline bool IsOfTraining(const RunKernel& kernel) { return kernel.traffic == RunKernel::Traffic::kGradients; }

// Kernels' device time and the host's together: the longer one, smoothly.
double OverlapUs(double device_us, double host_us);

// What a step takes besides: entering it, whatever is in it.
double StepFixedUs(std::span<const double> theta);

// What is known of a host, whatever card is in it.
struct HostRates {
  double issue_us = 0;   // to issue a plain kernel; 0: not known
  double copy_gb_s = 0;  // of a step's inputs to the device; 0: not known

  friend bool operator==(const HostRates&, const HostRates&) = default;
};

// `learnt` with what is known in place of what was learnt.
WholeModel InHost(WholeModel learnt, const HostRates& host);

// One device in one machine as whole models taught it. Immutable.
class LearntMachine {
 public:
  LearntMachine(const DeviceSpec& spec, WholeModel learnt);

  const WholeModel& learnt() const { return learnt_; }
  RunTime Time(const RunKernel& kernel) const { return forms_[static_cast<std::size_t>(kernel.dtype)].Time(kernel); }
  double IssueUs(const RunKernel& kernel, bool training) const {
    return launch_us_ * IssueWeight(kernel, learnt_.theta, training);
  }
  double StepFixedUs() const { return gpueta::StepFixedUs(learnt_.theta); }
  double CopyUs(double bytes) const { return bytes * us_per_input_byte_; }

 private:
  WholeModel learnt_;
  std::vector<RunForm> forms_;  // by dtype
  double launch_us_ = 0;
  double us_per_input_byte_ = 0;
};

// What a device nobody measured inherits: how the pool's machines depart from the
// typical one by how much their data sheets agree with its own, and what is left
// unknown.
WholeModel WholeModelFor(const WholeModel& pooled, std::span<const DeviceSpec> pool, const DeviceSpec& device,
                         std::span<const std::string> without = {});

}  // namespace gpueta
