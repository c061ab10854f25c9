// Products by algorithms that the library could have chosen: what each configuration
// takes, and which one the library chooses.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "calibration/backends/backend.h"
#include "core/measurements/measurements.h"
#include "core/profile/profile.h"

namespace gpueta {

// The kernels among `shapes` by other algorithms than the one that the library chooses
// for them, named in launch.kernel: of `most_shapes` shapes, in their order, three each.
// They are of the dozen algorithms that the library chooses most often among the shapes,
// those first that have been taken least. Empty where the backend has no choice.
std::vector<Kernel> AlternativesOf(Backend& backend, std::span<const Kernel> shapes, std::size_t most_shapes);

// Fits the kernel configurations of the profile's tables, and what is known of launches,
// to both what the library chose (`chosen`) and what it did not (`alternatives`), and
// KernelConfig::selection_ln to its choices. Everything else of the tables is about what the library
// chooses and stays as it is. Tables without alternatives are left alone.
void LearnAlgorithms(std::span<const Measurement> chosen, std::span<const Measurement> alternatives, std::uint64_t seed,
                     Profile& profile);

}  // namespace gpueta
