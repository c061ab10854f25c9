// Any text as PTX: refused, or a header whose kernels have names and parameters
// of bounded size.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/kernels/ptx_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto header = gpueta::ReadPtxHeader({reinterpret_cast<const char*>(data), size});
  if (!header.ok()) return 0;
  for (const gpueta::PtxEntry& entry : header->entries) {
    std::int64_t bytes = 0;
    for (const gpueta::PtxParameter& parameter : entry.parameters) bytes += parameter.bytes;
    if (entry.name.empty() || bytes < 0 || bytes > (1 << 20) || entry.most_threads < 0) std::abort();
    gpueta::KernelManifest manifest;
    manifest.entry = entry.name;
    (void)gpueta::CheckParameters(manifest, *header);
  }
  return 0;
}
