// What the name and the grid of a launch say beyond the shape that is computed.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "core/ops/kernel.h"
#include "core/ops/machine.h"

namespace gpueta {

// Tile of a kernel by its name ("…_128x64_…"); nullopt if it names none.
struct Tile {
  int m = 0;
  int n = 0;
};
std::optional<Tile> TileOfKernelName(std::string_view kernel);

// The product a kernel computes, as rows × columns × depth, `batch` times;
// nullopt for kernels that are none.
struct ProductShape {
  double batch = 1, rows = 0, columns = 0, depth = 0;
  double outputs() const { return batch * rows * columns; }
};
std::optional<ProductShape> ProductOf(const Kernel& kernel);

// Tiles of either orientation, whichever needs fewer: libraries store products
// row- or column-major.
double TilesOf(const ProductShape& product, Tile tile);

// The kernel that runs, as configurations are kept by it: of a custom kernel its
// own name. Empty: not known.
std::string_view ConfigurationOf(const Kernel& kernel);

// The gradient that the launch's name says it computes: "dgrad" (of the input) or "wgrad"
// (of the weights) of a convolution, "bwd" (of everything) of an attention. The shape is
// that of the forward kernel, what it takes is not. Empty for anything else.
std::string_view GradientOf(const Kernel& kernel);

// Whether more than the shape is known of how it runs: of a custom kernel the
// grid, of others the kernel.
bool TellsLaunch(const Kernel& kernel);

// Of a product whose kernel and grid are known: how its blocks fill the SMs,
// what one block does, the tile, and what the words of the name tell of the
// algorithm. Of a custom kernel whose grid is known the first six: a block's bytes
// stand for its outputs. nullopt for any other kernel.
inline constexpr int kLaunchFeatures = 14;
std::optional<std::array<double, kLaunchFeatures>> LaunchFeatures(const Kernel& kernel, const Machine<double>& machine);

// The launch of `kernel`, as its library would launch `other`, another shape, by
// the same kernel: as many blocks more as there are more tiles or outputs. Of a
// custom kernel half of what it does more, in the logarithm, is in more blocks and
// half in larger ones.
Launch LaunchLike(const Kernel& kernel, const Kernel& other);

}  // namespace gpueta
