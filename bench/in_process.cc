// Time of a prediction without a wire, p50 and interval: columns of 1,000 rows,
// a batch of the kernels of decoder layers in the order they run, kernels one at
// a time, and decode steps of two registered models through their tables and
// kernel by kernel. Every call gets shapes that no call before it had.
//
// Prints one JSON object a round: nanoseconds a kernel or step for each figure, the
// median over calls. Calls take microseconds, so that a busy machine interrupts
// few of them. With --turns a round begins when a line arrives on the standard
// input: scripts/bench_peers measures another predictor in between.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/predict/snapshot.h"
#include "core/profile/profile.h"
#include "core/serving/step_table.h"

namespace gpueta {
namespace {

constexpr std::size_t kRows = 1000;
constexpr int kSinglesTimed = 100;  // one reading of the clock for as many

struct Options {
  std::string profiles = DefaultProfileDirectory();
  std::string device = "h100-sxm";
  int rounds = 5;
  int calls = 200;
  bool turns = false;
};

using Random = std::mt19937;

std::int64_t UpTo(Random& random, std::int64_t limit) {
  return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(limit));
}
template <std::size_t kCount>
std::int64_t OneOf(Random& random, const std::int64_t (&values)[kCount]) {
  return values[random() % kCount];
}

// Kernels of a new shape each, within what is usual.
Gemm NewGemm(Random& random) {
  return {.layer = Gemm::Layer::kLinear, .m = UpTo(random, 8192), .n = UpTo(random, 16384), .k = UpTo(random, 16384)};
}
Attention NewAttention(Random& random, Attention::Phase phase) {
  const bool decode = phase == Attention::Phase::kDecode;
  Attention a{.phase = phase, .batch = UpTo(random, decode ? 64 : 8), .kv_dtype = DType::kBf16};
  a.kv_len = UpTo(random, 8192);
  a.query_len = decode ? 1 : a.kv_len;
  a.kv_heads = OneOf(random, {1, 2, 4, 8});
  a.heads = a.kv_heads * OneOf(random, {1, 4, 8});
  a.head_dim = 128;
  a.causal = decode ? 0 : 1;
  return a;
}
Moe NewMoe(Random& random) {
  return {.num_tokens = UpTo(random, 8192),
          .hidden_size = OneOf(random, {2048, 4096, 5120, 7168}),
          .inter_size = OneOf(random, {1024, 1536, 2048, 14336}),
          .top_k = OneOf(random, {2, 4, 8}),
          .num_experts = OneOf(random, {8, 64, 128, 256}),
          .tp = 1,
          .ep = OneOf(random, {1, 2, 4})};
}
Vector NewVector(Random& random, std::string_view op, std::int64_t operands) {
  return {.op = std::string(op), .rows = UpTo(random, 8192), .cols = UpTo(random, 16384), .operands = operands};
}

Kernel Bf16(Work work) { return {.name = "", .dtype = DType::kBf16, .work = std::move(work), .launch = {}}; }

// The kernels of one decoder layer with experts, in order, each of a new shape.
void AppendLayer(Random& random, std::vector<Kernel>& kernels) {
  const auto phase = random() % 2 == 0 ? Attention::Phase::kPrefill : Attention::Phase::kDecode;
  kernels.push_back(Bf16(NewVector(random, "rmsnorm", 1)));
  kernels.push_back(Bf16(NewGemm(random)));  // queries, keys and values
  kernels.push_back(Bf16(NewVector(random, "rope", 1)));
  kernels.push_back(Bf16(NewAttention(random, phase)));
  kernels.push_back(Bf16(NewGemm(random)));  // output
  kernels.push_back(Bf16(NewVector(random, "add", 2)));
  kernels.push_back(Bf16(NewVector(random, "rmsnorm", 1)));
  kernels.push_back(Bf16(NewGemm(random)));  // router
  kernels.push_back(Bf16(NewMoe(random)));
  kernels.push_back(Bf16(NewVector(random, "add", 2)));
}

double Nanoseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::nano>(d).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void MustBe(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

// Calls made one after the other before new shapes are drawn. More of them do
// not fit into the caches that a caller's rows come from.
constexpr int kAtOnce = 2;

// Runs call(i), i < kAtOnce, as often as asked, each time after prepare(i);
// nanoseconds a kernel.
template <class Prepare, class Call>
double Time(int calls, double kernels, Prepare prepare, Call call) {
  std::vector<double> ns;
  while (static_cast<int>(ns.size()) < calls) {
    for (int i = 0; i < kAtOnce; ++i) prepare(i);
    for (int i = 0; i < kAtOnce; ++i) {
      const auto start = std::chrono::steady_clock::now();
      call(i);
      ns.push_back(Nanoseconds(std::chrono::steady_clock::now() - start) / kernels);
    }
  }
  return Median(std::move(ns));
}

// How many of the answers were measured rather than predicted: should be few.
struct Measured {
  std::size_t count = 0;
  void Add(std::span<const Provenance> answers) {
    count += static_cast<std::size_t>(std::count(answers.begin(), answers.end(), Provenance::kMeasured));
  }
};

// Rows of one op, dtype and label.
struct Rows {
  explicit Rows(Kernel prototype) : values(static_cast<std::size_t>(DimNamesOf(prototype.op()).size)) {
    columns.prototype = std::move(prototype);
    columns.rows = kRows;
  }
  template <class Draw>
  void Fill(Draw draw) {
    for (auto& column : values) column.clear();
    for (std::size_t r = 0; r < kRows; ++r) {
      const Kernel kernel = draw();
      for (std::size_t d = 0; d < values.size(); ++d)
        values[d].push_back(static_cast<std::uint32_t>(GetDim(kernel, static_cast<int>(d))));
    }
    for (std::size_t d = 0; d < values.size(); ++d) {
      const bool same = std::all_of(values[d].begin(), values[d].end(), [&](auto v) { return v == values[d][0]; });
      columns.dims[d] = std::span(values[d]).first(same ? 1 : kRows);
    }
  }

  std::vector<std::vector<std::uint32_t>> values;
  KernelColumns columns;
};

// `draw` makes a kernel; all of them share op, dtype and label.
template <class Draw>
double Columns(const Predictor& predictor, int calls, Measured& measured, Draw draw) {
  std::vector<Rows> inputs(kAtOnce, Rows(draw()));
  std::vector<float> p50(kRows), p90(kRows), p99(kRows);
  std::vector<Provenance> provenance(kRows, Provenance::kRoofline);
  ColumnsResult result{p50, p90, p99, provenance, {}};
  return Time(
      calls, kRows,
      [&](int i) {
        if (i == 0) measured.Add(provenance);  // of the call before
        inputs[static_cast<std::size_t>(i)].Fill(draw);
      },
      [&](int i) { MustBe(predictor.EstimateColumns(inputs[static_cast<std::size_t>(i)].columns, {}, result)); });
}

// Kernels and room for the answers.
struct List {
  std::vector<Kernel> kernels;
  std::vector<Estimate> estimates;
};

void AddMeasured(const List& list, Measured& measured) {
  for (const Estimate& estimate : list.estimates) measured.Add(std::span(&estimate.provenance, 1));
}

double Batch(const Predictor& predictor, int calls, Random& random, Measured& measured) {
  List inputs[kAtOnce];
  return Time(
      calls, kRows,
      [&](int i) {
        AddMeasured(inputs[i], measured);
        inputs[i].kernels.clear();
        while (inputs[i].kernels.size() < kRows) AppendLayer(random, inputs[i].kernels);
        inputs[i].estimates.resize(kRows);
      },
      [&](int i) { MustBe(predictor.EstimateKernels(inputs[i].kernels, {}, inputs[i].estimates)); });
}

template <class Draw>
double Single(const Predictor& predictor, int calls, Measured& measured, Draw draw) {
  List inputs[kAtOnce];
  return Time(
      calls, kSinglesTimed,
      [&](int i) {
        AddMeasured(inputs[i], measured);
        inputs[i].kernels.clear();
        for (int k = 0; k < kSinglesTimed; ++k) inputs[i].kernels.push_back(draw());
        inputs[i].estimates.resize(kSinglesTimed);
      },
      [&](int i) {
        for (std::size_t k = 0; k < kSinglesTimed; ++k) {
          const auto estimate = predictor.EstimateKernel(inputs[i].kernels[k]);
          MustBe(estimate.status());
          inputs[i].estimates[k] = *estimate;
        }
      });
}

// A model with the table that answers for its steps.
struct Served {
  std::string name;
  StepModel model;
  StepTable table;
};

// Two models that are published, and their sizes.
constexpr const char* kLlama = R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":4096,
  "intermediate_size":14336,"num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":32,
  "vocab_size":128256,"max_position_embeddings":131072,"rms_norm_eps":1e-5,"torch_dtype":"bfloat16"})";
