// Copies of chosen rows of a file.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>

#include "absl/status/status.h"

namespace gpueta {

// Copies the first line of `in` and then the given lines, byte for byte, in the
// order given. Lines are counted as in Measurement.line: the header is 1, the
// first row 2. INVALID_ARGUMENT for a line below 2 or past the end; UNAVAILABLE
// when a stream fails. Holds the chosen lines in memory.
absl::Status CopyLines(std::istream& in, std::span<const std::int64_t> lines, std::ostream& out);

}  // namespace gpueta
