#include "client/report/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/predict/compose.h"
#include "core/testing/chain_graph.h"

namespace gpueta::report {
namespace {

using nlohmann::json;

struct Traced {
  std::vector<Kernel> kernels;
  GraphEstimate estimate;
  Timeline timeline;
};

Traced Make(const ExecutionModel& execution) {
  Traced out;
  std::vector<GraphPart> parts;
  for (std::int64_t m : {1, 2}) {
    Kernel kernel{.name = "layer \"\xff<" + std::to_string(m), .work = Gemm{.m = m, .n = 8, .k = 8}, .launch = {}};
    out.kernels.push_back(kernel);
    parts.push_back({.kernel = kernel, .count = 1, .estimate = {}});
    parts.back().estimate.latency_us = {10, 12, 15};
  }
  out.estimate = ComposeParts(std::move(parts), execution);
  out.timeline = *TimelineOf(ChainOf(out.kernels), out.kernels, out.estimate);
  return out;
}

std::vector<json> SlicesOf(const json& trace, int process, int lane) {
  std::vector<json> slices;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == process && event["tid"] == lane) slices.push_back(event);
  }
  return slices;
}

TEST(ChromeTraceTest, HasALaneForEachStreamAndOneForAHostThatIssues) {
  const Traced replayed = Make({.gap_us = 1});
  const Traced eager = Make({.host_issue_us = 6});
  const TracedDevice devices[] = {{"a", replayed.kernels, replayed.estimate, replayed.timeline},
                                  {"b", eager.kernels, eager.estimate, eager.timeline}};
  const json trace = json::parse(ChromeTrace(devices));
  EXPECT_EQ(SlicesOf(trace, 1, 2).size(), 2U);
  EXPECT_EQ(SlicesOf(trace, 1, 1).size(), 0U);
  EXPECT_EQ(SlicesOf(trace, 2, 2).size(), 2U);
  EXPECT_EQ(SlicesOf(trace, 2, 1).size(), 2U);
  const json last = SlicesOf(trace, 2, 2).back();
  EXPECT_NEAR(last["ts"].get<double>() + last["dur"].get<double>(), eager.estimate.latency_us.p50, 1e-6);
  EXPECT_EQ(last["args"]["p90_us"], 12);
  EXPECT_EQ(last["cat"], "gemm");
}

TEST(ChromeTraceTest, NoModelIsAnEmptyTrace) { EXPECT_TRUE(json::parse(ChromeTrace({}))["traceEvents"].empty()); }

}  // namespace
}  // namespace gpueta::report
