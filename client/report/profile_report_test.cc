#include "client/report/profile_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/report/testing_xml.h"
#include "core/testing/test_profile.h"

namespace gpueta::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ProfileReport MakeReport() {
  ProfileReport report;
  report.loaded.profile = gpueta::testing::MakeTestProfile("t4");
  report.loaded.profile.labels["driver"] = "<550>";
  report.loaded.profile.tables[0].measured_ln = {0.1F, -0.2F, 0.01F};
  report.facts = {"of <x>"};
  return report;
}

TEST(ProfileReportTest, SaysWhatTheProfileHoldsAndRestsOn) {
  const ProfileReport report = MakeReport();
  const std::string html = RenderProfileReport(report);
  EXPECT_EQ(WhatIsMalformed(html), "");
  for (const char* text : {"id=\"tables\"", "id=\"sources\"", "id=\"device\"", "id=\"fit\"", "gemm bf16", "&lt;550&gt;",
                           "8.0%", "its own rows"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  for (const char* raw : {"<550>", "<x>", "nan", "http:", "https:", "id=\"roofline\""})
    EXPECT_THAT(html, Not(HasSubstr(raw)));
}

TEST(ProfileReportTest, WithRowsItIsJudgedAndTheRooflineIsMeasured) {
  ProfileReport report = MakeReport();
  const Kernel kernel{.name = "n", .dtype = DType::kBf16, .work = Gemm{.m = 64, .n = 64, .k = 64}, .launch = {}};
  report.points = {{kernel, 5}};
  EXPECT_THAT(RenderProfileReport(report), HasSubstr("that this profile predicts"));
  EvalReport judged;
  const PredictedAndObserved pair{{5, 6, 7}, 5.5, 1};
  judged.points = {{pair, Provenance::kMeasured}};
  const std::vector<PredictedAndObserved> pairs = {pair};
  judged.all = {.by = {}, .errors = Summarise(pairs), .intervals = IntervalsOf(pairs, 0)};
  report.judged = judged;
  const std::string html = RenderProfileReport(report);
  EXPECT_EQ(WhatIsMalformed(html), "");
  for (const char* text : {"id=\"scatter\"", "id=\"coverage\"", "id=\"roofline\"", "Each dot is a measured row"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
}

}  // namespace
}  // namespace gpueta::report
