#include "server/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/ops/forms.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

using testing::HasSubstr;
using testing_util::MakeTestProfile;

LoadedProfile Load(const Profile& profile) {
  auto loaded = ParseProfile(SerializeProfile(profile));
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *std::move(loaded) : LoadedProfile{};
}

Table& TableOf(Profile& profile, Op op, DType dtype) {
  for (Table& table : profile.tables) {
    if (table.key.op == op && table.key.dtype == dtype) return table;
  }
  ADD_FAILURE() << "no such table";
  return profile.tables.front();
}

void SetParameter(Table& table, std::string_view name, float value) {
  const FormInfo form = FormInfoOf(table.key.op, table.key.phase);
  for (std::size_t i = 0; i < form.params.size(); ++i) {
    if (form.params[i].name != name) continue;
    for (Variant& variant : table.variants) variant.theta[i] = value;
    return;
  }
  FAIL() << "no parameter " << name;
}

class ValidatesDevice : public testing::TestWithParam<const char*> {};

TEST_P(ValidatesDevice, AcceptsAPlausibleProfile) {
  EXPECT_EQ(ValidateProfile(Load(MakeTestProfile(GetParam())), GetParam(), {}), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Devices, ValidatesDevice,
                         testing::Values("h100-sxm", "a100-sxm4-80gb", "l40s", "t4", "v100-pcie-32gb", "p100-pcie-16gb",
                                         "cpu-some-model-8t"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ValidationTest, RefusesAProfileOfAnotherDevice) {
  const absl::Status status = ValidateProfile(Load(MakeTestProfile("h100-sxm")), "l40s", {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "header.parent");
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("h100-sxm"), HasSubstr("l40s")));
}

TEST(ValidationTest, TakesAnAliasForItsDevice) {
  for (const CatalogueEntry& entry : Catalogue::BuiltIn().entries()) {
    if (entry.aliases.empty()) continue;
    const LoadedProfile loaded = Load(MakeTestProfile(entry.aliases.front()));
    EXPECT_EQ(ValidateProfile(loaded, entry.spec.slug, {}), absl::OkStatus());
    return;
  }
  FAIL() << "no alias in the catalogue";
}

TEST(ValidationTest, RefusesAnUnknownDeviceWithoutASpec) {
  Profile profile = MakeTestProfile("cpu-some-model-8t");
  profile.spec = {.slug = profile.device};
  const absl::Status status = ValidateProfile(Load(profile), profile.device, {});
  EXPECT_EQ(FieldOf(status), "spec");
}

// What is fitted to times of whole models alone: fp32 steps at 10 TFLOPS.
Profile OfWholeModels(std::string_view device) {
  Profile profile = MakeTestProfile(device);
  profile.tables.clear();
  profile.end_to_end = {{.dtype = DType::kFp32, .slope = 1e-7, .min_flops = 1e12, .max_flops = 1e15}};
  return profile;
}

TEST(ValidationTest, RefusesAProfileOfNothing) {
  Profile profile = OfWholeModels("h100-sxm");
  profile.end_to_end.clear();
  EXPECT_EQ(FieldOf(ValidateProfile(Load(profile), "h100-sxm", {})), "tables");
}

TEST(ValidationTest, TakesTimesOfWholeModelsAlone) {
  const Profile profile = OfWholeModels("h100-sxm");
  EXPECT_EQ(ValidateProfile(Load(profile), "h100-sxm", {}), absl::OkStatus());
}

TEST(ValidationTest, RefusesTheWholeModelsOfAnotherDevice) {
  const Profile other = OfWholeModels("a100-sxm4-80gb");
  const Profile* others[] = {&other};
  Profile copy = OfWholeModels("h100-sxm");
  EXPECT_THAT(MessageOf(ValidateProfile(Load(copy), "h100-sxm", others)), HasSubstr("a100-sxm4-80gb"));
  copy.end_to_end[0].slope *= 1.01;
  EXPECT_EQ(ValidateProfile(Load(copy), "h100-sxm", others), absl::OkStatus());
}

TEST(ValidationTest, RefusesProductsFasterThanThePeak) {
  Profile profile = MakeTestProfile("h100-sxm");
  // A residual of a factor 1/8 for every shape, all of them bound by compute.
  Table& table = TableOf(profile, Op::kGemm, DType::kBf16);
  table.dim_min = {1, 4096, 4096, 4096};
  table.dim_max = {1, 16384, 16384, 16384};
  const std::size_t inputs = FormInfoOf(Op::kGemm, table.key.phase).features.size() + table.variants.size();
  table.residual.feature_mean.assign(inputs, 0);
  table.residual.feature_scale.assign(inputs, 0);
  table.residual.hidden = {1};
  table.residual.weights.assign(inputs + 3, 0);
  table.residual.weights.back() = std::log(1.0F / 8);
  const absl::Status status = ValidateProfile(Load(profile), "h100-sxm", {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("gemm bf16"), HasSubstr("faster than possible"), HasSubstr("operations")));
}

TEST(ValidationTest, RefusesTrafficFasterThanDram) {
  Profile profile = MakeTestProfile("h100-sxm");
  SetParameter(TableOf(profile, Op::kVector, DType::kFp32), "memory", 0.5F);
  const absl::Status status = ValidateProfile(Load(profile), "h100-sxm", {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("vector fp32"), HasSubstr("GB/s")));
}

TEST(ValidationTest, RefusesWholeStepsFasterThanThePeak) {
  Profile profile = MakeTestProfile("h100-sxm");
  // A PFLOP in 10 ms, of a card that does 60 TFLOPS in fp32.
  profile.end_to_end = {{.dtype = DType::kFp32, .slope = 1e-11, .min_flops = 1e12, .max_flops = 1e15}};
  const absl::Status status = ValidateProfile(Load(profile), "h100-sxm", {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("end-to-end, fp32 inference"), HasSubstr("TFLOPS")));
  profile.end_to_end[0].slope = 1e-7;
  EXPECT_EQ(ValidateProfile(Load(profile), "h100-sxm", {}), absl::OkStatus());
}

TEST(ValidationTest, AllowsTrafficFromTheCache) {
  // As fast as above, but every probe stays below twice the cache.
  Profile profile = MakeTestProfile("h100-sxm");
  Table& table = TableOf(profile, Op::kVector, DType::kFp32);
  SetParameter(table, "memory", 0.5F);
  table.dim_max = {512, 1024, 3};
  EXPECT_EQ(ValidateProfile(Load(profile), "h100-sxm", {}), absl::OkStatus());
}

TEST(ValidationTest, AProfileCannotRaiseThePeakItIsJudgedBy) {
  Profile profile = MakeTestProfile("t4");
  profile.spec.mem_bandwidth_gb_s *= 10;
  EXPECT_EQ(ValidateProfile(Load(profile), "t4", {}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ValidationTest, RefusesTheNumbersOfAnotherDevice) {
  const Profile other = MakeTestProfile("a100-sxm4-80gb");
  Profile copy = other;
  copy.device = "a100-pcie-80gb";
  copy.spec = Catalogue::BuiltIn().Get("a100-pcie-80gb").value();
  const Profile* others[] = {&other};
  const absl::Status status = ValidateProfile(Load(copy), "a100-pcie-80gb", others);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("a100-sxm4-80gb"));
}

TEST(ValidationTest, AllowsTheSameNumbersForTheSameDevice) {
  const Profile other = MakeTestProfile("a100-sxm4-80gb");
  const Profile* others[] = {&other};
  EXPECT_EQ(ValidateProfile(Load(other), "a100-sxm4-80gb", others), absl::OkStatus());
}

TEST(ValidationTest, ChecksOnlyTheIntervalsOfAPooledProfile) {
  Profile profile = MakeTestProfile("h100-sxm");
  SetParameter(TableOf(profile, Op::kVector, DType::kFp32), "memory", 0.5F);
  profile.transfer = true;
  EXPECT_EQ(ValidateProfile(Load(profile), "h100-sxm", {}), absl::OkStatus());
}

}  // namespace
}  // namespace gpueta
