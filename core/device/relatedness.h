// How devices compare, as far as data sheets tell: what carries measurements
// of some over to others.
#pragma once

#include "core/device/spec.h"
#include "core/ops/dtype.h"

namespace gpueta {

// Share of its peak rate at `dtype` that a card sustains: boards with less
// power for each TFLOPS than the consumer cards of their architecture lower
// their clocks under load (T4, L4, L40S). 1 where power does not limit, above
// 0 always. Exponents from fits to public measurements (docs/accuracy.md).
double SustainedShare(const DeviceSpec& spec, DType dtype);

// 1 for devices whose sheets agree in generation, kind of memory, and rates of
// an SM at `dtype`; falls to 0 with the distance between them.
double Relatedness(const DeviceSpec& a, const DeviceSpec& b, DType dtype);

}  // namespace gpueta
