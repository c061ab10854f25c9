// Kernels timed back to back.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/cpu/cpu_context.h"

namespace gpueta {

// Activations live in a ring of buffers: a kernel reads what the ones before
// wrote and writes where nothing is needed any more, as a framework's memory
// planner lets it. What a list of kernels does not say is assumed: the first
// input is the output of the kernel before, the second that of the one before
// it. Layouts that differ between a kernel and the next are not converted.
//
// The context must outlive it. Errors as Backend::PrepareGraph.
absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareCpuGraph(std::span<const Kernel> kernels, CpuContext& context);

}  // namespace gpueta
