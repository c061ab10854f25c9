#include "server/handlers/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/feedback/prediction_id.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

using testing_util::MakeTestProfileFile;

class ProfilesTest : public testing::Test {
 protected:
  ProfilesTest()
      : store_(OpenStore("sqlite::memory:").value()),
        registry_(ProfileRegistry::Open(
                      *store_, {}, [] { return std::chrono::system_clock::from_time_t(100); }, limits_)
                      .value()) {}

  static v1::PublishProfileRequest Header(const std::string& parent, bool activate, std::int64_t size = 0) {
    v1::PublishProfileRequest part;
    part.mutable_header()->set_parent(parent);
    part.mutable_header()->set_activate(activate);
    part.mutable_header()->set_size_bytes(size);
    return part;
  }
  static v1::PublishProfileRequest Chunk(std::string bytes) {
    v1::PublishProfileRequest part;
    part.set_chunk(std::move(bytes));
    return part;
  }
  absl::StatusOr<v1::ProfileInfo> Publish(const std::vector<v1::PublishProfileRequest>& parts) {
    PublishAssembly assembly(limits_);
    for (const auto& part : parts) GPUETA_RETURN_IF_ERROR(assembly.Add(part));
    v1::ProfileInfo info;
    GPUETA_RETURN_IF_ERROR(assembly.Publish(*registry_, shadows_, info));
    return info;
  }
  v1::ProfileInfo PublishVariation(int variation, bool activate = true) {
    return Publish({Header("devices/t4", activate), Chunk(MakeTestProfileFile("t4", variation))}).value();
  }

  Limits limits_;
  std::unique_ptr<Store> store_;
  ShadowRuns shadows_{ProfilePolicy::kAuto, nullptr};
  std::unique_ptr<ProfileRegistry> registry_;
};

TEST_F(ProfilesTest, PutsChunksTogether) {
  const std::string file = MakeTestProfileFile("t4");
  const std::size_t third = file.size() / 3;
  const auto info =
      Publish({Header("devices/t4", true, static_cast<std::int64_t>(file.size())), Chunk(file.substr(0, third)),
               Chunk(file.substr(third, third)), Chunk(file.substr(2 * third))});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name(), "devices/t4/profiles/" + info->id());
  EXPECT_TRUE(info->active());
  EXPECT_EQ(info->size_bytes(), static_cast<std::int64_t>(file.size()));
  EXPECT_GT(info->tables_size(), 0);
  EXPECT_EQ(info->labels().at("driver"), "test");
  EXPECT_FALSE(info->etag().empty());
}

TEST_F(ProfilesTest, RefusesPartsThatMakeNoFile) {
  const std::string file = MakeTestProfileFile("t4");
  struct Case {
    std::vector<v1::PublishProfileRequest> parts;
    absl::StatusCode code;
    const char* field;
  };
  using enum absl::StatusCode;
  for (const Case& c : std::vector<Case>{
           {{}, kInvalidArgument, "header"},
           {{Chunk(file)}, kInvalidArgument, "header"},
           {{v1::PublishProfileRequest()}, kInvalidArgument, "part"},
           {{Header("t4", true)}, kInvalidArgument, "header.parent"},
           {{Header("devices/t4", true, -1)}, kInvalidArgument, "header.size_bytes"},
           {{Header("devices/t4", true, 3 << 20)}, kResourceExhausted, "header.size_bytes"},
           {{Header("devices/t4", true), Header("devices/t4", true)}, kInvalidArgument, "header"},
           {{Header("devices/t4", true, 100), Chunk(file)}, kInvalidArgument, "header.size_bytes"},
           {{Header("devices/t4", true), Chunk(std::string((1 << 20) + 1, 'x'))}, kInvalidArgument, "chunk"},
           {{Header("devices/t4", true), Chunk(std::string(1 << 20, 'x')), Chunk(std::string(1 << 20, 'x')),
             Chunk("x")},
            kResourceExhausted,
            "chunk"},
           {{Header("devices/l40s", true), Chunk(file)}, kInvalidArgument, "header.parent"}}) {
    const absl::Status status = Publish(c.parts).status();
    EXPECT_EQ(status.code(), c.code) << c.field << ": " << status;
    EXPECT_EQ(FieldOf(status), c.field) << status;
  }
  EXPECT_EQ(Publish({Header("devices/t4", true)}).status().code(), kInvalidArgument);
  EXPECT_TRUE(registry_->List("-").empty());
}

