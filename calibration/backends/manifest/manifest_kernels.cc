#include "calibration/backends/manifest/manifest_kernels.h"

#include <utility>

#include "core/base/errors.h"
#include "core/base/sha256.h"
#include "core/wire/manifest_codec.h"

namespace gpueta {
namespace {

std::string KeyOf(const Kernel& kernel) {
  const Launch& launch = kernel.launch;
  return fmt::format("{}|{}x{}x{}x{}", Describe(kernel), launch.grid_x, launch.grid_y, launch.grid_z, launch.block_x);
}

}  // namespace

absl::StatusOr<ManifestKernels> ManifestKernels::Read(std::span<const std::string> manifest_paths) {
  ManifestKernels kernels;
  for (const std::string& path : manifest_paths) {
    Loaded loaded;
    GPUETA_ASSIGN_OR_RETURN(loaded.manifest, wire::ReadManifestFile(path));
    GPUETA_ASSIGN_OR_RETURN(loaded.code, ReadKernelCode(loaded.manifest, path));
    const std::string name = loaded.manifest.name;
    if (!kernels.kernels_.emplace(name, std::move(loaded)).second)
      return InvalidArgument("{}: another manifest has the name \"{}\" too", path, name);
  }
  return kernels;
}

std::string ManifestKernels::version() const {
  constexpr std::size_t kDigits = 12;
  std::string code;
  for (const auto& [name, loaded] : kernels_) code += Hex(Sha256(loaded.code.image), 2 * sizeof(Sha256Digest));
  return Hex(Sha256(code), kDigits);
}

absl::StatusOr<std::vector<Kernel>> ManifestKernels::Candidates(std::size_t per_kernel, std::int64_t memory_bytes,
                                                                std::uint64_t seed) {
  std::vector<Kernel> candidates;
  for (auto& [name, loaded] : kernels_) {
    GPUETA_ASSIGN_OR_RETURN(const std::vector<SymbolValues> shapes,
                            SampleShapes(loaded.manifest, per_kernel, memory_bytes, seed));
    loaded.launches.clear();
    for (const SymbolValues& shape : shapes) {
      GPUETA_ASSIGN_OR_RETURN(KernelLaunch launch, LaunchOf(loaded.manifest, shape));
      std::string key = KeyOf(launch.kernel);
      // Shapes that a measurement cannot tell apart are one candidate.
      const auto [place, added] = loaded.launches.try_emplace(std::move(key), std::move(launch));
      if (added) candidates.push_back(place->second.kernel);
    }
  }
  return candidates;
}

absl::StatusOr<ManifestKernels::Runnable> ManifestKernels::Find(const Kernel& kernel) const {
  const auto* custom = std::get_if<Custom>(&kernel.work);
  const auto loaded = custom == nullptr ? kernels_.end() : kernels_.find(custom->op);
  if (loaded == kernels_.end())
    return NotFound("{}: no manifest describes it",
                    custom == nullptr ? Name(kernel.op()) : std::string_view(custom->op));
  const auto launch = loaded->second.launches.find(KeyOf(kernel));
  if (launch == loaded->second.launches.end())
    return NotFound("{}: is of no shape that its manifest was asked for", Describe(kernel));
  return Runnable{&loaded->second.manifest, &loaded->second.code, &launch->second};
}

}  // namespace gpueta
