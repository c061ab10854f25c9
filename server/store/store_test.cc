#include "server/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/base/errors.h"
#include "server/store/sqlite.h"
#include "server/store/sqlite_store.h"

namespace gpueta {
namespace {

using testing::HasSubstr;

// A path of its own for each test, gone afterwards.
class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    directory_ = fmt::format("{}/store_{}_{}", testing::TempDir(), getpid(),
                             testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
  }
  ~StoreTest() override { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ / "store.db"; }
  std::unique_ptr<Store> Open() const {
    auto store = OpenStore("sqlite:" + path());
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  std::filesystem::path directory_;
};

StoredProfile MakeProfile(const std::string& id, const std::string& file = "file bytes") {
  return {{"h100-sxm", "", id}, 1700000000, "summary of " + id, file};
}

Activation MakeActivation(std::int64_t sequence, const std::string& id) {
  return {sequence, "h100-sxm", "", id, sequence, sequence - 1, 1700000000 + sequence};
}

TEST_F(StoreTest, KeepsWhatWasCommittedAcrossRestarts) {
  const std::string binary("\0\xff\n'; DROP TABLE profiles; --", 27);
  {
    const auto store = Open();
    ASSERT_TRUE(store->Commit({.profile = MakeProfile("aa", binary), .activation = MakeActivation(1, "aa")}).ok());
    ASSERT_TRUE(store->Commit({.profile = MakeProfile("bb")}).ok());
    ASSERT_TRUE(store->Commit({.model = StoredModel{"m1", "graph"}, .alias = ModelAlias{"resnet", "m1"}}).ok());
  }
  const auto store = Open();
  const auto contents = store->Load();
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->profiles.size(), 2U);
  EXPECT_EQ(contents->profiles[0].key, (ProfileKey{"h100-sxm", "", "aa"}));
  EXPECT_EQ(contents->profiles[0].summary, "summary of aa");
  EXPECT_EQ(contents->profiles[0].file, "");
  EXPECT_EQ(contents->activations, std::vector{MakeActivation(1, "aa")});
  ASSERT_EQ(contents->models.size(), 1U);
  EXPECT_EQ(contents->models[0].graph, "graph");
  ASSERT_EQ(contents->aliases.size(), 1U);
  EXPECT_EQ(contents->aliases[0].hash, "m1");
  EXPECT_EQ(store->ReadProfileFile({"h100-sxm", "", "aa"}).value(), binary);
}

TEST_F(StoreTest, AnswersNotFoundForAProfileItLacks) {
  EXPECT_EQ(Open()->ReadProfileFile({"h100-sxm", "", "aa"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, CommitsAllOfAChangeOrNothing) {
  const auto store = Open();
  ASSERT_TRUE(store->Commit({.profile = MakeProfile("aa"), .activation = MakeActivation(1, "aa")}).ok());
  // The sequence number is taken: the second half fails.
  EXPECT_FALSE(store->Commit({.profile = MakeProfile("bb"), .activation = MakeActivation(1, "bb")}).ok());
  const auto contents = store->Load();
  ASSERT_EQ(contents->profiles.size(), 1U);
  EXPECT_EQ(contents->activations, std::vector{MakeActivation(1, "aa")});
  EXPECT_TRUE(store->Commit({.profile = MakeProfile("bb"), .activation = MakeActivation(2, "bb")}).ok());
}

TEST_F(StoreTest, MovesAnAlias) {
  const auto store = Open();
  ASSERT_TRUE(store->Commit({.model = StoredModel{"m1", "g"}, .alias = ModelAlias{"a", "m1"}}).ok());
  ASSERT_TRUE(store->Commit({.model = StoredModel{"m2", "g"}, .alias = ModelAlias{"a", "m2"}}).ok());
  const auto contents = store->Load();
  ASSERT_EQ(contents->aliases.size(), 1U);
  EXPECT_EQ(contents->aliases[0].hash, "m2");
}

TEST_F(StoreTest, MemoryStoresForget) {
  auto store = OpenStore("sqlite::memory:");
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Commit({.profile = MakeProfile("aa")}).ok());
  EXPECT_EQ((*store)->Load()->profiles.size(), 1U);
  store = OpenStore("sqlite::memory:");
  EXPECT_EQ((*store)->Load()->profiles.size(), 0U);
}

TEST_F(StoreTest, RefusesASecondServerOnTheSameFile) {
  const auto store = Open();
  ASSERT_TRUE(store->Commit({.profile = MakeProfile("aa")}).ok());
  const auto second = OpenSqliteStore(path(), /*busy_ms=*/0);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(second.status()), AllOf(HasSubstr(path()), HasSubstr("another process")));
}

TEST_F(StoreTest, AStoreFromBeforeObservationsTakesThem) {
  ASSERT_TRUE(Open()->Commit({.profile = MakeProfile("aa")}).ok());
  {
    auto db = Sqlite::Open(path(), 0);
    ASSERT_TRUE(db->Execute("DROP TABLE feedback; ALTER TABLE models DROP COLUMN config; ALTER TABLE models DROP "
                            "COLUMN display_name; UPDATE schema SET version = 1")
                    .ok());
  }
  const auto store = Open();
  EXPECT_EQ(store->Load()->profiles.size(), 1U);
  EXPECT_TRUE(store->Commit({.feedback = {{"bucket", "a", 100, "value"}}}).ok());
  EXPECT_EQ(store->Load()->feedback.size(), 1U);
}

TEST_F(StoreTest, KeepsWhatObservationsTaughtUntilItExpires) {
  const auto store = Open();
  ASSERT_TRUE(
      store->Commit({.feedback = {{"bucket", "a", 100, "one"}, {"bucket", "b", 200, "two"}, {"key", "a", 0, "three"}}})
          .ok());
  ASSERT_TRUE(store->Commit({.feedback = {{"bucket", "a", 100, "four"}}}).ok());
  auto rows = store->Load()->feedback;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].value, "four");
  ASSERT_TRUE(store->Commit({.forget_feedback_before_unix_s = 150}).ok());
  rows = store->Load()->feedback;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].key, "b");
  EXPECT_EQ(rows[1].kind, "key");
}

