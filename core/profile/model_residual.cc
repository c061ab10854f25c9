#include "core/profile/model_residual.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kSameLength = 0.02;
constexpr float kMarkOf16Bit = 0.3F;

// The nominal device: 10 TFLOPS, 500 GB/s.
constexpr double kFlopsPerUs = 1e7;
constexpr double kBytesPerUs = 5e5;

// Kinds of products and convolutions, then of passes.
std::size_t PlaceOf(const RunKernel& kernel) {
  using enum RunKernel::Traffic;
  constexpr std::size_t kOfPasses = static_cast<std::size_t>(RunKernel::Kind::kPass);
  if (kernel.kind != RunKernel::Kind::kPass) return static_cast<std::size_t>(kernel.kind);
  switch (kernel.traffic) {
    case kNorm: return kOfPasses;
    case kElementwise: return kOfPasses + 1;
    case kGradients: return kOfPasses + 3;
    default: return kOfPasses + 2;
  }
}

double Distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(sum);
}

}  // namespace

ModelFeatures FeaturesOf(std::span<const CountedKernel> kernels) {
  std::array<double, kModelFeatures> us{};
  double total_us = 0, total_16_bit_us = 0;
  for (const auto& [kernel, count] : kernels) {
    const double of_one = std::max(kernel.flops / kFlopsPerUs, kernel.bytes / kBytesPerUs) * count;
    us[PlaceOf(kernel)] += of_one;
    total_us += of_one;
    if (BitsOf(kernel.dtype).activation <= 16) total_16_bit_us += of_one;
  }
  ModelFeatures features{};
  if (!(total_us > 0)) return features;
  for (std::size_t i = 0; i < kModelFeatures; ++i) features[i] = static_cast<float>(std::sqrt(us[i] / total_us));
  features.back() = total_16_bit_us > 0.5 * total_us ? kMarkOf16Bit : 0;
  return features;
}

double ModelCovariance(const ModelResidual& process, std::span<const float> a, std::span<const float> b) {
  const double distance = Distance(a, b);
  return process.alike_variance * std::exp(-distance / process.alike_length) +
         process.same_variance * std::exp(-distance / kSameLength);
}

ModelDeviation DeviationOf(const WholeModel& learnt, const ModelFeatures& model) {
  const ModelResidual& process = learnt.models;
  if (process.weights.empty()) return {0, learnt.noise_ln * learnt.noise_ln};
  const double prior = process.alike_variance + process.same_variance;
  ModelDeviation out;
  double nearest = 0;
  for (std::size_t i = 0; i < process.weights.size(); ++i) {
    const auto point = std::span(process.points).subspan(i * kModelFeatures, kModelFeatures);
    const double covariance = ModelCovariance(process, model, point);
    out.ln += process.weights[i] * covariance;
    nearest = std::max(nearest, covariance);
  }
  const double known = prior + process.noise_variance;
  out.variance = known - (known > 0 ? nearest * nearest / known : 0);
  return out;
}

absl::Status CheckStructure(const ModelResidual& process) {
  if (process.points.size() != process.weights.size() * kModelFeatures) {
    return FieldError("points", fmt::format("must have {} values, {} for each of {} weights, has {}",
                                            process.weights.size() * kModelFeatures, kModelFeatures,
                                            process.weights.size(), process.points.size()));
  }
  const auto finite = [](std::span<const float> values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  };
  if (!finite(process.points)) return FieldError("points", "has a value that is not finite");
  if (!finite(process.weights)) return FieldError("weights", "has a value that is not finite");
  constexpr double kMost = 10;
  const auto within = [](double value) { return value >= 0 && value <= kMost; };
  if (!within(process.alike_variance)) return FieldError("alike_variance", "must be between 0 and 10");
  if (!within(process.same_variance)) return FieldError("same_variance", "must be between 0 and 10");
  if (!within(process.noise_variance)) return FieldError("noise_variance", "must be between 0 and 10");
  if (!(process.alike_length > 0 && process.alike_length <= kMost))
    return FieldError("alike_length", "must be above 0 and at most 10");
  return absl::OkStatus();
}

}  // namespace gpueta
