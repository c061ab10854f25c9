// Files read and written as a whole.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta {

// NOT_FOUND if there is no such file, else UNAVAILABLE; errors begin with the path.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// All or nothing: writes beside `path`, then renames; what is no regular file
// (a pipe, /dev/stdout) is written in place. UNAVAILABLE if it cannot be
// written, for example on a full or read-only disk.
absl::Status WriteWholeFile(const std::string& path, std::string_view bytes);

}  // namespace gpueta
