#include "core/ops/launch.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace gpueta {
namespace {

// Kernels whose names hold one of the words work alike (cuDNN, cuBLAS, CUTLASS).
struct Words {
  std::array<std::string_view, 3> any;
};
constexpr std::array<Words, 5> kAlgorithms = {{
    {{"winograd", "Winograd", "Winograd"}},
    {{"nonfused", "Nonfused", "Nonfused"}},  // of Winograd: as batched products
    {{"gcgemm", "fft", "cgemm"}},            // products of transforms
    {{"sliced", "split", "Split"}},          // the depth over several blocks or warps
    {{"scudnn", "implicit", "convolve"}},    // the product of a convolution, never written out
}};

bool Names(std::string_view kernel, const Words& words) {
  return std::any_of(words.any.begin(), words.any.end(),
                     [&](std::string_view word) { return kernel.find(word) != std::string_view::npos; });
}

// log2 of what a last wave that is not full wastes.
double WaveLoss(double waves) { return std::log2(std::ceil(waves) / waves); }

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

double TilesOf(const ProductShape& p, Tile tile) {
  const double along = std::ceil(p.rows / tile.m) * std::ceil(p.columns / tile.n);
  const double across = std::ceil(p.rows / tile.n) * std::ceil(p.columns / tile.m);
  return p.batch * std::min(along, across);
}

std::string_view ConfigurationOf(const Kernel& kernel) {
  const auto* custom = std::get_if<Custom>(&kernel.work);
  return custom != nullptr ? custom->op : kernel.launch.kernel;
}

std::string_view GradientOf(const Kernel& kernel) {
  const std::string_view name = kernel.launch.kernel;
  const auto has = [name](std::string_view word) { return name.find(word) != std::string_view::npos; };
  if (name.empty()) return "";
  if (kernel.op() == Op::kConv2d) return has("dgrad") ? "dgrad" : has("wgrad") ? "wgrad" : "";
  if (kernel.op() == Op::kAttention) return has("bwd") || has("bprop") || has("backward") ? "bwd" : "";
  return "";
}

bool TellsLaunch(const Kernel& kernel) {
  return kernel.op() == Op::kCustom ? kernel.launch.blocks() > 0 : !kernel.launch.kernel.empty();
}

std::optional<std::array<double, kLaunchFeatures>> LaunchFeatures(const Kernel& kernel,
                                                                  const Machine<double>& machine) {
  const std::optional<ProductShape> product = ProductOf(kernel);
  const auto* custom = std::get_if<Custom>(&kernel.work);
  const auto blocks = static_cast<double>(kernel.launch.blocks());
  if ((!product.has_value() && custom == nullptr) || blocks <= 0 || !TellsLaunch(kernel)) return std::nullopt;
  const double waves = blocks / machine.sms;
  std::array<double, kLaunchFeatures> f{};
  f[0] = std::log2(waves);
  f[1] = WaveLoss(waves);
  f[2] = WaveLoss(waves / 2);  // two blocks an SM
  if (custom != nullptr) {
    f[3] = std::log2(static_cast<double>(std::max<std::int64_t>(custom->bytes, 1)) / blocks);
    f[4] = std::log2(static_cast<double>(std::max<std::int64_t>(custom->flops, 1)) / blocks);
    f[5] = std::log2(static_cast<double>(std::max<std::int64_t>(kernel.launch.block_x, 1)));
    return f;
  }
  f[3] = std::log2(product->outputs() / blocks);
  f[4] = f[3] + std::log2(product->depth);
  f[5] = std::log2(static_cast<double>(std::max<std::int64_t>(kernel.launch.block_x, 1)));
  if (const std::optional<Tile> tile = TileOfKernelName(kernel.launch.kernel); tile.has_value()) {
    const double area = static_cast<double>(tile->m) * tile->n;
    const double tiles = TilesOf(*product, *tile);
    f[6] = std::log2(area);
    f[7] = std::log2(tiles * area / product->outputs());  // padding
    f[8] = std::log2(blocks / tiles);                     // parts of the depth
  }
  for (std::size_t a = 0; a < kAlgorithms.size(); ++a) f[9 + a] = Names(kernel.launch.kernel, kAlgorithms[a]) ? 1 : 0;
  return f;
}

Launch LaunchLike(const Kernel& kernel, const Kernel& other) {
  Launch launch = kernel.launch;
  if (launch.blocks() <= 0) return launch;
  double ratio = 1;
  if (const auto *from = std::get_if<Custom>(&kernel.work), *to = std::get_if<Custom>(&other.work);
      from != nullptr && to != nullptr) {
    const bool computes = from->flops > 0 && to->flops > 0;
    const auto more = [](std::int64_t a, std::int64_t b) {
      return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(b, 1));
    };
    ratio = std::sqrt(computes ? more(to->flops, from->flops) : more(to->bytes, from->bytes));
  } else {
    const std::optional<ProductShape> before = ProductOf(kernel);
    const std::optional<ProductShape> after = ProductOf(other);
    if (!before.has_value() || !after.has_value()) return launch;
    const std::optional<Tile> tile = TileOfKernelName(launch.kernel);
    ratio = tile.has_value() ? TilesOf(*after, *tile) / TilesOf(*before, *tile) : after->outputs() / before->outputs();
  }
  launch.grid_x = std::max<std::int64_t>(1, std::llround(static_cast<double>(launch.blocks()) * ratio));
  launch.grid_y = launch.grid_z = 1;
  return launch;
}

}  // namespace gpueta
