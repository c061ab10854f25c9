// What a PTX file declares of its kernels: NVIDIA's "PTX ISA", sections Kernel
// and Function Directives and State Spaces (.param). Instructions are not read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/manifest.h"

namespace gpueta {

struct PtxParameter {
  std::string name;
  std::int64_t bytes = 0;
};

struct PtxEntry {
  std::string name;
  std::vector<PtxParameter> parameters;
  std::int64_t most_threads = 0;  // of a block, by .maxntid or .reqntid; 0: not said
};

struct PtxHeader {
  std::string version;  // of the instruction set, "8.0"
  std::string target;   // "sm_75"
  std::vector<PtxEntry> entries;
};

// INVALID_ARGUMENT naming the line for text that is no PTX, or declares what
// this does not know.
absl::StatusOr<PtxHeader> ReadPtxHeader(std::string_view text);

// Whether the manifest's arguments are what its entry takes: INVALID_ARGUMENT
// naming the field, listing the entries for one that is not there.
absl::Status CheckParameters(const KernelManifest& manifest, const PtxHeader& ptx);

}  // namespace gpueta
