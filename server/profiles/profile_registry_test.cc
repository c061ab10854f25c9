#include "server/profiles/profile_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_util::MakeTestProfile;
using testing_util::MakeTestProfileFile;

// A store that can be told to fail.
class FakeStore : public Store {
 public:
  FakeStore() : store_(OpenStore("sqlite::memory:").value()) {}
  absl::StatusOr<StoreContents> Load() override { return store_->Load(); }
  absl::StatusOr<std::string> ReadProfileFile(const ProfileKey& key) override {
    if (damaged) return std::string("damaged");
    return store_->ReadProfileFile(key);
  }
  absl::Status Commit(const StoreChange& change) override {
    return commit_error.ok() ? store_->Commit(change) : commit_error;
  }

  absl::Status commit_error;
  bool damaged = false;

 private:
  std::unique_ptr<Store> store_;
};

LoadedProfile FileProfile(const std::string& slug, int variation = 0) {
  return ParseProfile(MakeTestProfileFile(slug, variation)).value();
}

class ProfileRegistryTest : public testing::Test {
 protected:
  std::unique_ptr<ProfileRegistry> Open(std::vector<LoadedProfile> files = {}) {
    auto registry = ProfileRegistry::Open(
        store_, std::move(files), [] { return std::chrono::system_clock::from_time_t(5000); }, limits_);
    EXPECT_TRUE(registry.ok()) << registry.status();
    return *std::move(registry);
  }
  static std::string Serving(const ProfileRegistry& registry, const std::string& slug,
                             const std::map<std::string, std::string>& labels = {}) {
    const auto predictor = registry.Serving()->Find(slug, labels).value();
    return predictor->profile() == nullptr ? "" : predictor->profile()->id;
  }

  FakeStore store_;
  Limits limits_;
};

TEST_F(ProfileRegistryTest, PublishesWithoutActivating) {
  const auto registry = Open();
  const auto info = registry->Publish({"t4", ""}, MakeTestProfileFile("t4"), false);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_FALSE(info->active);
  EXPECT_EQ(info->version, 0);
  EXPECT_EQ(info->summary.published_unix_s, 5000);
  EXPECT_EQ(Serving(*registry, "t4"), "");
  EXPECT_EQ(registry->swaps(), 0);
}

TEST_F(ProfileRegistryTest, PublishesAndActivates) {
  const auto registry = Open();
  const auto info = registry->Publish({"t4", ""}, MakeTestProfileFile("t4"), true);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->active);
  EXPECT_EQ(info->version, 1);
  EXPECT_EQ(Serving(*registry, "t4"), info->summary.key.id);
  EXPECT_EQ(registry->Serving()->Find("t4", {}).value()->version(), 1);
  EXPECT_EQ(registry->swaps(), 1);
}

TEST_F(ProfileRegistryTest, TheSameContentIsTheSameProfile) {
  const auto registry = Open();
  const auto first = registry->Publish({"t4", ""}, MakeTestProfileFile("t4"), true).value();
  const auto second = registry->Publish({"t4", ""}, MakeTestProfileFile("t4"), true).value();
  EXPECT_EQ(EtagOf(first), EtagOf(second));
  EXPECT_EQ(registry->List("t4").size(), 1U);
  EXPECT_EQ(registry->swaps(), 1);
}

TEST_F(ProfileRegistryTest, PublishingAStoredProfileAgainCanActivateIt) {
  const auto registry = Open();
  registry->Publish({"t4", ""}, MakeTestProfileFile("t4"), false).value();
  EXPECT_TRUE(registry->Publish({"t4", ""}, MakeTestProfileFile("t4"), true)->active);
}

TEST_F(ProfileRegistryTest, AFileThatWasPublishedTooIsActiveAgainAfterARollback) {
  const auto registry = Open({FileProfile("t4", 1)});
  const std::string id = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 1), false)->summary.key.id;
  ASSERT_TRUE(registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 2), true).ok());
  ASSERT_TRUE(registry->Rollback({"t4", ""}, "").ok());
  EXPECT_EQ(Serving(*registry, "t4"), id);
  std::vector<std::string> active;
  for (const ProfileInfo& info : registry->List("t4")) {
    if (info.active) active.push_back(info.summary.key.id);
  }
  EXPECT_THAT(active, ElementsAre(id));
}