TEST_F(StoreTest, RefusesANewerSchema) {
  Open();
  {
    auto db = Sqlite::Open(path(), 0);
    ASSERT_TRUE(db->Execute("UPDATE schema SET version = 4").ok());
  }
  const auto store = OpenSqliteStore(path());
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(store.status()), AllOf(HasSubstr("version 4"), HasSubstr("upgrade")));
}

TEST_F(StoreTest, RefusesTheDatabaseOfAnotherProgram) {
  {
    auto db = Sqlite::Open(path(), 0);
    ASSERT_TRUE(db->Execute("CREATE TABLE theirs (x)").ok());
  }
  EXPECT_EQ(OpenSqliteStore(path()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StoreTest, RefusesAFileThatIsNoDatabase) {
  std::ofstream(path()) << std::string(5000, 'x');
  const auto store = OpenSqliteStore(path());
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(store.status()), AllOf(HasSubstr(path()), HasSubstr("restore")));
}

TEST_F(StoreTest, ReportsADamagedFile) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Commit({.profile = MakeProfile("aa", std::string(100'000, 'f'))}).ok());
  }
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);  // behind the file header: the root page of the schema
    file << std::string(20'000, '\x5a');
  }
  const auto store = OpenSqliteStore(path());
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
}

TEST_F(StoreTest, ReportsAPlaceThatCannotBeWritten) {
  // Nobody, not even root, can make files here.
  const auto store = OpenSqliteStore("/proc/self/store.db");
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition) << store.status();
  EXPECT_THAT(MessageOf(store.status()), AllOf(HasSubstr("/proc/self/store.db"), HasSubstr("write access")));
}

// No file may grow beyond a size while this lives: to SQLite as if the disk
// (or the quota) were full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit low{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(StoreTest, AFullDiskLeavesTheStoreAsItWas) {
  const auto store = Open();
  ASSERT_TRUE(store->Commit({.profile = MakeProfile("aa"), .activation = MakeActivation(1, "aa")}).ok());
  const StoreChange change = {.profile = MakeProfile("bb", std::string(1'000'000, 'f')),
                              .activation = MakeActivation(2, "bb")};
  {
    const FullDisk full(500'000);
    const absl::Status status = store->Commit(change);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(MessageOf(status), AllOf(HasSubstr(path()), HasSubstr("disk is full")));
    EXPECT_EQ(store->Load()->profiles.size(), 1U);
    EXPECT_EQ(store->Load()->activations.size(), 1U);
  }
  EXPECT_TRUE(store->Commit(change).ok());
  EXPECT_EQ(store->Load()->profiles.size(), 2U);
}

TEST(OpenStoreTest, RefusesWhatItDoesNotKnow) {
  for (const char* where : {"", "sqlite:", "redis:host", "/tmp/x.db", "etcd:localhost:2379"}) {
    const auto store = OpenStore(where);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument) << where;
    EXPECT_THAT(MessageOf(store.status()), HasSubstr("--store")) << where;
  }
  EXPECT_THAT(MessageOf(OpenStore("etcd:localhost:2379").status()), HasSubstr("not in this build yet"));
}

}  // namespace
}  // namespace gpueta
