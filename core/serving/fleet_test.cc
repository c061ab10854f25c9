#include "core/serving/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/serving/testing_models.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

class FleetTest : public ::testing::Test {
 protected:
  FleetTest() {
    EngineSetup setup;
    setup.limits = {.token_budget = 2048, .max_sequences = 64};
    FleetChange change;
    change.engines = {setup};
    change.limits = LatencyLimits{.ttft = LatencyLimit{.us = 1e6}, .tpot = LatencyLimit{.us = 1e5}};
    for (const char* name : {"a", "b", "c"}) change.replicas.push_back(Described(name));
    EXPECT_EQ(fleet_.Apply(std::move(change)), absl::OkStatus());
  }

  static DescribedReplica Described(const std::string& name, int waiting = 0) {
    DescribedReplica described;
    described.replica.name = name;
    described.replica.state.waiting.assign(static_cast<std::size_t>(waiting),
                                           {.sequence = {.prompt_tokens = 2000, .output_tokens = 50}});
    return described;
  }
  static FleetChange Put(DescribedReplica described) {
    FleetChange change;
    change.replicas.push_back(std::move(described));
    return change;
  }

  absl::StatusOr<Admission> Judge(const DescribedCandidate& candidate) {
    return fleet_.Judge(candidate, [this](std::size_t e, std::int64_t longest) {
      return models_.Serve({"small", "small", testing::SmallLlama()}, "h100-sxm", *device_, fleet_.engines()[e],
                           longest);
    });
  }
  DescribedCandidate Prompt(std::int64_t tokens) { return {.id = "r", .candidate = {.prompt_tokens = tokens}}; }

  const std::shared_ptr<const Predictor> device_ = testing::H100();
  ServedModels models_{std::size_t{64} << 20};
  Fleet fleet_{{.engines = 4, .replicas = 5, .requests = 100}};
};

