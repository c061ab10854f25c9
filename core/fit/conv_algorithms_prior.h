// A convolution as the algorithm that the library chose among several, which
// differ by up to four in operations.
//
// Classes: implicit GEMM or direct; fused Winograd F(2×2,3×3); Winograd
// F(4×4,3×3) as 36 batched GEMMs; FFT over tiles (Lavin & Gray 2016; Mathieu et
// al. 2014). Each has its operations and traffic,
// t = c0 + (Tc^P + Tm^P)^(1/P), fitted to the rows whose kernel names say that
// they are of the class; trees learn from the same rows which class a shape
// gets. ln t is the mean over classes by probability.
#pragma once

#include <memory>

#include "core/fit/prior.h"

namespace gpueta {

// `data` must be rows of a convolution table. nullptr when the kernel names do
// not show at least two classes.
std::unique_ptr<Prior> FitConvAlgorithmsPrior(const TableData& data, std::uint64_t seed);

// The same for rows that name their kernel: the form of its class alone, in whole
// waves of the blocks of their grid. `other` answers for classes that were not
// fitted, and has the features. nullptr as above.
std::unique_ptr<Prior> FitKnownConvAlgorithms(const TableData& data, std::unique_ptr<Prior> other);

}  // namespace gpueta
