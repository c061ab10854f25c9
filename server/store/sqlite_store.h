// The store of one server, in a SQLite file.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace gpueta {

// WAL with synchronous=FULL: a commit survives kill -9 and power loss. The file
// is locked while the store is open, as the server keeps its own picture of
// what is in it; opening waits up to `busy_ms` for another process to let go of
// it. FAILED_PRECONDITION for a store of a newer version.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path, int busy_ms = 5000);

}  // namespace gpueta