TEST_F(ProfilesTest, ActivatesByNameAndRollsBack) {
  const auto a = PublishVariation(1);
  const auto b = PublishVariation(2);
  v1::ActivateProfileRequest activate;
  activate.set_name(a.name());
  activate.set_etag(a.etag());  // no longer the active one's
  v1::ProfileInfo info;
  EXPECT_EQ(ActivateProfile(*registry_, activate, info).code(), absl::StatusCode::kAborted);
  activate.set_etag(b.etag());
  ASSERT_EQ(ActivateProfile(*registry_, activate, info), absl::OkStatus());
  EXPECT_EQ(info.id(), a.id());
  EXPECT_EQ(info.version(), 3);
  v1::RollbackProfileRequest rollback;
  rollback.set_parent("devices/t4");
  ASSERT_EQ(RollbackProfile(*registry_, rollback, info), absl::OkStatus());
  EXPECT_EQ(info.id(), b.id());
  rollback.set_parent("t4");
  EXPECT_EQ(FieldOf(RollbackProfile(*registry_, rollback, info)), "parent");
  activate.set_name("t4");
  EXPECT_EQ(FieldOf(ActivateProfile(*registry_, activate, info)), "name");
}

TEST_F(ProfilesTest, GetsInfoAndFile) {
  const auto published = PublishVariation(1);
  v1::GetProfileRequest request;
  request.set_name("devices/t4/profiles/active");
  v1::GetProfileResponse response;
  ASSERT_EQ(GetProfile(*registry_, request, response), absl::OkStatus());
  EXPECT_EQ(response.info().SerializeAsString().size(), published.SerializeAsString().size());
  EXPECT_TRUE(response.file().empty());
  request.set_view(v1::GetProfileRequest::VIEW_FULL);
  ASSERT_EQ(GetProfile(*registry_, request, response), absl::OkStatus());
  EXPECT_EQ(response.file(), MakeTestProfileFile("t4", 1));
  request.set_view(static_cast<v1::GetProfileRequest::View>(99));
  EXPECT_EQ(FieldOf(GetProfile(*registry_, request, response)), "view");
  request.set_name("devices/t4/profiles/0000");
  EXPECT_EQ(GetProfile(*registry_, request, response).code(), absl::StatusCode::kNotFound);
}

TEST_F(ProfilesTest, ListsInPages) {
  for (int v = 0; v < 3; ++v) PublishVariation(v);
  v1::ListProfilesRequest request;
  request.set_parent("devices/-");
  request.set_page_size(2);
  v1::ListProfilesResponse first, second;
  ASSERT_EQ(ListProfiles(*registry_, request, first), absl::OkStatus());
  EXPECT_EQ(first.profiles_size(), 2);
  request.set_page_token(first.next_page_token());
  ASSERT_EQ(ListProfiles(*registry_, request, second), absl::OkStatus());
  EXPECT_EQ(second.profiles_size(), 1);
  EXPECT_EQ(second.next_page_token(), "");
  request.set_parent("devices/t4/nodes/n");
  EXPECT_EQ(FieldOf(ListProfiles(*registry_, request, first)), "parent");
}

TEST_F(ProfilesTest, APromotedProfileLeavesTheOneBeforeInItsShadowAndMayBeRolledBack) {
  const v1::ProfileInfo active = PublishVariation(1);
  const v1::ProfileInfo next = PublishVariation(2, false);
  const ShadowRun promoted{.name = {{"t4", ""}, next.id()},
                           .predictor = nullptr,
                           .role = ShadowRole::kNew,
                           .against = ProfileNumber(active.id()),
                           .losses = {}};
  const auto info = TakeOver(*registry_, shadows_, promoted);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->summary.key.id, next.id());
  EXPECT_TRUE(shadows_.Losses().contains("t4"));
  const ShadowRun worse{.name = {{"t4", ""}, active.id()},
                        .predictor = nullptr,
                        .role = ShadowRole::kPrevious,
                        .against = ProfileNumber(next.id()),
                        .losses = {}};
  EXPECT_EQ(TakeOver(*registry_, shadows_, worse)->summary.key.id, active.id());
}

TEST_F(ProfilesTest, AStepThatWasDecidedBeforeSomebodyActivatedAnotherProfileIsGivenUp) {
  const v1::ProfileInfo active = PublishVariation(1);
  const v1::ProfileInfo next = PublishVariation(2, false);
  const v1::ProfileInfo chosen = PublishVariation(3);  // by hand, meanwhile
  for (const ShadowRole role : {ShadowRole::kNew, ShadowRole::kPrevious}) {
    const ShadowRun run{.name = {{"t4", ""}, next.id()},
                        .predictor = nullptr,
                        .role = role,
                        .against = ProfileNumber(active.id()),
                        .losses = {}};
    EXPECT_EQ(TakeOver(*registry_, shadows_, run).status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(registry_->Get({{"t4", ""}, "active"})->summary.key.id, chosen.id());
  }
}

}  // namespace
}  // namespace gpueta
