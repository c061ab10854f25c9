// Which card of the catalogue a device is, and what its latencies depend on besides.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "calibration/backends/cuda/driver/card.h"
#include "calibration/backends/cuda/driver/cuda_types.h"
#include "core/device/spec.h"

namespace gpueta {

// "1g.10gb" of "NVIDIA H100 80GB HBM3 MIG 1g.10gb"; nullopt for a whole card.
std::optional<std::string> MigProfileOf(const DeviceProperties& device);

// The slug of the card in the catalogue, else the name in lower case with hyphens; a MIG instance is
// a device of its own: "h100-sxm-mig-1g.10gb".
std::string SlugOf(const DeviceProperties& device);

// The data sheet, with what the driver says of this very device in place of it:
// peaks and bandwidth of a part are scaled to its SMs and its memory. Of an unknown
// card what the driver says, the rest 0.
DeviceSpec SpecOf(const DeviceProperties& device);

// Libraries that kernels come from, by name, e.g. "cublaslt" to "13.1.0".
using LibraryVersions = std::map<std::string, std::string>;

// What a profile is true for: driver, CUDA, libraries, clocks, power cap, ECC, MIG,
// MPS; and which device it was ("uuid", hashed so that it tells nothing else). Only
// what is known. `mps`: kernels go through the multi-process service.
std::map<std::string, std::string> LabelsOf(const DeviceProperties& device, const std::optional<CardInfo>& card,
                                            const LibraryVersions& libraries, bool mps);

}  // namespace gpueta