TEST_F(ProfileRegistryTest, ActivatesAndRollsBack) {
  const auto registry = Open();
  const std::string a = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 1), true)->summary.key.id;
  const std::string b = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 2), false)->summary.key.id;
  EXPECT_EQ(Serving(*registry, "t4"), a);
  EXPECT_EQ(registry->Activate({{"t4", ""}, b}, "")->version, 2);
  EXPECT_EQ(Serving(*registry, "t4"), b);
  const auto back = registry->Rollback({"t4", ""}, "");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->summary.key.id, a);
  EXPECT_EQ(back->version, 3);
  EXPECT_EQ(Serving(*registry, "t4"), a);
  EXPECT_EQ(registry->Rollback({"t4", ""}, "").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ProfileRegistryTest, ActsOnlyOnTheStateThatWasSeen) {
  const auto registry = Open();
  const auto a = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 1), true).value();
  const auto b = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 2), true).value();
  EXPECT_EQ(registry->Rollback({"t4", ""}, EtagOf(a)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(registry->Activate({{"t4", ""}, a.summary.key.id}, EtagOf(a)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Serving(*registry, "t4"), b.summary.key.id);
  EXPECT_TRUE(registry->Rollback({"t4", ""}, EtagOf(b)).ok());
}

TEST_F(ProfileRegistryTest, SurvivesARestart) {
  std::string active;
  {
    const auto registry = Open();
    registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 1), true).value();
    active = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 2), true)->summary.key.id;
    registry->Publish({"l40s", ""}, MakeTestProfileFile("l40s"), false).value();
  }
  const auto registry = Open();
  EXPECT_EQ(Serving(*registry, "t4"), active);
  EXPECT_EQ(registry->Serving()->Find("t4", {}).value()->version(), 2);
  EXPECT_EQ(registry->List("-").size(), 3U);
  EXPECT_EQ(registry->Rollback({"t4", ""}, "")->version, 3);
}

TEST_F(ProfileRegistryTest, PublishedProfilesWinOverFilesOfTheSameLabels) {
  const auto registry = Open({FileProfile("t4", 1)});
  const std::string file = Serving(*registry, "t4");
  EXPECT_NE(file, "");
  EXPECT_EQ(registry->Serving()->Find("t4", {}).value()->version(), 0);
  const std::string published = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 2), true)->summary.key.id;
  EXPECT_EQ(Serving(*registry, "t4"), published);
  EXPECT_FALSE(registry->Get({{"t4", ""}, file})->active);
  // And back to the file.
  const auto back = registry->Rollback({"t4", ""}, "");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->summary.key.id, file);
  EXPECT_EQ(Serving(*registry, "t4"), file);
}

TEST_F(ProfileRegistryTest, WithoutLabelsAPublishedProfileAnswersBeforeFilesOfOtherLabels) {
  const auto registry = Open({FileProfile("t4", 1)});
  const std::string file = Serving(*registry, "t4");
  Profile other = MakeTestProfile("t4", 2);
  other.labels = {{"driver", "other"}};
  const std::string published = registry->Publish({"t4", ""}, SerializeProfile(other), true)->summary.key.id;
  EXPECT_EQ(Serving(*registry, "t4"), published);
  EXPECT_EQ(Serving(*registry, "t4", {{"driver", "test"}}), file);
}

TEST_F(ProfileRegistryTest, NodesHaveProfilesOfTheirOwn) {
  const auto registry = Open();
  const std::string of_class = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 1), true)->summary.key.id;
  const std::string of_node = registry->Publish({"t4", "n1"}, MakeTestProfileFile("t4", 2), true)->summary.key.id;
  EXPECT_EQ(Serving(*registry, "t4"), of_class);
  EXPECT_EQ(Serving(*registry, "t4", {{"node", "n1"}}), of_node);
  EXPECT_EQ(registry->Get({{"t4", "n1"}, "active"})->summary.key.id, of_node);
}

TEST_F(ProfileRegistryTest, LeavesOutASecondFileOfTheSameLabels) {
  const auto registry = Open({FileProfile("t4", 1), FileProfile("t4", 2)});
  EXPECT_EQ(registry->List("t4").size(), 1U);
}

TEST_F(ProfileRegistryTest, AnAliasNamesTheSameDevice) {
  for (const CatalogueEntry& entry : Catalogue::BuiltIn().entries()) {
    if (entry.aliases.empty()) continue;
    const std::string alias = entry.aliases.front();
    const auto registry = Open();
    const auto info = registry->Publish({alias, ""}, MakeTestProfileFile(alias), true);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->summary.key.device, entry.spec.slug);
    EXPECT_EQ(Serving(*registry, alias), info->summary.key.id);
    EXPECT_EQ(Serving(*registry, entry.spec.slug), info->summary.key.id);
    return;
  }
}

