// Kernels known by what they declare.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/ops/counts.h"
#include "core/ops/dim.h"
#include "core/ops/dtype.h"

namespace gpueta {

struct Custom {
  std::string op;
  std::int64_t flops = 0;
  std::int64_t bytes = 0;  // read and written

  friend bool operator==(const Custom&, const Custom&) = default;
};

inline constexpr std::array<DimField<Custom>, 2> kCustomDims = {{
    {"flops", &Custom::flops, 0, 0},
    {"bytes", &Custom::bytes, 0, 0},
}};

Counts CountsOf(const Custom& custom, DType dtype);

}  // namespace gpueta
