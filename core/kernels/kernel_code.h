// The code that a manifest names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/kernels/manifest.h"
#include "core/kernels/ptx_header.h"

namespace gpueta {

struct KernelCode {
  enum class Kind : std::uint8_t { kPtx, kCubin, kFatbin };
  Kind kind = Kind::kPtx;
  std::string path;
  std::string image;             // the file
  std::optional<PtxHeader> ptx;  // of PTX
};
std::string_view Name(KernelCode::Kind kind);

// Reads the file, beside the manifest at `manifest_path`. Of PTX it is checked that
// the manifest's arguments are those of its entry; what a cubin or fatbin takes
// only a driver knows. NOT_FOUND without the file; INVALID_ARGUMENT for a manifest
// that names none, and what ReadPtxHeader and CheckParameters say. Errors begin
// with the path of the file that is wrong.
absl::StatusOr<KernelCode> ReadKernelCode(const KernelManifest& manifest, const std::string& manifest_path);

}  // namespace gpueta
