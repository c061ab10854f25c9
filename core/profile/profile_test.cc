#include "core/profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/profile/model_residual.h"
#include "core/profile/transfer.h"
#include "core/testing/test_profile.h"
#include "core/wire/profile_codec.h"
#include "gpueta/v1/profile.pb.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;
using testing::MakeTestProfile;

Profile FullProfile() {
  Profile profile = MakeTestProfile("h100-sxm");
  profile.labels = {{"driver", "550"}, {"library", "x"}};
  profile.host_issue_us = 5;
  Table& table = profile.tables[0];
  const std::size_t inputs = FormInfoOf(table.key.op, table.key.phase).features.size() + table.variants.size();
  table.residual.feature_mean.assign(inputs, 1.0F);
  table.residual.feature_scale.assign(inputs, 0.5F);
  table.residual.hidden = {4};
  table.residual.weights.assign((inputs + 1) * 4 + 5, 0.01F);
  table.measured_hash = {3, 77, 1000};
  table.measured_ln = {0.1F, -0.2F, 0.0F};
  table.kernel_configs.push_back({.kernel = "ampere_sgemm_128x64_nn",
                                  .tile_m = 128,
                                  .tile_n = 64,
                                  .resident_blocks = 2,
                                  .coefficients = {1, 0, 1.2F, 0, 0.5F},
                                  .rows = 40,
                                  .error_ln = 0.05F,
                                  .selection_ln = -0.5F});
  WholeModel& whole = profile.whole_model;
  for (const ParamSpec& param : WholeModelParams()) whole.theta.push_back(param.start);
  for (std::size_t v = 0; v < WholeModel::kDepartures; ++v) whole.departure[v] = DepartureParams()[v].start;
  whole.machines = {{"titan-xp", "torchvision", whole.departure, 30}};
  whole.covariance[0][0] = 0.04;
  whole.models = {.points = std::vector<float>(2 * kModelFeatures, 0.25F),
                  .weights = {0.5F, -0.5F},
                  .alike_variance = 0.01,
                  .alike_length = 0.4,
                  .same_variance = 0.02,
                  .noise_variance = 0.005};
  profile.end_to_end = {
      {.slope = 1e-7, .constant_us = 300, .min_flops = 1e9, .max_flops = 1e12, .error_ln = 0.2, .rows = 9},
      {.training = true, .slope = 2e-7, .min_flops = 1e9, .max_flops = 1e12, .error_ln = 0.3, .rows = 4}};
  return profile;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "profile_test.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return (std::filesystem::path(path_) / name).string(); }

 private:
  std::string path_;
};

