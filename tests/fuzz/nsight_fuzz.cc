// Any bytes as an SQLite file of Nsight Systems: refused, or a trace of which a
// graph can be asked for.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/importers/traces/nsight_reader.h"
#include "core/importers/traces/trace_importer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("fuzzed", MFD_CLOEXEC);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  const absl::StatusOr<gpueta::Trace> trace = gpueta::ReadNsightTrace("/proc/self/fd/" + std::to_string(file));
  close(file);
  if (!trace.ok()) return 0;
  const absl::StatusOr<gpueta::TracedGraph> graph = gpueta::GraphOfTrace(*trace, "fuzzed");
  if (graph.ok() && !gpueta::Validate(graph->graph).ok()) std::abort();
  (void)gpueta::MeasurementsOfTrace(*trace, "t4", "fuzzed");
  return 0;
}
