#include "server/store/sqlite_store.h"

#include <mutex>

#include "core/base/errors.h"
#include "server/store/sqlite.h"

namespace gpueta {
namespace {

constexpr std::int64_t kSchemaVersion = 3;

constexpr char kSchema[] = R"sql(
CREATE TABLE schema (version INTEGER NOT NULL);
CREATE TABLE profiles (
  device TEXT NOT NULL,
  node TEXT NOT NULL,
  id TEXT NOT NULL,
  published_unix_s INTEGER NOT NULL,
  summary BLOB NOT NULL,
  file BLOB NOT NULL,
  PRIMARY KEY (device, node, id)
);
CREATE TABLE activations (
  sequence INTEGER PRIMARY KEY,
  device TEXT NOT NULL,
  node TEXT NOT NULL,
  profile_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  previous INTEGER NOT NULL,
  at_unix_s INTEGER NOT NULL
);
CREATE TABLE models (hash TEXT PRIMARY KEY, graph BLOB NOT NULL);
CREATE TABLE aliases (alias TEXT PRIMARY KEY, hash TEXT NOT NULL REFERENCES models (hash));
INSERT INTO schema VALUES (1);
)sql";

// From version 1 to 2.
constexpr char kAddFeedback[] = R"sql(
CREATE TABLE feedback (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  expires_unix_s INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (kind, key)
);
UPDATE schema SET version = 2;
)sql";

// From version 2 to 3.
constexpr char kAddConfigs[] = R"sql(
ALTER TABLE models ADD COLUMN config TEXT NOT NULL DEFAULT '';
ALTER TABLE models ADD COLUMN display_name TEXT NOT NULL DEFAULT '';
UPDATE schema SET version = 3;
)sql";

// Makes the tables of a new file, or those that an older one lacks; refuses
// files of others and newer ones.
absl::Status CheckSchema(Sqlite& db) {
  GPUETA_ASSIGN_OR_RETURN(const std::string tables, db.Query("SELECT count(*) FROM sqlite_master"));
  if (tables == "0") {
    GPUETA_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db));
    GPUETA_RETURN_IF_ERROR(db.Execute(kSchema));
    GPUETA_RETURN_IF_ERROR(db.Execute(kAddFeedback));
    GPUETA_RETURN_IF_ERROR(db.Execute(kAddConfigs));
    return transaction.Commit();
  }
  GPUETA_ASSIGN_OR_RETURN(const std::string ours, db.Query("SELECT count(*) FROM sqlite_master WHERE name = 'schema'"));
  if (ours == "0")
    return FailedPrecondition("store {}: a SQLite file of another program; give another --store", db.path());
  GPUETA_ASSIGN_OR_RETURN(SqliteStatement statement, SqliteStatement::Prepare(db, "SELECT version FROM schema"));
  GPUETA_ASSIGN_OR_RETURN(const bool row, statement.Step());
  const std::int64_t version = row ? statement.Integer(0) : 0;
  if (version == 1 || version == 2) {
    GPUETA_RETURN_IF_ERROR(statement.Step().status());  // done with reading
    GPUETA_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db));
    if (version == 1) GPUETA_RETURN_IF_ERROR(db.Execute(kAddFeedback));
    GPUETA_RETURN_IF_ERROR(db.Execute(kAddConfigs));
    return transaction.Commit();
  }
  if (version > kSchemaVersion) {
    return FailedPrecondition("store {}: schema version {}, this build reads up to {}; upgrade gpueta-server",
                              db.path(), version, kSchemaVersion);
  }
  if (version < 1)
    return absl::DataLossError(
        fmt::format("store {}: the schema version is missing; restore it from a backup", db.path()));
  return absl::OkStatus();
}

class SqliteStore : public Store {
 public:
  explicit SqliteStore(Sqlite db) : db_(std::move(db)) {}

  absl::StatusOr<StoreContents> Load() override {
    const std::lock_guard lock(mutex_);
    StoreContents contents;
    const auto read = [this](const char* sql, auto add) -> absl::Status {
      GPUETA_ASSIGN_OR_RETURN(SqliteStatement rows, SqliteStatement::Prepare(db_, sql));
      for (;;) {
        GPUETA_ASSIGN_OR_RETURN(const bool row, rows.Step());
        if (!row) return absl::OkStatus();
        add(rows);
      }
    };
    GPUETA_RETURN_IF_ERROR(
        read("SELECT device, node, id, published_unix_s, summary FROM profiles ORDER BY device, node, id",
             [&](const SqliteStatement& row) {
               contents.profiles.push_back({{row.Text(0), row.Text(1), row.Text(2)}, row.Integer(3), row.Text(4), ""});
             }));
    GPUETA_RETURN_IF_ERROR(read(
        "SELECT sequence, device, node, profile_id, version, previous, at_unix_s FROM activations ORDER BY sequence",
        [&](const SqliteStatement& row) {
          contents.activations.push_back(
              {row.Integer(0), row.Text(1), row.Text(2), row.Text(3), row.Integer(4), row.Integer(5), row.Integer(6)});
        }));
    GPUETA_RETURN_IF_ERROR(
        read("SELECT hash, graph, config, display_name FROM models ORDER BY hash", [&](const SqliteStatement& row) {
          contents.models.push_back({row.Text(0), row.Text(1), row.Text(2), row.Text(3)});
        }));
    GPUETA_RETURN_IF_ERROR(read("SELECT alias, hash FROM aliases ORDER BY alias", [&](const SqliteStatement& row) {
      contents.aliases.push_back({row.Text(0), row.Text(1)});
    }));
    GPUETA_RETURN_IF_ERROR(read("SELECT kind, key, expires_unix_s, value FROM feedback ORDER BY kind, key",
                                [&](const SqliteStatement& row) {
                                  contents.feedback.push_back({row.Text(0), row.Text(1), row.Integer(2), row.Text(3)});
                                }));
    return contents;
  }

