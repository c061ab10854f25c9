// Profiler traces to graphs, which can be predicted for other devices, and to
// measurements, which profiles are fitted to.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/importers/traces/trace.h"
#include "core/measurements/measurements.h"

namespace gpueta {

// Whether a file is a trace by its name and its first bytes: .sqlite, or .json or
// .json.gz with traceEvents. False if it cannot be opened.
bool IsTraceFile(const std::string& path);

// A PyTorch profiler trace (JSON, plain or gzip), or a report of Nsight Systems
// (.sqlite).
// Errors as ReadKinetoTrace and ReadNsightTrace, beginning with the path.
absl::StatusOr<Trace> ReadTraceFile(const std::string& path);

// A graph of what ran, and how long it took.
struct TracedGraph {
  Graph graph;
  // Of each node on the traced device, with all kernels that its operator
  // launched; an operator of several nodes has its time in even parts. Empty where
  // the trace has no device.
  std::vector<double> node_us;
  std::string device;  // the traced one's slug; empty: not known
};

// What ran, in order, of all steps: the kernels of operators that aten_ops.h
// knows; others as custom kernels of the bytes that the traced device could
// have moved in their time, so that they scale with memory bandwidth. Nodes of
// one stream (of a host without device: one thread) follow one another. The
// streams beside the busiest one are one, and what began when something on the
// other had ended is taken to need it: traces do not record what streams wait for.
// Graph::source_op_counts counts all calls. Warnings say what was assumed and
// how long the device was idle.
//
// RESOURCE_EXHAUSTED for more than 2^18 kernels; INVALID_ARGUMENT if nothing
// ran.
absl::StatusOr<TracedGraph> GraphOfTrace(const Trace& trace, std::string display_name);

// Of a file, displayed by its name without extensions.
absl::StatusOr<TracedGraph> ImportTracedFile(const std::string& path);
absl::StatusOr<Graph> ImportTraceFile(const std::string& path);

// Kernels of known operators with their median time: on the device (timing
// kernel; with the kernel's name and grid where there is one), or of the host's
// call where the trace has no device (timing eager). `source` says where rows
// come from. INVALID_ARGUMENT if there are none.
absl::StatusOr<std::vector<Measurement>> MeasurementsOfTrace(const Trace& trace, const std::string& device,
                                                             const std::string& source);

}  // namespace gpueta
