// Time of a prediction without a wire, p50 and interval: columns of 1,000 rows,
// a batch of the kernels of decoder layers in the order they run, and kernels
// one at a time. Every call gets shapes that no call before it had.
//
// Prints one JSON object a round: nanoseconds a kernel for each figure, the
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

nlohmann::ordered_json Round(const Predictor& predictor, int calls, Random& random) {
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
  return {{"ns_per_kernel", ns}, {"measured", measured.count}};
}

absl::Status Run(const Options& options) {
  GPUETA_ASSIGN_OR_RETURN(std::vector<LoadedProfile> profiles, LoadProfileDirectory(options.profiles));
  std::vector<ActiveProfile> active;
  for (LoadedProfile& profile : profiles) active.push_back({.loaded = std::move(profile), .node = "", .version = 0});
  GPUETA_ASSIGN_OR_RETURN(const auto snapshot, Snapshot::Build(std::move(active)));
  GPUETA_ASSIGN_OR_RETURN(const auto predictor, snapshot->Find(options.device));
  Random random(std::random_device{}());
  std::string line;
  for (int round = 0; options.turns || round < options.rounds; ++round) {
    if (options.turns && !std::getline(std::cin, line)) break;
    std::cout << Round(*predictor, options.calls, random).dump() << std::endl;
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
