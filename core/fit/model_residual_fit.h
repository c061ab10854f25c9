// Fitting what models take beyond their kernels (core/profile/model_residual.h).
#pragma once

#include <Eigen/Core>
#include <span>

#include "core/profile/model_residual.h"

namespace gpueta {

// `errors_ln`: ln(measured/form), one for each of `models`, of any devices.
// Length and variances are those of the highest marginal likelihood among a few.
ModelResidual FitModelResidual(std::span<const ModelFeatures> models, const Eigen::VectorXd& errors_ln);

}  // namespace gpueta