constexpr const char* kQwen = R"({"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","hidden_size":2048,
  "intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"head_dim":128,
  "num_attention_heads":32,"num_key_value_heads":4,"num_hidden_layers":48,"vocab_size":151936,
  "max_position_embeddings":40960,"rms_norm_eps":1e-6,"norm_topk_prob":true,"decoder_sparse_step":1,
  "mlp_only_layers":[],"torch_dtype":"bfloat16"})";

absl::StatusOr<Served> Register(const char* name, const char* config, const Predictor& predictor) {
  GPUETA_ASSIGN_OR_RETURN(StepModel model, StepModel::Compile(config, name));
  GPUETA_ASSIGN_OR_RETURN(StepTable table, StepTable::Build(model, predictor));
  return Served{name, std::move(model), std::move(table)};
}

// Decode steps: sequences and their context.
struct Steps {
  void Fill(Random& random, std::size_t count) {
    sequences.clear();
    context.clear();
    for (std::size_t i = 0; i < count; ++i) {
      sequences.push_back(static_cast<std::int32_t>(UpTo(random, 128)));
      context.push_back(static_cast<float>(63 + UpTo(random, 7937)));
    }
    p50.resize(count);
    sigma.resize(count);
  }
  std::vector<std::int32_t> sequences;
  std::vector<float> context, p50, sigma;
};

