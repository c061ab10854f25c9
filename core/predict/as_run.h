// What of a graph a device runs.
#pragma once

#include <cstdint>
#include <optional>

#include "core/device/spec.h"
#include "core/graph/graph.h"

namespace gpueta {

// How a graph is run.
enum class ExecutionMode : std::uint8_t {
  kEager,  // the host issues each kernel
  kGraph,  // replayed as one CUDA graph
};

// GPUs run what exporters folded into convolutions as kernels of its own when a
// framework issues operators one by one (the pass restore-batch-norm, in
// Graph::passes); a CPU's backend and captured graphs run graphs as they are
// written: nullopt.
std::optional<Graph> AsRunOn(const DeviceSpec& spec, ExecutionMode mode, const Graph& graph);

}  // namespace gpueta
