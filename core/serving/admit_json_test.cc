#include "core/serving/admit_json.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

TEST(AdmitJsonTest, ReadsReplicasCandidateAndLimits) {
  const auto question = ParseAdmitQuestion(R"({
    "replicas": [
      {"name": "a", "device": "h100-sxm", "tp": 2, "kv_dtype": "fp8", "kv_blocks": 1000, "cached_tokens": 512,
       "output_lengths": [10, 20, 30],
       "running": [{"prompt_tokens": 100, "generated_tokens": 5, "since_first_token_ms": 80}],
       "waiting": [{"prompt_tokens": 700, "since_arrival_ms": 12}]},
      {"name": "b", "device": "l40s", "metrics": {"running": 3, "waiting": 1, "kv_usage": 0.5}}],
    "candidate": {"prompt_tokens": 1000},
    "limits": {"ttft_ms": 500, "tpot_ms": 50, "quantile": 0.95}})");
  ASSERT_TRUE(question.ok()) << question.status();
  const DescribedReplica& a = question->fleet.replicas[0];
  ASSERT_EQ(question->fleet.engines->size(), 2U);
  const EngineSetup& setup = (*question->fleet.engines)[a.engine];
  EXPECT_EQ(question->devices[a.engine], "h100-sxm");
  EXPECT_EQ(setup.deployment.ranks.tensor, 2);
  EXPECT_EQ(setup.deployment.kv_dtype, DType::kFp8);
  EXPECT_EQ(setup.limits.kv_blocks, 1000);
  EXPECT_EQ(question->candidate.cached, (std::vector<std::pair<std::string, std::int64_t>>{{"a", 512}}));
  EXPECT_EQ(a.replica.state.running[0].sequence.computed_tokens, 104);
  EXPECT_EQ(a.replica.state.running[0].since_first_token_us, 80e3);
  EXPECT_EQ(a.replica.lengths.mean(), 20);
  EXPECT_EQ(question->fleet.replicas[1].metrics->running, 3);
  EXPECT_EQ(question->fleet.limits->ttft->us, 500e3);
  EXPECT_EQ(question->fleet.limits->tpot->quantile, 0.95);
  EXPECT_FALSE(question->fleet.limits->e2e.has_value());
}

TEST(AdmitJsonTest, NamesTheFieldThatIsWrong) {
  const struct {
    const char* json;
    const char* says;
  } cases[] = {
      {"{", "no JSON"},
      {"[]", "must be a JSON object"},
      {"{}", "replicas"},
      {R"({"replicas": [{"device": "x", "tpp": 2}]})", "tpp"},
      {R"({"replicas": [{"name": "x"}]})", "device"},
      {R"({"replicas": [{"device": "x", "tp": 1.5}]})", "must be an integer"},
      {R"({"replicas": [{"device": "x", "running": [{"prompt_tokens": "many"}]}]})", "prompt_tokens"},
      {R"({"replicas": [{"device": "x", "role": "cook"}]})", "role"},
      {R"({"replicas": [{"device": "x", "output_lengths": [0]}]})", "output_lengths"},
      {R"({"replicas": [{"device": "x", "memory": 3}]})", "replicas[0].memory"},
      {R"({"replicas": [{"device": "x", "token_budget": 0}]})", "replicas[0].token_budget"},
  };
  for (const auto& [json, says] : cases) {
    const auto question = ParseAdmitQuestion(json);
    ASSERT_FALSE(question.ok()) << json;
    EXPECT_NE(question.status().message().find(says), absl::string_view::npos) << question.status();
  }
}

TEST(AdmitJsonTest, EqualEnginesAreOne) {
  const auto question = ParseAdmitQuestion(R"({"replicas": [
      {"device": "h100-sxm"}, {"device": "l40s"}, {"device": "h100-sxm"}, {"device": "h100-sxm", "tp": 2}]})");
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_EQ(question->devices, (std::vector<std::string>{"h100-sxm", "l40s", "h100-sxm"}));
  EXPECT_EQ(question->fleet.replicas[2].engine, 0U);
  EXPECT_EQ(question->fleet.replicas[3].engine, 2U);
  EXPECT_EQ(question->fleet.replicas[3].replica.name, "replicas[3]");
}