// p50 and deviation, a thousand at once.
double StepColumns(const Served& served, int calls, Random& random) {
  Steps inputs[kAtOnce];
  return Time(
      calls, kRows, [&](int i) { inputs[i].Fill(random, kRows); },
      [&](int i) {
        Steps& steps = inputs[i];
        served.table.DecodeLatencies(steps.sequences, steps.context, {}, steps.p50, steps.sigma);
      });
}

// p50 and p90.
double StepSingles(const Served& served, int calls, Random& random) {
  const QuantilePoint p90 = QuantilePoint::At(0.9);
  Steps inputs[kAtOnce];
  return Time(
      calls, kSinglesTimed, [&](int i) { inputs[i].Fill(random, kSinglesTimed); },
      [&](int i) {
        Steps& steps = inputs[i];
        for (std::size_t k = 0; k < kSinglesTimed; ++k) {
          const double context = steps.context[k];
          const StepLatency latency = served.table.Latency({{}, steps.sequences[k], context, context});
          steps.p50[k] = static_cast<float>(latency.p50_us);
          steps.sigma[k] = static_cast<float>(latency.Quantile(p90));
        }
      });
}

// With quantiles and parts.
double StepsByKernels(const Served& served, const Predictor& predictor, int calls, Random& random) {
  constexpr int kSteps = 10;
  Steps inputs[kAtOnce];
  return Time(
      calls, kSteps, [&](int i) { inputs[i].Fill(random, kSteps); },
      [&](int i) {
        for (std::size_t k = 0; k < kSteps; ++k) {
          const std::vector<std::int64_t> contexts(static_cast<std::size_t>(inputs[i].sequences[k]),
                                                   static_cast<std::int64_t>(inputs[i].context[k]));
          const auto estimate = served.model.Estimate({.decode_context = contexts}, predictor);
          MustBe(estimate.status());
          inputs[i].p50[k] = static_cast<float>(estimate->latency_us.p50);
        }
      });
}

