#include "client/report/model_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/report/testing_xml.h"
#include "core/predict/compose.h"
#include "core/testing/chain_graph.h"

namespace gpueta::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GraphPart Part(Work work, std::int64_t count, double us) {
  GraphPart part{.kernel = {.name = "<layer>", .dtype = DType::kFp16, .work = std::move(work), .launch = {}},
                 .count = count,
                 .estimate = {}};
  part.estimate.latency_us = {us, 1.2 * us, 1.5 * us};
  part.estimate.provenance = Provenance::kInterpolated;
  part.estimate.estimator = "family";
  return part;
}

ModelReport MakeReport(const ExecutionModel& execution) {
  ModelReport report;
  report.model = "<model>\x1b";
  report.facts = {"batch = 4"};
  const GraphPart product = Part(Gemm{.m = 512, .n = 512, .k = 512}, 2, 30);
  const GraphPart add = Part(Vector{.op = "add", .rows = 512, .cols = 512, .operands = 2}, 1, 20);
  ModelOnDevice on{.device = "card<1>",
                   .spec = {.slug = "card<1>", .sm_count = 10, .mem_bandwidth_gb_s = 500, .fp32_tflops = 10},
                   .profile = "abc",
                   .estimate = ComposeParts({product, add}, execution),
                   .timeline = {}};
  on.estimate.warnings = {"a & b"};
  on.kernels = {product.kernel, add.kernel, product.kernel};
  on.timeline = *TimelineOf(ChainOf(on.kernels), on.kernels, on.estimate);
  report.devices = {on};
  report.batch = 4;
  for (const std::int64_t batch : {1, 4, 16}) {
    const double us = 20.0 * static_cast<double>(batch);
    report.what_if.push_back({"card<1>", batch, {us, 1.1 * us, 1.3 * us}, true});
    report.what_if.push_back({"other", batch, {us / 2, us, us}, batch < 16});
  }
  return report;
}

TEST(ModelReportTest, IsWellFormedWithAllItsPartsWhateverTheNames) {
  for (const ExecutionModel& execution : {ExecutionModel{.gap_us = 1}, ExecutionModel{.host_issue_us = 6}}) {
    const std::string html = RenderModelReport(MakeReport(execution));
    EXPECT_EQ(WhatIsMalformed(html), "");
    for (const char* text : {"id=\"summary\"", "id=\"device-0\"", "id=\"what-if\"", "Time line", "Share by op",
                             "Roofline", "card&lt;1&gt;", "a &amp; b", "&lt;model&gt;\\x1b", "no room"}) {
      EXPECT_THAT(html, HasSubstr(text));
    }
    for (const char* raw : {"<layer>", "<model>", "nan", "inf\"", "http:", "https:"})
      EXPECT_THAT(html, Not(HasSubstr(raw)));
    EXPECT_EQ(html, RenderModelReport(MakeReport(execution)));
  }
}

TEST(ModelReportTest, FiguresAreThoseOfTheEstimate) {
  const ModelReport report = MakeReport({.gap_us = 1});
  const std::string html = RenderModelReport(report);
  EXPECT_THAT(html, HasSubstr(fmt::format("{:.6g} µs", report.devices[0].estimate.latency_us.p50)));
  EXPECT_THAT(html, HasSubstr("60 µs 72.3%"));  // two products of 30 of 83 µs
  EXPECT_THAT(html, HasSubstr("gaps between kernels"));
  EXPECT_THAT(html, Not(HasSubstr("waiting for the host")));
  EXPECT_THAT(RenderModelReport(MakeReport({.host_issue_us = 30})), HasSubstr("waiting for the host"));
}

TEST(ModelReportTest, AModelWithoutABatchIsComparedOverDevicesAlone) {
  ModelReport report = MakeReport({});
  report.batch = 0;
  report.what_if = {{"card<1>", 0, {80, 90, 95}, true}, {"other", 0, {70, 71, 72}, false}};
  const std::string html = RenderModelReport(report);
  EXPECT_EQ(WhatIsMalformed(html), "");
  EXPECT_THAT(html, HasSubstr("does not fit"));
  EXPECT_THAT(html, Not(HasSubstr("throughput")));
}

}  // namespace
}  // namespace gpueta::report
