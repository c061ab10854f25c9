// What serving costs: a step through the model and through its table, and
// admission over many replicas. The profile is made up; tables and forms are
// as large as real ones.
#include <benchmark/benchmark.h>

#include <random>

#include "core/serving/admit.h"
#include "core/serving/testing_models.h"

namespace gpueta {
namespace {

const StepModel& Model() {
  static const StepModel model = StepModel::Compile(testing::SmallLlama(), "m").value();
  return model;
}

const StepTable& Table() {
  static const StepTable table = StepTable::Build(Model(), *testing::H100()).value();
  return table;
}

// New sizes each time.
struct Sizes {
  std::mt19937_64 draw{1};
  std::int64_t sequences() { return std::uniform_int_distribution<std::int64_t>(1, 256)(draw); }
  std::int64_t context() { return std::uniform_int_distribution<std::int64_t>(1, 16384)(draw); }
};

void StepByTable(benchmark::State& state) {
  Sizes sizes;
  std::vector<StepLoad> loads(1024);
  for (StepLoad& load : loads) {
    load.decode_sequences = sizes.sequences();
    load.mean_context = load.longest_context = static_cast<double>(sizes.context());
  }
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(Table().Latency(loads[i++ % loads.size()]));
}
BENCHMARK(StepByTable);

void StepByModel(benchmark::State& state) {
  Sizes sizes;
  const auto predictor = testing::H100();
  for (auto _ : state) {
    const EngineStep step{.decode_context =
                              std::vector<std::int64_t>(static_cast<std::size_t>(sizes.sequences()), sizes.context())};
    benchmark::DoNotOptimize(Model().Estimate(step, *predictor));
  }
}
BENCHMARK(StepByModel);

void BuildTable(benchmark::State& state) {
  const auto predictor = testing::H100();
  for (auto _ : state) benchmark::DoNotOptimize(StepTable::Build(Model(), *predictor));
  state.counters["bytes"] = static_cast<double>(Table().size_bytes());
  state.counters["error"] = Table().checked_error();
}
BENCHMARK(BuildTable)->Unit(benchmark::kMillisecond);

// Replicas with so many running requests each.
void AdmitReplicas(benchmark::State& state) {
  Sizes sizes;
  std::vector<Replica> replicas(static_cast<std::size_t>(state.range(0)));
  for (Replica& replica : replicas) {
    replica.table = &Table();
    replica.state.limits.kv_blocks = 50'000;
    for (std::int64_t i = 0; i < state.range(1); ++i) {
      Sequence sequence{.prompt_tokens = sizes.context() / 8 + 1, .generated_tokens = 1 + i % 200};
      sequence.computed_tokens = sequence.known_tokens() - 1;
      replica.state.running.push_back({.sequence = sequence});
    }
  }
  const LatencyLimits limits = {.ttft = LatencyLimit{.us = 5e5}, .tpot = LatencyLimit{.us = 5e4}};
  for (auto _ : state) benchmark::DoNotOptimize(Admit(replicas, {.prompt_tokens = 1000}, limits));
  state.counters["replicas/s"] =
      benchmark::Counter(static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(AdmitReplicas)
    ->Args({1, 16})
    ->Args({1, 128})
    ->Args({500, 16})
    ->Args({500, 64})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpueta
