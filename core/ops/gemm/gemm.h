// Matrix products.
#pragma once

#include <array>
#include <cstdint>

#include "core/ops/counts.h"
#include "core/ops/dim.h"
#include "core/ops/dtype.h"

namespace gpueta {

// C[m,n] = A[m,k] · B[k,n], `batch` times; k is the contraction.
struct Gemm {
  // How the product arises; libraries choose kernels by it.
  enum class Layer : std::uint8_t { kGemm, kLinear, kBmm };

  Layer layer = Layer::kGemm;
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  friend bool operator==(const Gemm&, const Gemm&) = default;
};

inline constexpr std::array<DimField<Gemm>, 4> kGemmDims = {{
    {"batch", &Gemm::batch, 1, 1},
    {"m", &Gemm::m},
    {"n", &Gemm::n},
    {"k", &Gemm::k},
}};

std::string_view Name(Gemm::Layer layer);
std::optional<Gemm::Layer> ParseGemmLayer(std::string_view name);

// FLOPs 2·batch·m·n·k; A and B are read once, C is written once (the
// compulsory traffic of the roofline model, Williams et al. 2009).
Counts CountsOf(const Gemm& gemm, DType dtype);

}  // namespace gpueta
