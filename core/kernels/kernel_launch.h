// What a manifest says of one shape: the launch, its arguments, the work.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/manifest.h"
#include "core/ops/kernel.h"

namespace gpueta {

// One parameter of a launch: device memory, whose pointer is 8 bytes, or bytes
// that are known.
struct LaunchArgument {
  std::string name;
  bool is_buffer = false;
  std::int64_t buffer_bytes = 0;
  BufferArgument::Fill fill = BufferArgument::Fill::kRandom;
  std::vector<std::byte> value;  // of what is no buffer, little-endian

  std::size_t size() const { return is_buffer ? sizeof(std::uint64_t) : value.size(); }
};

struct KernelLaunch {
  std::array<std::uint32_t, 3> grid = {1, 1, 1};   // blocks
  std::array<std::uint32_t, 3> block = {1, 1, 1};  // threads
  std::uint32_t shared_bytes = 0;                  // dynamic
  std::vector<LaunchArgument> arguments;
  // As measured and asked for: a Custom of the manifest's name with its FLOPs and
  // bytes, and the grid.
  Kernel kernel;
};

// For the values of all dims. INVALID_ARGUMENT naming the dim for one that is
// missing, unknown, below 1 or not what the kernel is made for, and naming the
// field for a grid, block or shared memory that no device of CUDA accepts, a
// negative number, or one out of range. The manifest must be valid.
absl::StatusOr<KernelLaunch> LaunchOf(const KernelManifest& manifest, const SymbolValues& dims);

// "m=512 n=4096": dims in the manifest's order.
std::string DescribeShape(const KernelManifest& manifest, const SymbolValues& dims);

// Shapes to measure, without repeats, in random order: dims log-uniform over
// their ranges, shapes that LaunchOf refuses or that need more than `memory_bytes`
// of buffers left out. Fewer than `count` where there are not as many.
// Deterministic by seed. INVALID_ARGUMENT, with an example, when no shape is left.
absl::StatusOr<std::vector<SymbolValues>> SampleShapes(const KernelManifest& manifest, std::size_t count,
                                                       std::int64_t memory_bytes, std::uint64_t seed);

}  // namespace gpueta
