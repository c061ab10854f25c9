#include "core/profile/ladder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/errors.h"
#include "core/profile/whole_model.h"

namespace gpueta {
namespace {

auto KindOf(const EndToEnd& line) { return std::tuple(line.dtype, line.training); }

std::string NameOf(DType dtype, bool training) {
  return fmt::format("{} {}", Name(dtype), training ? "training" : "inference");
}

}  // namespace

double WorkOf(const Kernel& kernel, LadderLine::Work work) {
  const Counts counts = CountsOf(kernel);
  switch (work) {
    case LadderLine::Work::kFlops: break;
    case LadderLine::Work::kInputBytes: return static_cast<double>(counts.bytes_read.value());
    case LadderLine::Work::kOutputBytes: return static_cast<double>(counts.bytes_written.value());
  }
  return static_cast<double>(counts.flops.value());
}

double LadderLineUs(const LadderLine& form, const Kernel& kernel, const DeviceSpec& device) {
  // A line over devices may fall below 0 beyond them.
  constexpr double kLeastUs = 1;
  const double slope = form.slope + form.slope_per_bandwidth * 1e-3 / WithInferredCells(device).mem_bandwidth_gb_s;
  return std::max(slope * WorkOf(kernel, form.work) + form.constant_us, kLeastUs);
}

double StepFlopsOf(const Kernel& kernel) { return 2 * static_cast<double>(MacsOf(kernel, CountsOf(kernel)).value()); }

StepWork StepWorkOf(std::span<const Kernel> kernels) {
  StepWork step;
  std::map<DType, double> by_dtype;
  for (const Kernel& kernel : kernels) {
    const double flops = StepFlopsOf(kernel);
    step.flops += flops;
    by_dtype[kernel.dtype] += flops;
    step.training = step.training || IsOfTraining(RunKernelOf(kernel));
  }
  if (!by_dtype.empty()) {
    step.dtype = std::max_element(by_dtype.begin(), by_dtype.end(), [](const auto& a, const auto& b) {
                   return a.second < b.second;
                 })->first;
  }
  return step;
}

const EndToEnd* FindEndToEnd(std::span<const EndToEnd> lines, const StepWork& step) {
  const auto it = std::find_if(lines.begin(), lines.end(), [&](const EndToEnd& line) {
    return KindOf(line) == std::tuple(step.dtype, step.training);
  });
  return it == lines.end() ? nullptr : &*it;
}

std::string Describe(const EndToEnd& line) { return NameOf(line.dtype, line.training); }
std::string Describe(const StepWork& step) { return NameOf(step.dtype, step.training); }

absl::Status CheckStructure(std::span<const EndToEnd> lines) {
  // A FLOP a millisecond, eleven days, 2^63 FLOPs: what no step exceeds.
  constexpr double kMostSlope = 1e3, kMostUs = 1e12, kMostFlops = 1e19;
  const auto within = [](double value, double most) { return value >= 0 && value <= most; };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const EndToEnd& line = lines[i];
    const std::string where = fmt::format("end_to_end[{}] ({})", i, Describe(line));
    if (!within(line.slope, kMostSlope))
      return FieldError(where + ".slope", fmt::format("must be between 0 and {}", kMostSlope));
    if (!within(line.constant_us, kMostUs))
      return FieldError(where + ".constant_us", fmt::format("must be between 0 and {}", kMostUs));
    if (!(line.slope + line.constant_us > 0)) return FieldError(where + ".slope", "and constant_us are both 0");
    if (!(within(line.min_flops, kMostFlops) && line.min_flops <= line.max_flops && line.max_flops <= kMostFlops))
      return FieldError(where + ".min_flops", "min_flops and max_flops must be a range of what steps compute");
    if (!within(line.error_ln, kMostEndToEndErrorLn))
      return FieldError(where + ".error_ln", fmt::format("must be between 0 and {}", kMostEndToEndErrorLn));
    if (i > 0 && !(KindOf(lines[i - 1]) < KindOf(line)))
      return FieldError(where, "lines must be sorted by dtype and training, without repetitions");
  }
  return absl::OkStatus();
}

}  // namespace gpueta
