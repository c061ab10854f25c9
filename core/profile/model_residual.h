// What a model takes beyond its kernels, from what models made of the like took on
// other devices: libraries and frameworks are not told by shapes alone, but what
// they miss they miss on every device.
//
// A Gaussian process over what models are made of, in ln(measured/form):
//   k(x, x') = alike² · e^(−|x−x'|/length) + same² · e^(−|x−x'|/0.02)
// The first is of models that spend their time alike, the second of one model in
// other batches.
#pragma once

#include <array>
#include <span>

#include "core/profile/profile.h"
#include "core/profile/whole_model.h"

namespace gpueta {

// Square roots of the shares of a nominal device's time by kind of kernel, and a
// mark for 16-bit types. The same on every device.
inline constexpr std::size_t kModelFeatures = 12;
using ModelFeatures = std::array<float, kModelFeatures>;

ModelFeatures FeaturesOf(std::span<const CountedKernel> kernels);

// k of two models, noise excluded.
double ModelCovariance(const ModelResidual& process, std::span<const float> a, std::span<const float> b);

// In ln. The variance is one of a device's time, by the nearest model alone: at
// most so much.
struct ModelDeviation {
  double ln = 0;
  double variance = 0;
};
// Where no times of models are known, the form's own noise.
ModelDeviation DeviationOf(const WholeModel& learnt, const ModelFeatures& model);

// INVALID_ARGUMENT naming the field.
absl::Status CheckStructure(const ModelResidual& process);

}  // namespace gpueta
