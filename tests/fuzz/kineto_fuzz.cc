// Any text as a PyTorch profiler trace: refused, or a valid graph and rows.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>

#include "core/importers/traces/kineto_reader.h"
#include "core/importers/traces/trace_importer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  const absl::StatusOr<gpueta::Trace> trace = gpueta::ReadKinetoTrace(in);
  if (!trace.ok()) return 0;
  const absl::StatusOr<gpueta::TracedGraph> graph = gpueta::GraphOfTrace(*trace, "fuzzed");
  if (graph.ok() && !gpueta::Validate(graph->graph).ok()) std::abort();
  const auto rows = gpueta::MeasurementsOfTrace(*trace, "t4", "fuzzed");
  if (!rows.ok()) return 0;
  for (const gpueta::Measurement& row : *rows) {
    if (!(row.latency_us > 0) || !gpueta::Validate(row.kernel).ok()) std::abort();
  }
  return 0;
}