nlohmann::ordered_json Round(const Predictor& predictor, const std::vector<Served>& models, int calls, Random& random) {
  using enum Attention::Phase;
  nlohmann::ordered_json ns;
  Measured measured;
  const auto gemm = [&] { return Bf16(NewGemm(random)); };
  const auto prefill = [&] { return Bf16(NewAttention(random, kPrefill)); };
  const auto decode = [&] { return Bf16(NewAttention(random, kDecode)); };
  ns["gemm, columns"] = Columns(predictor, calls, measured, gemm);
  ns["prefill, columns"] = Columns(predictor, calls, measured, prefill);
  ns["decode, columns"] = Columns(predictor, calls, measured, decode);
  ns["moe, columns"] = Columns(predictor, calls, measured, [&] { return Bf16(NewMoe(random)); });
  ns["vector, columns"] = Columns(predictor, calls, measured, [&] { return Bf16(NewVector(random, "add", 2)); });
  ns["decoder layers, one batch"] = Batch(predictor, calls, random, measured);
  ns["gemm, one at a time"] = Single(predictor, calls, measured, gemm);
  ns["decode, one at a time"] = Single(predictor, calls, measured, decode);
  for (const Served& served : models) {
    ns[served.name + " step, columns"] = StepColumns(served, calls, random);
    ns[served.name + " step, one at a time"] = StepSingles(served, calls, random);
    ns[served.name + " step, by its kernels"] = StepsByKernels(served, predictor, calls, random);
  }
  return {{"ns_per_kernel", ns}, {"measured", measured.count}};
}

absl::Status Run(const Options& options) {
  GPUETA_ASSIGN_OR_RETURN(std::vector<LoadedProfile> profiles, LoadProfileDirectory(options.profiles));
  std::vector<ActiveProfile> active;
  for (LoadedProfile& profile : profiles) active.push_back({.loaded = std::move(profile), .node = "", .version = 0});
  GPUETA_ASSIGN_OR_RETURN(const auto snapshot, Snapshot::Build(std::move(active)));
  GPUETA_ASSIGN_OR_RETURN(const auto predictor, snapshot->Find(options.device));
  std::vector<Served> models;
  for (const auto& [name, config] : {std::pair("llama-3.1-8b", kLlama), std::pair("qwen3-30b-a3b", kQwen)}) {
    GPUETA_ASSIGN_OR_RETURN(Served served, Register(name, config, *predictor));
    models.push_back(std::move(served));
  }
  Random random(std::random_device{}());
  std::string line;
  for (int round = 0; options.turns || round < options.rounds; ++round) {
    if (options.turns && !std::getline(std::cin, line)) break;
    std::cout << Round(*predictor, models, options.calls, random).dump() << std::endl;
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app{"Times predictions in this process."};
  app.add_option("--profiles", options.profiles, "directory of *.profile files")->capture_default_str();
  app.add_option("--device", options.device, "slug of the device asked about")->capture_default_str();
  app.add_option("--rounds", options.rounds, "rounds to print")->capture_default_str();
  app.add_option("--calls", options.calls, "calls a figure and round; the median counts")->capture_default_str();
  app.add_flag("--turns", options.turns, "a round for each line of the standard input");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace gpueta

int main(int argc, char** argv) { return gpueta::Main(argc, argv); }
