#include "core/serving/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/serving/testing_models.h"

namespace gpueta {
namespace {

using testing::Table;

EngineState State() {
  return {.limits = {.token_budget = 1024, .max_sequences = 64, .kv_blocks = 10'000, .block_tokens = 16}};
}

Request Waiting(std::int64_t prompt, std::int64_t output = 0) {
  return {.sequence = {.prompt_tokens = prompt, .output_tokens = output}};
}

Request Running(std::int64_t prompt, std::int64_t generated, std::int64_t output = 0) {
  return {.sequence = {.prompt_tokens = prompt,
                       .computed_tokens = prompt + generated - 1,
                       .generated_tokens = generated,
                       .output_tokens = output}};
}

TEST(ScheduleTest, OneRequestIsItsChunksAndItsDecodeSteps) {
  EngineState state = State();
  state.waiting = {Waiting(2000, 11)};
  const auto forecast = Forecast(state, Table(), OutputLengths::Fixed(1));
  ASSERT_TRUE(forecast.ok()) << forecast.status();
  const PrefillChunk chunks[] = {{1024, 0}, {976, 1024}};
  double first_us = 0;
  for (const PrefillChunk& chunk : chunks) first_us += Table().Latency({.prefill = {&chunk, 1}}).p50_us;
  double rest_us = 0;
  for (int i = 1; i <= 10; ++i) {
    const double context = 2000 + i;
    rest_us += Table().Latency({{}, 1, context, context}).p50_us;
  }
  EXPECT_NEAR(forecast->front().ttft_us.Quantile(0.5), first_us, 1e-6);
  EXPECT_NEAR(forecast->front().tpot_us.Quantile(0.5), rest_us / 10, rest_us / 10 * 1e-3);
  EXPECT_NEAR(forecast->front().e2e_us.Quantile(0.5), first_us + rest_us, rest_us * 1e-3);
}

TEST(ScheduleTest, AcceptedDraftsShortenWhatIsLeft) {
  constexpr std::int64_t kDrafts = 3;
  const StepTable table =
      *StepTable::Build(*StepModel::Compile(testing::SmallLlama(), "m"), *testing::H100(),
                        {.tokens = 2048, .sequences = 64, .context = 16384, .speculative_tokens = kDrafts});
  const auto tpot_us = [&](const StepTable& with, const Speculation& speculation, std::size_t sequences) {
    EngineState state = State();
    state.limits.speculation = speculation;
    state.running.assign(sequences, Running(1000, 1, 401));
    const auto forecast = Forecast(state, with, OutputLengths::Fixed(1));
    EXPECT_TRUE(forecast.ok()) << forecast.status();
    return forecast->back().tpot_us.Quantile(0.5);
  };
  for (const std::size_t sequences : {1, 32}) {
    const double plain = tpot_us(Table(), {}, sequences);
    const double none = tpot_us(table, {kDrafts, 0}, sequences);
    const double half = tpot_us(table, {kDrafts, 0.5}, sequences);
    const double all = tpot_us(table, {kDrafts, 1}, sequences);
    EXPECT_GE(none, plain);                   // more work for as many tokens
    EXPECT_NEAR(all, none / 4, none * 1e-3);  // the same steps, four tokens each
    EXPECT_NEAR(half, none / 1.875, none * 5e-3);
  }
}

TEST(ScheduleTest, QuantilesAreOrderedAndWiderThanTheStepAlone) {
  EngineState state = State();
  state.waiting = {Waiting(500)};
  const auto forecast = Forecast(state, Table(), OutputLengths::Geometric(100), {.scenarios = 64});
  const LatencyForecast& e2e = forecast->front().e2e_us;
  EXPECT_LT(e2e.Quantile(0.1), e2e.Quantile(0.5));
  EXPECT_LT(e2e.Quantile(0.5), e2e.Quantile(0.9));
  EXPECT_LT(e2e.Quantile(0.9), e2e.Quantile(0.99));
  // Half of geometric lengths are below 0.69 means, a tenth above 2.3.
  EXPECT_GT(e2e.Quantile(0.9), 2 * e2e.Quantile(0.5));
}

// The engine's phases one after the other, each as long as the mean of its first
// and its last step: when each request ends.
std::vector<double> EndsByPlaying(const EngineState& state) {
  Engine engine(state.limits);
  std::size_t count = 0;
  for (const Request& request : state.running) engine.AddRunning(request.sequence, count++);
  for (const Request& request : state.waiting) engine.AddWaiting(request.sequence, count++);
  std::vector<double> ends(count);
  std::vector<PrefillChunk> chunks;
  std::vector<Engine::Event> events;
  double now_us = 0;
  while (!engine.idle()) {
    engine.Schedule();
    engine.ChunksOf(chunks);
    const std::int64_t steps = 1 + engine.Repeats();
    StepLoad load{chunks, engine.decoding(), engine.mean_context(), static_cast<double>(engine.longest_context())};
    const double first_us = Table().Latency(load).p50_us;
    load.mean_context += static_cast<double>(steps - 1);
    load.longest_context += static_cast<double>(steps - 1);
    now_us += (first_us + Table().Latency(load).p50_us) / 2 * static_cast<double>(steps);
    engine.Complete(steps, events);
    for (const Engine::Event& event : events) {
      if (event.ended) ends[event.id] = now_us;
    }
  }
  return ends;
}

TEST(ScheduleTest, SequencesThatOnlyDecodeEndAsIfTheyWerePlayed) {
  // With fewer blocks than all need in the end they are played; with a queue
  // until it is empty.
  for (const std::int64_t blocks : {400, 700, 10'000}) {
    for (const int waiting : {0, 3}) {
      EngineState state = State();
      state.limits.kv_blocks = blocks;
      for (int i = 0; i < 20; ++i) state.running.push_back(Running(50 + i * i, 5 + i, 20 + i * 7919 % 61 + i));
      for (int i = 0; i < waiting; ++i) state.waiting.push_back(Waiting(400 + 300 * i, 30 + 9 * i));
      const std::vector<double> expected = EndsByPlaying(state);
      const auto forecast = Forecast(state, Table(), OutputLengths::Fixed(1));
      ASSERT_TRUE(forecast.ok()) << forecast.status();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        // Where blocks are nearly out, playing stops and looks more often.
        EXPECT_NEAR((*forecast)[i].e2e_us.Median() / expected[i], 1, blocks < 10'000 ? 1e-4 : 1e-6)
            << i << " with " << blocks << " blocks and " << waiting << " waiting";
      }
    }
  }
}

TEST(ScheduleTest, AForecasterRemembersNothingOfOtherStates) {
  EngineState small = State();
  small.running = {Running(500, 10)};
  EngineState large = State();
  for (int i = 0; i < 30; ++i) large.running.push_back(Running(300 + 50 * i, 5 + i));
  large.waiting = {Waiting(2500)};
  const OutputLengths lengths = OutputLengths::Geometric(80);
  Forecaster forecaster;
  const Request joining = Waiting(700);
  for (int round = 0; round < 2; ++round) {
    for (const EngineState& state : {large, small}) {
      const auto one = forecaster.Forecast(state, &joining, Table(), lengths);
      EngineState with = state;
      with.waiting.push_back(joining);
      const auto other = Forecast(with, Table(), lengths);
      ASSERT_EQ(one->size(), other->size());
      for (std::size_t i = 0; i < other->size(); ++i) {
        EXPECT_EQ((*one)[i].e2e_us.Quantile(0.9), (*other)[i].e2e_us.Quantile(0.9)) << i;
        EXPECT_EQ((*one)[i].ttft_us.Quantile(0.9), (*other)[i].ttft_us.Quantile(0.9)) << i;
      }
    }
  }
}

TEST(LatencyForecastTest, LogarithmsAreThoseOfQuantiles) {
  const QuantilePoint points[] = {QuantilePoint::At(0.06), QuantilePoint::At(0.5), QuantilePoint::At(0.93)};
  for (const LatencyForecast& forecast : {LatencyForecast({30, 10, 20, 70, 40}, 0.07), LatencyForecast({5, 5, 5}, 0.1),
                                          LatencyForecast({1, 2, INFINITY, INFINITY}, 0.1)}) {
    std::vector<double> ln;
    forecast.AppendLn(points, ln);
    ASSERT_EQ(ln.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      const double expected = forecast.Quantile(points[i]);
      EXPECT_TRUE(std::exp(ln[i]) == expected || std::abs(std::exp(ln[i]) / expected - 1) < 1e-12) << i;
    }
  }
}

TEST(ScheduleTest, TheTimeThatHasPassedCounts) {
  EngineState state = State();
  state.running = {Running(500, 10, 20)};
  state.waiting = {Waiting(500, 5)};
  const auto before = Forecast(state, Table(), OutputLengths::Fixed(1));
  state.waiting[0].since_arrival_us = 1e6;
  state.running[0].since_arrival_us = 2e6;
  state.running[0].since_first_token_us = 19e5;
  const auto after = Forecast(state, Table(), OutputLengths::Fixed(1));
  EXPECT_NEAR((*after)[1].ttft_us.Quantile(0.5) - (*before)[1].ttft_us.Quantile(0.5), 1e6, 1);
  EXPECT_NEAR((*after)[0].tpot_us.Quantile(0.5) - (*before)[0].tpot_us.Quantile(0.5), 1e5, 1);
  EXPECT_TRUE((*after)[0].ttft_us.empty());
}

TEST(ScheduleTest, AFurtherRequestNeverHelpsTheOthers) {
  EngineState state = State();
  for (int i = 0; i < 20; ++i) state.running.push_back(Running(300 + 50 * i, 5 + i));
  const auto without = Forecast(state, Table(), OutputLengths::Geometric(80));
  state.waiting = {Waiting(3000)};
  const auto with = Forecast(state, Table(), OutputLengths::Geometric(80));
  for (std::size_t i = 0; i < state.running.size(); ++i) {
    EXPECT_GE((*with)[i].e2e_us.Quantile(0.5), (*without)[i].e2e_us.Quantile(0.5) * (1 - 1e-9)) << i;
  }
  EXPECT_GT((*with)[0].tpot_us.Quantile(0.5), (*without)[0].tpot_us.Quantile(0.5));
}

TEST(ScheduleTest, KeysThatAreOnTheirWayDelayTheSequence) {
  EngineState state = State();
  Request request = Running(1000, 1, 11);
  request.sequence.computed_tokens = 0;
  request.sequence.cached_tokens = 1000;
  request.transfer_us = 5e5;
  state.waiting = {request};
  const auto forecast = Forecast(state, Table(), OutputLengths::Fixed(1));
  ASSERT_TRUE(forecast.ok()) << forecast.status();
  EXPECT_GT(forecast->front().e2e_us.Quantile(0.5), 5e5);
  EXPECT_LT(forecast->front().e2e_us.Quantile(0.5), 6e5);
}

TEST(ScheduleTest, WhatNeverFitsNeverEnds) {
  EngineState state = State();
  state.limits.kv_blocks = 4;
  state.waiting = {Waiting(1000, 5)};
  const auto forecast = Forecast(state, Table(), OutputLengths::Fixed(1));
  EXPECT_TRUE(std::isinf(forecast->front().e2e_us.Quantile(0.9)));
}

TEST(ScheduleTest, SaysWhichFieldIsWrong) {
  EngineState state = State();
  state.waiting = {Waiting(5), Waiting(-1)};
  EXPECT_NE(Forecast(state, Table(), OutputLengths::Fixed(1)).status().message().find("waiting[1].prompt_tokens"),
            absl::string_view::npos);
  state.waiting.clear();
  state.running = {Running(10, 5, 4)};
  EXPECT_NE(Forecast(state, Table(), OutputLengths::Fixed(1)).status().message().find("running[0].output_tokens"),
            absl::string_view::npos);
}

TEST(OutputLengthsTest, RemainderIsConditionedOnWhatWasGenerated) {
  const OutputLengths lengths = *OutputLengths::FromSamples({10, 20, 30, 40});
  EXPECT_EQ(lengths.Draw(0.1), 10);
  EXPECT_EQ(lengths.Draw(0.9), 40);
  EXPECT_EQ(lengths.Draw(0.1, 20), 30);
  EXPECT_EQ(lengths.Draw(0.9, 39), 40);
  EXPECT_GT(lengths.Draw(0.5, 40), 40);
  EXPECT_EQ(OutputLengths::Fixed(7).Draw(0.99), 7);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) sum += static_cast<double>(OutputLengths::Geometric(50).Draw((i + 0.5) / 1000));
  EXPECT_NEAR(sum / 1000, 50, 0.5);
  EXPECT_FALSE(OutputLengths::FromSamples({}).ok());
  EXPECT_FALSE(OutputLengths::FromSamples({0}).ok());
}

}  // namespace
}  // namespace gpueta