TEST(ProfileFileTest, SerialiseAndParseIsTheIdentity) {
  const Profile profile = FullProfile();
  const std::string bytes = SerializeProfile(profile);
  const auto loaded = ParseProfile(bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(SerializeProfile(loaded->profile), bytes);
  EXPECT_EQ(loaded->profile.labels, profile.labels);
  EXPECT_EQ(loaded->profile.tables[0].residual, profile.tables[0].residual);
  EXPECT_EQ(loaded->profile.tables[0].kernel_configs, profile.tables[0].kernel_configs);
  EXPECT_EQ(loaded->profile.spec, profile.spec);
  EXPECT_EQ(loaded->id.size(), 16u);
}

TEST(ProfileFileTest, IdDependsOnContentAlone) {
  Profile other = FullProfile();
  EXPECT_EQ(ParseProfile(SerializeProfile(other))->id, ParseProfile(SerializeProfile(FullProfile()))->id);
  other.tables[0].variants[0].theta[1] += 0.01F;
  EXPECT_NE(ParseProfile(SerializeProfile(other))->id, ParseProfile(SerializeProfile(FullProfile()))->id);
}

TEST(ProfileFileTest, RefusesEveryTruncation) {
  const std::string bytes = SerializeProfile(FullProfile());
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    EXPECT_EQ(ParseProfile(bytes.substr(0, size)).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(ProfileFileTest, RefusesADamagedByte) {
  std::string bytes = SerializeProfile(FullProfile());
  bytes[bytes.size() / 2] ^= 0x10;
  const auto loaded = ParseProfile(bytes);
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ProfileFileTest, RefusesANewerSchemaSayingToUpgrade) {
  v1::ProfileFile file;
  ASSERT_TRUE(file.ParseFromString(SerializeProfile(FullProfile())));
  file.set_schema_version(kProfileSchemaVersion + 1);
  const auto loaded = ParseProfile(file.SerializeAsString());
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(loaded.status()), HasSubstr("upgrade"));
}

TEST(ProfileFileTest, RefusesMoreThanTwoMegabytes) {
  EXPECT_THAT(MessageOf(ParseProfile(std::string(kMaxProfileBytes + 1, 'x')).status()), HasSubstr("at most"));
}

TEST(ProfileFileTest, SaveIsAllOrNothing) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("a.profile");
  ASSERT_TRUE(SaveProfile(FullProfile(), path).ok());
  EXPECT_EQ(LoadProfile(path)->profile.device, "h100-sxm");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  EXPECT_EQ(SaveProfile(FullProfile(), directory.File("missing/a.profile")).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(ProfileFileTest, ErrorsNameThePath) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("bad.profile");
  std::ofstream(path) << "not a profile";
  EXPECT_THAT(MessageOf(LoadProfile(path).status()), HasSubstr("bad.profile"));
  EXPECT_THAT(MessageOf(LoadProfileDirectory(directory.File("")).status()), HasSubstr("bad.profile"));
  EXPECT_EQ(LoadProfile(directory.File("none")).status().code(), absl::StatusCode::kNotFound);
}

struct Damage {
  const char* name;
  void (*apply)(Profile&);
  const char* says;
};

class RefusesBadProfile : public ::testing::TestWithParam<Damage> {};

TEST_P(RefusesBadProfile, NamingTheField) {
  Profile profile = FullProfile();
  GetParam().apply(profile);
  const absl::Status status = CheckStructure(profile);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().says));
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

INSTANTIATE_TEST_SUITE_P(
    Profiles, RefusesBadProfile,
    ::testing::Values(
        Damage{"NoDevice", [](Profile& p) { p.device.clear(); }, "device"},
        Damage{"NanParameter", [](Profile& p) { p.tables[0].variants[0].theta[2] = kNan; }, "read of \"*\" is nan"},
        Damage{"NegativeCompute", [](Profile& p) { p.tables[0].variants[0].theta[1] = -1; }, "must be between"},
        Damage{"MissingParameter", [](Profile& p) { p.tables[0].variants[0].theta.pop_back(); }, "parameters, has"},
        Damage{"NoDefaultVariant", [](Profile& p) { p.tables[0].variants[0].label = "x"; }, "label *"},
        Damage{"RepeatedLabel", [](Profile& p) { p.tables[0].variants[1].label = "*"; }, "occurs twice"},
        Damage{"ShortResidual", [](Profile& p) { p.tables[0].residual.weights.pop_back(); }, "residual.weights"},
        Damage{"ShortSpread", [](Profile& p) { p.tables[0].residual.spread_weights = {1}; }, "residual.spread_weights"},
        Damage{"NanResidual", [](Profile& p) { p.tables[0].residual.weights[0] = kNan; }, "not finite"},
        Damage{"WideLayer", [](Profile& p) { p.tables[0].residual.hidden[0] = 100000; }, "width"},
        Damage{"CrossedInterval", [](Profile& p) { p.tables[0].interval.p99_ln = 0.1F; }, "p99"},
        Damage{"EmptyHull", [](Profile& p) { p.tables[0].dim_min[1] = 1e9; }, "hull of m is empty"},
        Damage{"UnsortedHashes", [](Profile& p) { p.tables[0].measured_hash[0] = 5000; }, "sorted"},
        Damage{"NegativeCoefficient", [](Profile& p) { p.tables[0].kernel_configs[0].coefficients[1] = -1; },
               "not negative"},
        Damage{"NanSelection", [](Profile& p) { p.tables[0].kernel_configs[0].selection_ln = kNan; },
               "kernel_configs.selection_ln"},
        Damage{"ShortTheta", [](Profile& p) { p.whole_model.theta.pop_back(); }, "whole_model.theta"},
        Damage{"FarDeparture", [](Profile& p) { p.whole_model.machines[0].departure[0] = 9; }, "machines.departure"},
        Damage{"ShortModels", [](Profile& p) { p.whole_model.models.points.pop_back(); }, "whole_model.models.points"},
        Damage{"NegativeSlope", [](Profile& p) { p.end_to_end[0].slope = -1; }, "end_to_end[0] (fp32 inference).slope"},
        Damage{"NanConstant", [](Profile& p) { p.end_to_end[1].constant_us = kNan; }, "end_to_end[1] (fp32 training)"},
        Damage{"EmptyHullOfSteps", [](Profile& p) { p.end_to_end[0].min_flops = 1e13; }, "min_flops"},
        Damage{"WideErrorOfSteps", [](Profile& p) { p.end_to_end[0].error_ln = 50; }, "error_ln"},
        Damage{"StepsOutOfOrder", [](Profile& p) { std::swap(p.end_to_end[0], p.end_to_end[1]); }, "sorted"},
        Damage{"NanModels", [](Profile& p) { p.whole_model.models.weights[1] = kNan; }, "whole_model.models.weights"},
        Damage{"TablesOutOfOrder", [](Profile& p) { std::swap(p.tables[0], p.tables[2]); }, "sorted by key"}),
    [](const auto& instance) { return instance.param.name; });

TEST(TransferToLearnFromTest, IsForGpusThatItHasNotSeen) {
  const TemporaryDirectory directory;
  Profile transfer = MakeTestProfile("t4");
  transfer.device = "transfer";
  transfer.transfer = true;
  transfer.pool = {Catalogue::BuiltIn().Get("t4").value()};
  ASSERT_TRUE(SaveProfile(transfer, directory.File("transfer.profile")).ok());
  ASSERT_TRUE(SaveProfile(MakeTestProfile("t4"), directory.File("t4.profile")).ok());
  const auto learnt_from = [](const std::string& path, const DeviceSpec& device) {
    const auto found = TransferToLearnFrom(path, device);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() && found->has_value();
  };
  const DeviceSpec unseen = Catalogue::BuiltIn().Get("l40s").value();
  EXPECT_TRUE(learnt_from(directory.File(""), unseen));
  EXPECT_FALSE(learnt_from(directory.File(""), transfer.pool[0]));
  DeviceSpec cpu = unseen;
  cpu.architecture = "CPU";
  EXPECT_FALSE(learnt_from(directory.File(""), cpu));
  EXPECT_FALSE(learnt_from(directory.File("nowhere"), unseen));
  std::ofstream(directory.File("a.profile")) << "not a profile";
  EXPECT_THAT(MessageOf(TransferToLearnFrom(directory.File(""), unseen).status()), HasSubstr("a.profile"));
}

TEST(FindTest, ReturnsTheTableOfTheKeyOrNothing) {
  const Profile profile = FullProfile();
  EXPECT_EQ(profile.Find(profile.tables[1].key), &profile.tables[1]);
  TableKey other = profile.tables[1].key;
  other.timing = Timing::kEager;
  EXPECT_EQ(profile.Find(other), nullptr);
}

}  // namespace
}  // namespace gpueta
