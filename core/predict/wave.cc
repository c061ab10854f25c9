#include "core/predict/wave.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>

namespace gpueta {
namespace {

// The product a kernel computes, as rows × columns × depth, `batch` times.
struct ProductShape {
  double batch = 1, rows = 0, columns = 0, depth = 0;
};

std::optional<ProductShape> ProductOf(const Kernel& kernel) {
  if (const auto* g = std::get_if<Gemm>(&kernel.work)) {
    return ProductShape{static_cast<double>(g->batch), static_cast<double>(g->m), static_cast<double>(g->n),
                        static_cast<double>(g->k)};
  }
  if (const auto* c = std::get_if<Conv2d>(&kernel.work)) {
    return ProductShape{
        static_cast<double>(c->groups), static_cast<double>(c->batch * OutHeight(*c) * OutWidth(*c)),
        static_cast<double>(c->out_channels) / static_cast<double>(c->groups),
        static_cast<double>(c->in_channels * c->kernel_h * c->kernel_w) / static_cast<double>(c->groups)};
  }
  return std::nullopt;
}

// Tiles over either orientation: libraries store products row- or column-major.
double TilesOf(const ProductShape& p, Tile tile) {
  const double along = std::ceil(p.rows / tile.m) * std::ceil(p.columns / tile.n);
  const double across = std::ceil(p.rows / tile.n) * std::ceil(p.columns / tile.m);
  return p.batch * std::min(along, across);
}

}  // namespace

std::optional<Tile> TileOfKernelName(std::string_view kernel) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t x = kernel.find('x'); x != std::string_view::npos; x = kernel.find('x', x + 1)) {
    std::size_t begin = x;
    while (begin > 0 && is_digit(kernel[begin - 1])) --begin;
    std::size_t end = x + 1;
    while (end < kernel.size() && is_digit(kernel[end])) ++end;
    Tile tile;
    const auto first = std::from_chars(kernel.data() + begin, kernel.data() + x, tile.m);
    const auto second = std::from_chars(kernel.data() + x + 1, kernel.data() + end, tile.n);
    // Tiles of products have sides of 16 to 512; "4x4" and the like are something else.
    const auto is_side = [](int side) { return side >= 16 && side <= 512; };
    if (first.ec == std::errc() && second.ec == std::errc() && is_side(tile.m) && is_side(tile.n)) return tile;
  }
  return std::nullopt;
}

std::optional<std::array<double, 5>> WaveRegressors(const Kernel& kernel, const Machine<double>& machine, Tile tile,
                                                    int resident_blocks) {
  const std::optional<ProductShape> product = ProductOf(kernel);
  double blocks = static_cast<double>(kernel.launch.blocks());
  double block_flops = 0;
  if (product.has_value()) {
    if (tile.m > 0) {
      const double tiles = TilesOf(*product, tile);
      if (blocks <= 0) blocks = tiles;
      const double split_k = std::max(1.0, std::round(blocks / tiles));
      block_flops = 2.0 * tile.m * tile.n * std::ceil(product->depth / split_k);
    } else if (blocks > 0) {
      block_flops = 2.0 * product->batch * product->rows * product->columns * product->depth / blocks;
    }
  }
  if (blocks <= 0) return std::nullopt;
  const double slots = machine.sms * resident_blocks;
  const double waves = std::ceil(blocks / slots);
  const double q = block_flops / (machine.peak / slots);
  const double bytes = static_cast<double>(CountsOf(kernel).bytes().value());
  return std::array<double, 5>{1.0, waves, waves * q, blocks / slots * q, bytes / machine.bandwidth};
}

std::optional<double> WaveLatencyUs(const Kernel& kernel, const Machine<double>& machine, const KernelConfig& config) {
  const auto regressors = WaveRegressors(kernel, machine, {config.tile_m, config.tile_n}, config.resident_blocks);
  if (!regressors.has_value()) return std::nullopt;
  return std::inner_product(regressors->begin(), regressors->end(), config.coefficients.begin(), 0.0);
}

}  // namespace gpueta
