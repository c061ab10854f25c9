// The ladder of models of Li et al., "Path Forward Beyond Simulators" (MICRO 2023),
// to compare with and to ask for by name. Each rung is a line in one measure of
// work: end-to-end a whole step's time in its FLOPs, layer-wise a kernel's by its
// label in its FLOPs, kernel-wise by the kernel's name in whichever measure of
// work errs least, inter-GPU kernel-wise that with a slope linear in 1/bandwidth,
// for devices nobody measured. Lines of kernels are kept by table, those of whole
// steps by profile (core/profile/profile.h); core/fit/ladder_fit.h fits them.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "core/device/spec.h"
#include "core/ops/kernel.h"
#include "core/profile/profile.h"

namespace gpueta {

// What a line of kernels is linear in.
double WorkOf(const Kernel& kernel, LadderLine::Work work);
// Latency > 0 of a kernel on a device by its line.
double LadderLineUs(const LadderLine& line, const Kernel& kernel, const DeviceSpec& device);

// A step as the end-to-end rung sees it.
struct StepWork {
  DType dtype = DType::kFp32;  // of most of the FLOPs
  bool training = false;
  double flops = 0;  // 2·MacsOf all kernels
};
StepWork StepWorkOf(std::span<const Kernel> kernels);
double StepFlopsOf(const Kernel& kernel);

// Largest EndToEnd::error_ln.
inline constexpr double kMostEndToEndErrorLn = 3;

// nullptr without a line for steps of this kind.
const EndToEnd* FindEndToEnd(std::span<const EndToEnd> lines, const StepWork& step);
// "bf16 training".
std::string Describe(const EndToEnd& line);
std::string Describe(const StepWork& step);

// Of Profile::end_to_end: INVALID_ARGUMENT naming the field for values that are not finite or out of
// bounds, and for lines out of order.
absl::Status CheckStructure(std::span<const EndToEnd> lines);

}  // namespace gpueta
