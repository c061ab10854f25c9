#include "core/ops/gemm/gemm.h"

namespace gpueta {

std::string_view Name(Gemm::Layer layer) {
  switch (layer) {
    case Gemm::Layer::kGemm: return "gemm";
    case Gemm::Layer::kLinear: return "linear";
    case Gemm::Layer::kBmm: return "bmm";
  }
  return "?";
}

std::optional<Gemm::Layer> ParseGemmLayer(std::string_view name) {
  for (auto layer : {Gemm::Layer::kGemm, Gemm::Layer::kLinear, Gemm::Layer::kBmm}) {
    if (Name(layer) == name) return layer;
  }
  return std::nullopt;
}

Counts CountsOf(const Gemm& g, DType dtype) {
  const ElementBits bits = BitsOf(dtype);
  Counts counts;
  counts.macs = Product({g.batch, g.m, g.n, g.k});
  counts.flops = 2 * counts.macs;
  counts.bytes_read =
      BytesOf(Product({g.batch, g.m, g.k}), bits.activation) + BytesOf(Product({g.batch, g.k, g.n}), bits.weight);
  counts.bytes_written = BytesOf(Product({g.batch, g.m, g.n}), bits.output);
  return counts;
}

}  // namespace gpueta
