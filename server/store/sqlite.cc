#include "server/store/sqlite.h"

#include <cerrno>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// SQLite has a code of its own only for ENOSPC. For a commit that failed it
// keeps no errno, but the C library's is still that of the write.
bool IsOutOfSpace(int code, int error) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  return code == SQLITE_IOERR_WRITE && (error == ENOSPC || error == EDQUOT || error == EFBIG);
}

}  // namespace

absl::StatusOr<Sqlite> Sqlite::Open(const std::string& path, int busy_ms) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  Sqlite db(path, handle);
  if (code != SQLITE_OK) return db.Error(code);
  // SQLite falls back to reading where it may not write.
  if (sqlite3_db_readonly(handle, "main") == 1) return db.Error(SQLITE_READONLY);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, busy_ms);
  return db;
}

absl::Status Sqlite::Execute(const char* sql) {
  const int code = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<std::string> Sqlite::Query(const char* sql) {
  GPUETA_ASSIGN_OR_RETURN(SqliteStatement statement, SqliteStatement::Prepare(*this, sql));
  GPUETA_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Text(0) : std::string();
}

absl::Status Sqlite::Error(int code) const {
  const bool out_of_space = IsOutOfSpace(code, errno);
  // The code may be ours rather than of the last call.
  const bool is_last = db_ != nullptr && sqlite3_errcode(db_.get()) == code;
  const char* detail = is_last ? sqlite3_errmsg(db_.get()) : sqlite3_errstr(code);
  if (out_of_space) {
    return ResourceExhausted("store {}: the disk is full; nothing was changed; free space and try again ({})", path_,
                             detail);
  }
  switch (code & 0xff) {  // the primary code
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return FailedPrecondition(
          "store {}: cannot be written; nothing was changed; give the server write access to the file and its "
          "directory, "
          "or another --store ({})",
          path_, detail);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Unavailable("store {}: another process holds it; stop that process or give another --store ({})", path_,
                         detail);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(
          fmt::format("store {}: damaged, or not a SQLite file; restore it from a backup or give another --store ({})",
                      path_, detail));
    default: return Internal("store {}: {}", path_, detail);
  }
}

absl::StatusOr<SqliteStatement> SqliteStatement::Prepare(const Sqlite& db, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(db.handle(), sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) return db.Error(code);
  return SqliteStatement(db, statement);
}

SqliteStatement& SqliteStatement::Bind(std::string_view text) {
  const int code =
      sqlite3_bind_text64(statement_.get(), ++bound_, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) bind_error_ = code;
  return *this;
}

SqliteStatement& SqliteStatement::BindBlob(std::string_view bytes) {
  const int code = sqlite3_bind_blob64(statement_.get(), ++bound_, bytes.data(), bytes.size(), SQLITE_STATIC);
  if (code != SQLITE_OK) bind_error_ = code;
  return *this;
}

SqliteStatement& SqliteStatement::Bind(std::int64_t number) {
  const int code = sqlite3_bind_int64(statement_.get(), ++bound_, number);
  if (code != SQLITE_OK) bind_error_ = code;
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  if (bind_error_ != SQLITE_OK) return db_->Error(bind_error_);
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return db_->Error(code);
}

absl::Status SqliteStatement::Run() { return Step().status(); }

std::string SqliteStatement::Text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return size == 0 ? std::string() : std::string(bytes, size);
}

absl::StatusOr<SqliteTransaction> SqliteTransaction::Begin(Sqlite& db) {
  GPUETA_RETURN_IF_ERROR(db.Execute("BEGIN IMMEDIATE"));
  return SqliteTransaction(db);
}

absl::Status SqliteTransaction::Commit() {
  GPUETA_RETURN_IF_ERROR(db_->Execute("COMMIT"));
  db_ = nullptr;
  return absl::OkStatus();
}

SqliteTransaction::~SqliteTransaction() {
  // SQLite rolls back by itself after some errors; a second time is an error
  // that means nothing.
  if (db_ != nullptr && sqlite3_get_autocommit(db_->handle()) == 0) db_->Execute("ROLLBACK").IgnoreError();
}

}  // namespace gpueta
