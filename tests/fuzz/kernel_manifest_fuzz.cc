// Any text as a manifest: refused with a message, or a kernel whose shapes give
// launches that CUDA accepts, or are refused too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/kernels/kernel_launch.h"
#include "core/wire/manifest_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto manifest = gpueta::wire::ReadManifestText({reinterpret_cast<const char*>(data), size});
  if (!manifest.ok()) {
    if (manifest.status().message().empty()) std::abort();
    return 0;
  }
  constexpr std::int64_t kMemory = std::int64_t{1} << 40;
  const auto shapes = gpueta::SampleShapes(*manifest, 4, kMemory, size);
  if (!shapes.ok()) return 0;
  for (const gpueta::SymbolValues& shape : *shapes) {
    const auto launch = gpueta::LaunchOf(*manifest, shape);
    if (!launch.ok() || !gpueta::Validate(launch->kernel).ok()) std::abort();
    if (launch->kernel.launch.blocks() < 1 || launch->block[0] * launch->block[1] * launch->block[2] > 1024)
      std::abort();
    if (launch->arguments.size() != manifest->arguments.size()) std::abort();
  }
  return 0;
}
