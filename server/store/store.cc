#include "server/store/store.h"

#include "core/base/errors.h"
#include "server/store/sqlite_store.h"

namespace gpueta {

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& where) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (where.starts_with(kSqlite) && where.size() > kSqlite.size()) return OpenSqliteStore(where.substr(kSqlite.size()));
  if (where.starts_with("etcd:")) {
    return InvalidArgument("--store {}: etcd is not in this build yet; use --store sqlite:PATH", where);
  }
  return InvalidArgument("--store {}: give sqlite:PATH or sqlite::memory:", where);
}

}  // namespace gpueta