TEST(AdmitJsonTest, ReadsStepsAndRecords) {
  const auto records = ParseStepRecords(R"([{"latency_ms": 12.5, "step":
      {"prefill": [{"new_tokens": 512, "cached_tokens": 64}], "decode_context": [100, 2000]}}])");
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->front().latency_us, 12'500);
  EXPECT_EQ(records->front().step.prefill_tokens(), 512);
  EXPECT_EQ(records->front().step.decode_context, (std::vector<std::int64_t>{100, 2000}));
  EXPECT_EQ(ParseEngineStep(R"({"decode_context": [5], "speculative_tokens": 3})")->tokens(), 4);
  for (const char* wrong : {"{}", "[1]", R"([{"step": {}}])", R"([{"latency_ms": 1}])",
                            R"([{"latency_ms": 1, "step": {"decode_context": [1.5]}}])"}) {
    EXPECT_FALSE(ParseStepRecords(wrong).ok()) << wrong;
  }
}

TEST(AdmitJsonTest, StepsMayBeCountedInPlaceOfListed) {
  const auto records = ParseStepRecords(R"([{"latency_ms": 9, "step": {"speculative_tokens": 1, "counts":
      {"prefill_tokens": 512, "decode_sequences": 3, "context_tokens": 2999}}}])");
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->front().step.prefill, (std::vector<PrefillChunk>{{512, 0}}));
  EXPECT_EQ(records->front().step.decode_context, (std::vector<std::int64_t>{1000, 1000, 999}));
  EXPECT_EQ(records->front().step.tokens(), 512 + 6);
  EXPECT_FALSE(ParseEngineStep(R"({"counts": {"decode_sequences": 3}})").ok());
  EXPECT_FALSE(ParseEngineStep(R"({"decode_context": [4], "counts": {"prefill_tokens": 3}})").ok());
  EXPECT_FALSE(ParseEngineStep(R"({"counts": {"sequences": 3}})").ok());
}

TEST(AdmitJsonTest, EnginesSayHowTheyDraftAndHowTheirExpertsAreLoaded) {
  const auto question = ParseAdmitQuestion(R"({"replicas": [
      {"device": "h100-sxm", "ep": 4, "expert_imbalance": 1.25, "speculative_tokens": 3, "acceptance": 0.7}]})");
  ASSERT_TRUE(question.ok()) << question.status();
  const EngineSetup& setup = question->fleet.engines->front();
  EXPECT_EQ(setup.deployment.expert_imbalance, 1.25);
  EXPECT_EQ(setup.limits.speculation, (Speculation{3, 0.7}));
  EXPECT_FALSE(ParseAdmitQuestion(R"({"replicas": [{"device": "l40s", "acceptance": 2}]})").ok());
}

TEST(EngineMetricsTest, AStateHasTheMetricsItWasMadeOf) {
  const EngineLimits limits = {.kv_blocks = 1000, .block_tokens = 16};
  const auto state = StateFrom({.running = 10, .waiting = 4, .kv_usage = 0.6, .mean_output_tokens = 100}, limits);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->running.size(), 10U);
  EXPECT_EQ(state->waiting.size(), 4U);
  std::int64_t tokens = 0;
  for (const Request& request : state->running) tokens += request.sequence.computed_tokens;
  EXPECT_NEAR(static_cast<double>(tokens), 0.6 * 16'000, 10);
  EXPECT_FALSE(StateFrom({.running = -1}, limits).ok());
  EXPECT_FALSE(StateFrom({.kv_usage = 1.5}, limits).ok());
}

}  // namespace
}  // namespace gpueta
