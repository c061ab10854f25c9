// Manifests of kernels from their text.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/kernels/manifest.h"
#include "gpueta/v1/kernel_manifest.pb.h"

namespace gpueta::wire {

// The manifest of a message, validated: INVALID_ARGUMENT naming the field, e.g.
// "dims[1].low" or "grid.x".
absl::StatusOr<KernelManifest> Decode(const v1::KernelManifest& message);

// Of protobuf text format; errors begin with the line.
absl::StatusOr<KernelManifest> ReadManifestText(std::string_view text);

// Errors begin with the path. NOT_FOUND if there is no such file.
absl::StatusOr<KernelManifest> ReadManifestFile(const std::string& path);

}  // namespace gpueta::wire
