// Kernels of manifests, as a worker measures them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/kernel_code.h"
#include "core/kernels/kernel_launch.h"
#include "core/kernels/manifest.h"

namespace gpueta {

// A kernel that is to be measured is a name, FLOPs, bytes and a grid; what its
// arguments are only its shape tells. This remembers the shapes it gave.
class ManifestKernels {
 public:
  // Manifests that can be run, and their code. Errors begin with the path;
  // INVALID_ARGUMENT for two of one name.
  static absl::StatusOr<ManifestKernels> Read(std::span<const std::string> manifest_paths);

  bool empty() const { return kernels_.empty(); }
  // Changes with the code: the head of a hash over all of it, 12 hex digits.
  std::string version() const;

  // Up to `per_kernel` shapes of each, as SampleShapes gives them: candidates to
  // measure. Errors as SampleShapes.
  absl::StatusOr<std::vector<Kernel>> Candidates(std::size_t per_kernel, std::int64_t memory_bytes, std::uint64_t seed);

  struct Runnable {
    const KernelManifest* manifest = nullptr;
    const KernelCode* code = nullptr;
    const KernelLaunch* launch = nullptr;
  };
  // What runs a kernel that Candidates gave; valid until the next Candidates.
  // NOT_FOUND for any other. The dtype, name and FLOPs must be the same, bytes
  // and grid too.
  absl::StatusOr<Runnable> Find(const Kernel& kernel) const;

 private:
  struct Loaded {
    KernelManifest manifest;
    KernelCode code;
    std::map<std::string, KernelLaunch> launches;  // by KeyOf(launch.kernel)
  };
  std::map<std::string, Loaded> kernels_;  // by name
};

}  // namespace gpueta
