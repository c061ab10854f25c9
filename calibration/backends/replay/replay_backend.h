// A device that answers from a measurement CSV: for tests, and for studying
// which shapes are worth measuring.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"

namespace gpueta {

// Reads the whole file. Latencies have the timing and source of their rows;
// where a kernel has several rows, they are the median. Describe() answers from
// the catalogue, or with the slug alone for a device it does not know.
//
// A kernel is looked up by its work, dtype and label (LabelOf). Prepare fails
// with NOT_FOUND for one without rows, and with FAILED_PRECONDITION for one
// with rows of several timings, of which none is the right one.
//
// INVALID_ARGUMENT for a file without rows or with rows of several devices, and
// as ReadMeasurements.
absl::StatusOr<std::unique_ptr<Backend>> OpenReplayBackend(const std::string& path);

}  // namespace gpueta
