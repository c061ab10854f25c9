// PyTorch profiler traces: the JSON that torch.profiler's export_chrome_trace
// writes (Kineto; the Chrome trace event format).
#pragma once

#include <istream>

#include "absl/status/statusor.h"
#include "core/importers/traces/trace.h"

namespace gpueta {

// Reads event by event: memory goes with the number of events, not with the
// size of the text. INVALID_ARGUMENT saying where for text that is no such
// JSON or has no events; RESOURCE_EXHAUSTED for more than kMaxTraceEvents.
absl::StatusOr<Trace> ReadKinetoTrace(std::istream& in);

}  // namespace gpueta
