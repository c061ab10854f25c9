// Nsight Systems reports as SQLite: what `nsys export --type sqlite` writes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/importers/traces/trace.h"

namespace gpueta {

// Kernels, copies and fills with the host calls that launched them. Operators
// are known where the program ran under torch.autograd.profiler.emit_nvtx: its
// ranges become calls, with dims where record_shapes was on; their dtype is
// that which the names of kernels tell, else fp32.
//
// NOT_FOUND if the file cannot be opened; INVALID_ARGUMENT for a file that is
// no such report or has no kernels; RESOURCE_EXHAUSTED for more than
// kMaxTraceEvents.
absl::StatusOr<Trace> ReadNsightTrace(const std::string& path);

}  // namespace gpueta
