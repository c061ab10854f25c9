#include "client/report/eval_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/report/testing_xml.h"

namespace gpueta::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// `rows` kernels from 1 µs to 1 s, predicted 10 % too long.
EvalReport MakeReport(std::size_t rows) {
  EvalReport report;
  std::vector<PredictedAndObserved> pairs;
  for (std::size_t i = 0; i < rows; ++i) {
    const double us = std::pow(10, 6.0 * static_cast<double>(i) / static_cast<double>(rows));
    pairs.push_back({{1.1 * us, 1.2 * us, 1.3 * us}, us, static_cast<std::uint32_t>(i)});
    report.points.push_back({pairs.back(), i % 2 == 0 ? Provenance::kMeasured : Provenance::kInterpolated});
  }
  report.facts = {"rows of <a>.csv"};
  report.columns = {"device"};
  report.all = {.by = {}, .errors = Summarise(pairs), .intervals = IntervalsOf(pairs, 0)};
  report.groups = {report.all};
  report.groups[0].by = {"<t4>"};
  report.worst = {{.device = "t4",
                   .kernel = "gemm fp16 m=<1>",
                   .rows = 3,
                   .pair = pairs[0],
                   .provenance = Provenance::kExtrapolated,
                   .regime = Bound::kMemory,
                   .shares = {.compute = 0.1, .memory = 0.6, .rest = 0.3},
                   .notes = {"m = 1 is outside"}}};
  return report;
}

// Points of all dotted paths.
std::size_t DotsIn(const std::string& html) {
  std::size_t dots = 0;
  for (std::size_t at = html.find("h0"); at != std::string::npos; at = html.find("h0", at + 1)) ++dots;
  return dots;
}

TEST(EvalReportTest, HasItsSectionsAndEscapesWhatItIsGiven) {
  const std::string html = RenderEvalReport(MakeReport(60));
  EXPECT_EQ(WhatIsMalformed(html), "");
  for (const char* id : {"summary", "scatter", "size", "coverage", "worst"}) {
    EXPECT_THAT(html, HasSubstr(fmt::format("<section id=\"{}\">", id)));
  }
  EXPECT_THAT(html, Not(HasSubstr("id=\"against\"")));
  for (const char* text : {"&lt;a&gt;.csv", "&lt;t4&gt;", "m=&lt;1&gt;", "10.0% [10.0, 10.0]", "all rows"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  for (const char* raw : {"<a>", "<t4>", "<1>", "nan", "inf"}) EXPECT_THAT(html, Not(HasSubstr(raw)));
  EXPECT_EQ(html, RenderEvalReport(MakeReport(60)));
}

TEST(EvalReportTest, SaysWhyAShapeIsOff) {
  EvalReport report = MakeReport(60);
  EXPECT_THAT(RenderEvalReport(report), HasSubstr("memory: 10% compute, 60% memory, 30% launch and latency"));
  EXPECT_THAT(RenderEvalReport(report), HasSubstr("m = 1 is outside"));
  EXPECT_THAT(RenderEvalReport(report), HasSubstr("--measured-with"));
  report.knows_neighbours = true;
  report.worst[0].nearest = {{"gemm fp16 m=2", 1, 10, 12}};
  EXPECT_THAT(RenderEvalReport(report), Not(HasSubstr("--measured-with")));
  EXPECT_THAT(RenderEvalReport(report),
              HasSubstr("gemm fp16 m=2: measured 10 µs, predicted 12 µs (+20.0%), 1.00 octaves away"));
}

TEST(EvalReportTest, ThinsOutManyDotsAndSaysSo) {
  const std::string all = RenderEvalReport(MakeReport(kMostDots));
  EXPECT_EQ(DotsIn(all), kMostDots);
  EXPECT_THAT(all, Not(HasSubstr("taken evenly")));
  const std::string some = RenderEvalReport(MakeReport(2 * kMostDots + 1));
  EXPECT_EQ(DotsIn(some), kMostDots);
  EXPECT_THAT(some, HasSubstr("3000 of 6001 rows are shown, taken evenly"));
}

TEST(EvalReportTest, OneRowIsAReportToo) {
  const std::string html = RenderEvalReport(MakeReport(1));
  EXPECT_THAT(html, HasSubstr("Too few rows of any size"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

TEST(EvalReportTest, ComparesWithTheOtherProfile) {
  EvalReport report = MakeReport(60);
  report.all.against = {report.all.errors, report.all.intervals, {0.02, Range{-0.01, 0.05}, 30, 20}};
  report.groups[0].against = report.all.against;
  report.groups[0].against->paired.interval = {0.01, 0.03};
  const std::string html = RenderEvalReport(report);
  EXPECT_THAT(html, HasSubstr("<section id=\"against\">"));
  EXPECT_THAT(html, HasSubstr("2.0% [-1.0, 5.0]"));
  EXPECT_THAT(html, HasSubstr("no difference shown"));
  EXPECT_THAT(html, HasSubstr("the other is worse"));
}

TEST(EvalReportTest, OnlyAnIntervalWithoutZeroIsAVerdict) {
  EXPECT_EQ(VerdictOf({0.2, std::nullopt, 3, 0}), "too few shapes to tell");
  EXPECT_EQ(VerdictOf({0.2, Range{-0.1, 0.3}, 3, 0}), "no difference shown");
  EXPECT_EQ(VerdictOf({0.2, Range{0.1, 0.3}, 3, 0}), "the other is worse");
  EXPECT_EQ(VerdictOf({-0.2, Range{-0.3, -0.1}, 3, 0}), "the other is better");
}

}  // namespace
}  // namespace gpueta::report
