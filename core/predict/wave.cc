#include "core/predict/wave.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gpueta {
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
  if (const auto* custom = std::get_if<Custom>(&kernel.work); custom != nullptr)
    block_flops = static_cast<double>(custom->flops) / blocks;
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

const KernelConfig* FindConfig(std::span<const KernelConfig> configs, std::string_view kernel) {
  const auto it = std::ranges::lower_bound(configs, kernel, {}, &KernelConfig::kernel);
  return it != configs.end() && it->kernel == kernel ? &*it : nullptr;
}

const KernelConfig* SelectedConfig(const Kernel& kernel, const Machine<double>& machine,
                                   std::span<const KernelConfig> configs) {
  Kernel shape = kernel;
  shape.launch = {};
  const KernelConfig* selected = nullptr;
  double least = INFINITY;
  for (const KernelConfig& config : configs) {
    const double us = WaveLatencyUs(shape, machine, config).value_or(0);
    if (!config.selection_ln.has_value() || us <= 0) continue;
    const double cost = std::log(us) + static_cast<double>(*config.selection_ln);
    if (cost >= least) continue;
    least = cost;
    selected = &config;
  }
  return selected;
}

std::optional<double> CustomLatencyUs(const Kernel& kernel, const Machine<double>& machine,
                                      std::span<const KernelConfig> configs) {
  if (kernel.op() != Op::kCustom) return std::nullopt;
  const KernelConfig* config = FindConfig(configs, ConfigurationOf(kernel));
  if (config == nullptr) return std::nullopt;
  const std::optional<double> us = WaveLatencyUs(kernel, machine, *config);
  return us.value_or(0) > 0 ? us : std::nullopt;
}

}  // namespace gpueta
