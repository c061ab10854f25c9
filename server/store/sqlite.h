// The little of SQLite that the store needs, with errors as statuses.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta {

// One connection. Not safe to use from several threads at once.
class Sqlite {
 public:
  // Waits up to `busy_ms` for locks of other processes, here and later.
  static absl::StatusOr<Sqlite> Open(const std::string& path, int busy_ms);

  // Statements without parameters and results.
  absl::Status Execute(const char* sql);
  // The first column of the first row, as text; empty if there is none.
  absl::StatusOr<std::string> Query(const char* sql);

  // The error of the last call, in words that name the path and the remedy.
  absl::Status Error(int code) const;
  const std::string& path() const { return path_; }
  sqlite3* handle() const { return db_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  Sqlite(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}

  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
};

// A prepared statement: bind the parameters in order, then step.
class SqliteStatement {
 public:
  static absl::StatusOr<SqliteStatement> Prepare(const Sqlite& db, const char* sql);

  // Text and blobs must outlive the last Step.
  SqliteStatement& Bind(std::string_view text);
  SqliteStatement& BindBlob(std::string_view bytes);
  SqliteStatement& Bind(std::int64_t number);

  // True: a row is there. False: done.
  absl::StatusOr<bool> Step();
  // Step for statements without rows.
  absl::Status Run();

  // Of the current row; blobs as their bytes.
  std::string Text(int column) const;
  std::int64_t Integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  SqliteStatement(const Sqlite& db, sqlite3_stmt* statement) : db_(&db), statement_(statement) {}

  const Sqlite* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int bind_error_ = SQLITE_OK;
};

// Rolled back on destruction unless committed.
class SqliteTransaction {
 public:
  // Takes the write lock at once.
  static absl::StatusOr<SqliteTransaction> Begin(Sqlite& db);
  SqliteTransaction(SqliteTransaction&& other) noexcept : db_(other.db_) { other.db_ = nullptr; }
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  ~SqliteTransaction();

  absl::Status Commit();

 private:
  explicit SqliteTransaction(Sqlite& db) : db_(&db) {}
  Sqlite* db_;  // nullptr once finished
};

}  // namespace gpueta
