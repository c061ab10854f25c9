#include "core/wire/serving_codec.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta::wire {
namespace {

using google::protobuf::util::MessageDifferencer;

template <class Message>
Message Text(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

TEST(ServingCodecTest, ReplicasComeBackAsTheyWere) {
  const auto exact = Text<v1::Replica>(R"(
      name: "a" engine: 2 role: ROLE_DECODE step_in_flight_us: 120 transfer_us_per_token: 0.5
      running { prompt_tokens: 100 computed_tokens: 104 generated_tokens: 5 output_tokens: 90 since_first_token_us: 8e4 }
      waiting { prompt_tokens: 700 cached_tokens: 64 since_arrival_us: 12 }
      output_lengths { mean: 20 samples: [10, 20, 30] })");
  const auto metrics = Text<v1::Replica>(R"(
      name: "b" role: ROLE_BOTH output_lengths { mean: 256 }
      metrics { running: 3 waiting: 1 kv_usage: 0.5 mean_prompt_tokens: 900 mean_output_tokens: 80 })");
  for (const v1::Replica& message : {exact, metrics}) {
    const auto described = Decode(message);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_TRUE(MessageDifferencer::Equals(Encode(*described), message)) << Encode(*described).DebugString();
  }
}

TEST(ServingCodecTest, EnginesAndLimitsComeBackAsTheyWere) {
  const auto engine = Text<v1::EngineKind>(R"(
      deployment { tensor_ranks: 4 pipeline_stages: 2 expert_ranks: 8 dtype: DTYPE_FP8 kv_dtype: DTYPE_BF16
                   expert_imbalance: 1.5 }
      overhead { step_us: 300 token_us: 0.5 }
      token_budget: 4096 max_sequences: 128 kv_blocks: 1000 block_tokens: 32 memory_share: 0.8
      speculative_tokens: 4 acceptance: 0.75)");
  v1::EngineKind encoded;
  Encode(*Decode(engine), encoded);
  EXPECT_TRUE(MessageDifferencer::Equals(encoded, engine)) << encoded.DebugString();
  const auto limits = Text<v1::LatencyLimits>("ttft { us: 1e5 quantile: 0.95 } e2e { us: 1e7 quantile: 0.5 }");
  EXPECT_TRUE(MessageDifferencer::Equals(Encode(Decode(limits)), limits));
  const auto step = Text<v1::EngineStep>(
      "prefill { new_tokens: 512 cached_tokens: 64 } decode_context: [7, 9] speculative_tokens: 2");
  EXPECT_TRUE(MessageDifferencer::Equals(Encode(*Decode(step)), step));
  const auto candidate = Text<v1::Candidate>(
      R"(id: "r" prompt_tokens: 10 output_tokens: 3 since_arrival_us: 5 cached { replica: "a" tokens: 4 } among: "a")");
  EXPECT_TRUE(MessageDifferencer::Equals(Encode(Decode(candidate)), candidate));
}

TEST(ServingCodecTest, WhatIsNotSetTakesItsDefault) {
  const auto setup = Decode(v1::EngineKind());
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(*setup, EngineSetup());
  EXPECT_EQ(Decode(Text<v1::LatencyLimits>("tpot { us: 5 }")).tpot->quantile, 0.9);
  const auto replica =
      Decode(Text<v1::Replica>(R"(name: "a" metrics {} running { prompt_tokens: 9 generated_tokens: 3 })"));
  ASSERT_TRUE(replica.ok()) << replica.status();
  EXPECT_EQ(replica->replica.role, Replica::Role::kBoth);
  EXPECT_EQ(replica->replica.lengths.mean(), 256);
  EXPECT_EQ(replica->metrics->mean_prompt_tokens, 1024);
  EXPECT_EQ(replica->replica.state.running[0].sequence.computed_tokens, 11);
}

TEST(ServingCodecTest, CountedStepsStandInForListedOnes) {
  const auto step = Decode(Text<v1::EngineStep>(
      "counts { prefill_tokens: 300 cached_tokens: 5 decode_sequences: 2 context_tokens: 9 } speculative_tokens: 1"));
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->prefill, (std::vector<PrefillChunk>{{300, 5}}));
  EXPECT_EQ(step->decode_context, (std::vector<std::int64_t>{5, 4}));
  EXPECT_EQ(step->speculative_tokens, 1);
  const auto field = [](const std::string& text) { return FieldOf(Decode(Text<v1::EngineStep>(text)).status()); };
  EXPECT_EQ(field("decode_context: 4 counts { decode_sequences: 2 context_tokens: 9 }"), "counts");
  EXPECT_EQ(field("counts { decode_sequences: 9223372036854775807 }"), "counts.decode_sequences");
  // Limits on sequences count them, too, without overflow.
  EXPECT_EQ(SequencesOf(Text<v1::EngineStep>("counts { prefill_sequences: 3 decode_sequences: 5 }")), 8);
  EXPECT_GT(SequencesOf(Text<v1::EngineStep>("counts { decode_sequences: 9223372036854775807 }")), 1 << 30);
}

TEST(ServingCodecTest, WhatIsWrongNamesItsField) {
  const auto of = [](const std::string& text) { return FieldOf(Decode(Text<v1::AdmitRequest>(text)).status()); };
  EXPECT_EQ(of("engines {} engines { deployment { dtype: 99 } }"), "engines[1].deployment.dtype");
  EXPECT_EQ(of("engines { token_budget: 1000000 }"), "engines[0].token_budget");
  EXPECT_EQ(of("engines { overhead { step_us: -1 } }"), "engines[0].overhead.step_us");
  EXPECT_EQ(of("engines { memory_share: nan }"), "engines[0].memory_share");
  EXPECT_EQ(of("engines { speculative_tokens: -1 }"), "engines[0].speculative_tokens");
  EXPECT_EQ(of("engines { acceptance: 1.5 }"), "engines[0].acceptance");
  EXPECT_EQ(of("replicas { engine: -1 }"), "replicas[0].engine");
  EXPECT_EQ(of("replicas { role: 17 }"), "replicas[0].role");
  EXPECT_EQ(of("replicas { output_lengths { mean: inf } }"), "replicas[0].output_lengths.mean");
  EXPECT_EQ(of("replicas { output_lengths { samples: 0 } }"), "replicas[0].output_lengths");
}

}  // namespace
}  // namespace gpueta::wire