TEST_F(FleetTest, JudgesWhatItWasTold) {
  ASSERT_EQ(fleet_.Apply(Put(Described("a", 30))), absl::OkStatus());
  ASSERT_EQ(fleet_.Apply(Put(Described("b", 3))), absl::OkStatus());
  const auto admission = Judge(Prompt(500));
  ASSERT_TRUE(admission.ok()) << admission.status();
  EXPECT_EQ(admission->candidate, "r");
  EXPECT_EQ(admission->names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(admission->recommended, "c");
  EXPECT_GT(admission->replicas[0].ttft_us, admission->replicas[1].ttft_us);
}

TEST_F(FleetTest, ChangesAddUpToTheWholeState) {
  // Step by step, and at once: the same answers.
  FleetChange joins;
  joins.joined.emplace_back("b", Request{.sequence = {.prompt_tokens = 2000, .output_tokens = 50}});
  joins.removed = {"c"};
  ASSERT_TRUE(Judge(Prompt(500)).ok());  // what joins a judged replica counts too
  ASSERT_EQ(fleet_.Apply(std::move(joins)), absl::OkStatus());
  const auto by_steps = Judge(Prompt(500));
  Fleet other;
  FleetChange whole;
  whole.engines = fleet_.engines();
  whole.limits = LatencyLimits{.ttft = LatencyLimit{.us = 1e6}, .tpot = LatencyLimit{.us = 1e5}};
  whole.replicas = {Described("a"), Described("b", 1)};
  ASSERT_EQ(other.Apply(std::move(whole)), absl::OkStatus());
  std::swap(fleet_, other);
  const auto at_once = Judge(Prompt(500));
  ASSERT_TRUE(by_steps.ok() && at_once.ok());
  ASSERT_EQ(by_steps->names, at_once->names);
  for (std::size_t i = 0; i < at_once->replicas.size(); ++i) {
    EXPECT_EQ(by_steps->replicas[i].ttft_us, at_once->replicas[i].ttft_us);
    EXPECT_EQ(by_steps->replicas[i].margin, at_once->replicas[i].margin);
  }
}

TEST_F(FleetTest, MetricsStandForRequests) {
  DescribedReplica described = Described("a");
  described.metrics = EngineMetrics{.running = 20, .waiting = 30, .kv_usage = 0.1};
  ASSERT_EQ(fleet_.Apply(Put(described)), absl::OkStatus());
  const auto admission = Judge(Prompt(500));
  ASSERT_TRUE(admission.ok()) << admission.status();
  EXPECT_GT(admission->replicas[0].ttft_us, 5 * admission->replicas[1].ttft_us);
}

TEST_F(FleetTest, ACandidateMayNameItsReplicasAndPrefixes) {
  DescribedCandidate candidate = Prompt(2000);
  candidate.among = {"c", "a"};
  candidate.cached = {{"a", 1500}};
  const auto admission = Judge(candidate);
  ASSERT_TRUE(admission.ok()) << admission.status();
  EXPECT_EQ(admission->names, (std::vector<std::string>{"c", "a"}));
  EXPECT_EQ(admission->recommended, "a");
  EXPECT_LT(admission->replicas[1].ttft_us, 0.7 * admission->replicas[0].ttft_us);
  // The next candidate finds no prefix.
  const auto next = Judge(Prompt(2000));
  EXPECT_EQ(next->replicas[0].ttft_us, next->replicas[1].ttft_us);
}

TEST_F(FleetTest, AWrongChangeNamesItsFieldAndChangesNothing) {
  struct Case {
    FleetChange change;
    const char* field;
  };
  std::vector<Case> cases;
  const auto add = [&](const char* field) -> FleetChange& {
    cases.push_back({{}, field});
    return cases.back().change;
  };
  add("replicas[1].name").replicas = {Described("x"), Described("x")};
  add("replicas[0].name").replicas = {Described("")};
  FleetChange& place = add("replicas[0].engine");
  place.replicas = {Described("x")};
  place.replicas[0].engine = 1;
  FleetChange& tokens = add("replicas[0].waiting[0].prompt_tokens");
  tokens.replicas = {Described("x", 1)};
  tokens.replicas[0].replica.state.waiting[0].sequence.prompt_tokens = 0;
  FleetChange& both = add("replicas[0].metrics");
  both.replicas = {Described("x", 1)};
  both.replicas[0].metrics = EngineMetrics{};
  FleetChange& usage = add("replicas[0].metrics.kv_usage");
  usage.replicas = {Described("x")};
  usage.replicas[0].metrics = EngineMetrics{.kv_usage = 2};
  add("removed_replicas[0]").removed = {"x"};
  add("removed_replicas[1]").removed = {"a", "a"};
  add("joined[0].replica").joined = {{"x", Request{.sequence = {.prompt_tokens = 1}}}};
  add("joined[0].request").joined = {{"a", Request{}}};
  add("limits.ttft").limits = LatencyLimits{.ttft = LatencyLimit{.us = -1}};
  add("engines").engines = std::vector<EngineSetup>{};
  add("engines[0].memory_share").engines = std::vector<EngineSetup>{EngineSetup{.memory_share = 2}};
  add("replicas").replicas = {Described("x"), Described("y"), Described("z")};
  add("requests").replicas = {Described("x", 101)};
  add("engines").engines = std::vector<EngineSetup>(5);
  for (Case& each : cases) {
    const absl::Status status = fleet_.Apply(std::move(each.change));
    EXPECT_EQ(FieldOf(status), each.field) << status;
    EXPECT_EQ(fleet_.size(), 3U);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(fleet_.Apply(Put(Described("x", 101)))));
  EXPECT_TRUE(Judge(Prompt(10)).ok());
}

TEST_F(FleetTest, AWrongCandidateNamesItsField) {
  EXPECT_EQ(FieldOf(Judge(Prompt(0)).status()), "prompt_tokens");
  DescribedCandidate candidate = Prompt(10);
  candidate.among = {"x"};
  EXPECT_EQ(FieldOf(Judge(candidate).status()), "among[0]");
  candidate.among = {"a", "a"};
  EXPECT_EQ(FieldOf(Judge(candidate).status()), "among[1]");
  candidate.among = {};
  candidate.cached = {{"a", -1}};
  EXPECT_EQ(FieldOf(Judge(candidate).status()), "cached[0].tokens");
  Fleet empty;
  std::swap(empty, fleet_);
  EXPECT_EQ(FieldOf(Judge(Prompt(10)).status()), "replicas");
}

TEST_F(FleetTest, TheOverheadBelongsToTheEngine) {
  EngineSetup slow = fleet_.engines()[0];
  slow.overhead = {.step_us = 5000};
  FleetChange change;
  change.engines = {fleet_.engines()[0], slow};
  change.replicas = {Described("slow")};
  change.replicas[0].engine = 1;
  ASSERT_EQ(fleet_.Apply(std::move(change)), absl::OkStatus());
  const auto admission = Judge(Prompt(100));
  ASSERT_TRUE(admission.ok()) << admission.status();
  EXPECT_GT(admission->replicas[3].tpot_us, admission->replicas[0].tpot_us + 4900);
}

TEST(ServedModelTest, AModelThatDoesNotFitIsAnError) {
  ServedModels models(std::size_t{64} << 20);
  Fleet fleet;
  FleetChange change;
  EngineSetup setup;
  setup.memory_share = 0.001;
  change.engines = {setup};
  change.replicas.emplace_back().replica.name = "a";
  ASSERT_EQ(fleet.Apply(std::move(change)), absl::OkStatus());
  const auto device = testing::H100();
  const auto admission = fleet.Judge({.candidate = {.prompt_tokens = 10}}, [&](std::size_t e, std::int64_t longest) {
    return models.Serve({"small", "small", testing::SmallLlama()}, "h100-sxm", *device, fleet.engines()[e], longest);
  });
  EXPECT_EQ(FieldOf(admission.status()), "engines[0]");
  EXPECT_THAT(MessageOf(admission.status()), HasSubstr("does not fit"));
}

TEST(ServedModelTest, NearbyLengthsShareATable) {
  EXPECT_EQ(TableContext(1), TableContext(8192));
  EXPECT_EQ(TableContext(8192), 16'384);
  EXPECT_EQ(TableContext(8193), 32'768);
  EXPECT_EQ(TableContext(1 << 26), 1 << 20);
}

}  // namespace
}  // namespace gpueta