TEST_F(ProfileRegistryTest, RefusedProfilesChangeNothing) {
  const auto registry = Open();
  const std::string good = MakeTestProfileFile("t4");
  Profile nan = MakeTestProfile("t4");
  nan.tables[0].variants[0].theta[0] = NAN;
  struct Case {
    const char* what;
    std::string device;
    std::string file;
    absl::StatusCode code;
  };
  for (const Case& c : {Case{"cut short", "t4", good.substr(0, good.size() / 2), absl::StatusCode::kInvalidArgument},
                        Case{"not a number", "t4", SerializeProfile(nan), absl::StatusCode::kInvalidArgument},
                        Case{"another device", "l40s", good, absl::StatusCode::kInvalidArgument},
                        Case{"too large", "t4", std::string(3 << 20, 'x'), absl::StatusCode::kResourceExhausted}}) {
    EXPECT_EQ(registry->Publish({c.device, ""}, c.file, true).status().code(), c.code) << c.what;
  }
  EXPECT_TRUE(registry->List("-").empty());
  EXPECT_TRUE(store_.Load()->profiles.empty());
  EXPECT_EQ(registry->swaps(), 0);
}

TEST_F(ProfileRegistryTest, AStoreThatFailsChangesNothing) {
  const auto registry = Open();
  const auto a = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 1), true).value();
  store_.commit_error = ResourceExhausted("the disk is full");
  EXPECT_EQ(registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 2), true).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Serving(*registry, "t4"), a.summary.key.id);
  EXPECT_EQ(registry->List("t4").size(), 1U);
  store_.commit_error = absl::OkStatus();
  EXPECT_EQ(registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 2), true)->version, 2);
}

TEST_F(ProfileRegistryTest, LimitsTheNumberOfProfiles) {
  limits_.profiles = 1;
  const auto registry = Open();
  registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 1), true).value();
  const auto second = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 2), true);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(LimitOf(second.status()), "profiles");
}

TEST_F(ProfileRegistryTest, StartsWithoutAProfileThatWentBadAndRepairsItWhenPublishedAgain) {
  Open()->Publish({"t4", ""}, MakeTestProfileFile("t4"), true).value();
  store_.damaged = true;
  const auto registry = Open();
  EXPECT_EQ(Serving(*registry, "t4"), "");
  store_.damaged = false;
  const auto again = registry->Publish({"t4", ""}, MakeTestProfileFile("t4"), true);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Serving(*registry, "t4"), again->summary.key.id);
}

TEST_F(ProfileRegistryTest, AnswersNotFound) {
  const auto registry = Open({FileProfile("t4")});
  EXPECT_EQ(registry->Get({{"t4", ""}, "0123"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(registry->Get({{"l40s", ""}, "active"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(registry->Activate({{"t4", ""}, "0123"}, "").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(registry->Activate({{"t4", ""}, "active"}, "").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ProfileRegistryTest, ReturnsTheFileThatWasPublished) {
  const auto registry = Open({FileProfile("l40s")});
  const std::string bytes = MakeTestProfileFile("t4");
  registry->Publish({"t4", ""}, bytes, true).value();
  EXPECT_EQ(registry->ReadFile({{"t4", ""}, "active"}).value(), bytes);
  EXPECT_EQ(registry->ReadFile({{"l40s", ""}, "active"}).value(), MakeTestProfileFile("l40s"));
}

TEST_F(ProfileRegistryTest, TellsSubscribersWhatIsActiveAndThenEveryChange) {
  const auto registry = Open({FileProfile("l40s")});
  registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 1), true).value();
  std::vector<std::string> all, of_t4;
  const auto record = [](std::vector<std::string>& into) {
    return [&into](const ProfileEvent& event) {
      constexpr const char* kNames[] = {"active", "published", "activated", "rolled back"};
      into.push_back(event.profile.summary.key.device + " " + kNames[static_cast<int>(event.change)]);
    };
  };
  const auto first = registry->Subscribe("-", record(all));
  registry->Subscribe("t4", record(of_t4));
  const std::string b = registry->Publish({"t4", ""}, MakeTestProfileFile("t4", 2), false)->summary.key.id;
  registry->Activate({{"t4", ""}, b}, "").value();
  registry->Unsubscribe(first);
  registry->Rollback({"t4", ""}, "").value();
  registry->Publish({"v100-sxm2", ""}, MakeTestProfileFile("v100-sxm2"), true).value();
  EXPECT_THAT(all, ElementsAre("l40s active", "t4 active", "t4 published", "t4 activated"));
  EXPECT_THAT(of_t4, ElementsAre("t4 active", "t4 published", "t4 activated", "t4 rolled back"));
}

TEST_F(ProfileRegistryTest, ListsWarningsOfWeakTables) {
  Profile profile = MakeTestProfile("t4");
  profile.tables[0].rows = 3;
  profile.tables[1].cv_mape = 0.8F;
  const auto info = Open()->Publish({"t4", ""}, SerializeProfile(profile), false);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_THAT(info->summary.warnings, ElementsAre(HasSubstr("only 3 measurements"), HasSubstr("80 %")));
  EXPECT_EQ(ParseSummary(info->summary.key, SerializeSummary(info->summary))->warnings, info->summary.warnings);
}

}  // namespace
}  // namespace gpueta