  absl::StatusOr<std::string> ReadProfileFile(const ProfileKey& key) override {
    const std::lock_guard lock(mutex_);
    GPUETA_ASSIGN_OR_RETURN(
        SqliteStatement statement,
        SqliteStatement::Prepare(db_, "SELECT file FROM profiles WHERE device = ? AND node = ? AND id = ?"));
    GPUETA_ASSIGN_OR_RETURN(const bool row, statement.Bind(key.device).Bind(key.node).Bind(key.id).Step());
    if (!row) return NotFound("store {}: no profile {} of {}", db_.path(), key.id, key.device);
    return statement.Text(0);
  }

  absl::Status Commit(const StoreChange& change) override {
    const std::lock_guard lock(mutex_);
    GPUETA_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db_));
    if (change.profile.has_value()) GPUETA_RETURN_IF_ERROR(Put(*change.profile));
    if (change.activation.has_value()) GPUETA_RETURN_IF_ERROR(Put(*change.activation));
    if (change.model.has_value()) GPUETA_RETURN_IF_ERROR(Put(*change.model));
    if (change.alias.has_value()) GPUETA_RETURN_IF_ERROR(Put(*change.alias));
    for (const FeedbackRow& row : change.feedback) GPUETA_RETURN_IF_ERROR(Put(row));
    if (change.forget_feedback_before_unix_s > 0) {
      GPUETA_ASSIGN_OR_RETURN(
          SqliteStatement forget,
          SqliteStatement::Prepare(db_, "DELETE FROM feedback WHERE expires_unix_s > 0 AND expires_unix_s < ?"));
      GPUETA_RETURN_IF_ERROR(forget.Bind(change.forget_feedback_before_unix_s).Run());
    }
    return transaction.Commit();
  }

 private:
  absl::Status Put(const StoredProfile& p) {
    GPUETA_ASSIGN_OR_RETURN(SqliteStatement insert,
                            SqliteStatement::Prepare(db_, "INSERT OR REPLACE INTO profiles VALUES (?, ?, ?, ?, ?, ?)"));
    return insert.Bind(p.key.device)
        .Bind(p.key.node)
        .Bind(p.key.id)
        .Bind(p.published_unix_s)
        .BindBlob(p.summary)
        .BindBlob(p.file)
        .Run();
  }

  absl::Status Put(const Activation& a) {
    GPUETA_ASSIGN_OR_RETURN(SqliteStatement insert,
                            SqliteStatement::Prepare(db_, "INSERT INTO activations VALUES (?, ?, ?, ?, ?, ?, ?)"));
    return insert.Bind(a.sequence)
        .Bind(a.device)
        .Bind(a.node)
        .Bind(a.profile_id)
        .Bind(a.version)
        .Bind(a.previous)
        .Bind(a.at_unix_s)
        .Run();
  }

  absl::Status Put(const StoredModel& m) {
    GPUETA_ASSIGN_OR_RETURN(SqliteStatement insert,
                            SqliteStatement::Prepare(db_, "INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?)"));
    return insert.Bind(m.hash).BindBlob(m.graph).Bind(m.config).Bind(m.display_name).Run();
  }

  absl::Status Put(const ModelAlias& a) {
    GPUETA_ASSIGN_OR_RETURN(SqliteStatement insert,
                            SqliteStatement::Prepare(db_, "INSERT OR REPLACE INTO aliases VALUES (?, ?)"));
    return insert.Bind(a.alias).Bind(a.hash).Run();
  }

  absl::Status Put(const FeedbackRow& r) {
    GPUETA_ASSIGN_OR_RETURN(SqliteStatement insert,
                            SqliteStatement::Prepare(db_, "INSERT OR REPLACE INTO feedback VALUES (?, ?, ?, ?)"));
    return insert.Bind(r.kind).Bind(r.key).Bind(r.expires_unix_s).BindBlob(r.value).Run();
  }

  std::mutex mutex_;
  Sqlite db_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path, int busy_ms) {
  GPUETA_ASSIGN_OR_RETURN(Sqlite db, Sqlite::Open(path, busy_ms));
  // Exclusive before the first access: the lock is then taken for good, and
  // the index of the log lives in memory instead of a third file.
  GPUETA_RETURN_IF_ERROR(db.Execute("PRAGMA locking_mode = EXCLUSIVE"));
  GPUETA_RETURN_IF_ERROR(db.Execute("PRAGMA journal_mode = WAL"));
  GPUETA_RETURN_IF_ERROR(db.Execute("PRAGMA synchronous = FULL"));
  GPUETA_RETURN_IF_ERROR(CheckSchema(db));
  // Fails here rather than at the first publish if the file cannot be written.
  GPUETA_RETURN_IF_ERROR(db.Execute("BEGIN IMMEDIATE; ROLLBACK"));
  return std::make_unique<SqliteStore>(std::move(db));
}

}  // namespace gpueta
