// Time of a prediction without a wire: single kernels, and columns of 1,000
// rows (divide by them). On a profile made by hand with residuals as large as
// fitted ones have; GPUETA_PROFILE=FILE takes another one.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>

#include "core/predict/snapshot.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

std::shared_ptr<const Predictor> PredictorOf(LoadedProfile loaded) {
  const std::string slug = loaded.profile.device;
  return Snapshot::Build({{.loaded = std::move(loaded), .node = "", .version = 1}}).value()->Find(slug).value();
}

// The forms alone, without a learnt residual.
const Predictor& Plain() {
  static const std::shared_ptr<const Predictor>& predictor = *new std::shared_ptr<const Predictor>(
      PredictorOf(ParseProfile(testing_util::MakeTestProfileFile("h100-sxm")).value()));
  return *predictor;
}

// With residuals, or the profile that was asked for.
std::shared_ptr<const Predictor> MakeFull() {
  if (const char* path = std::getenv("GPUETA_PROFILE")) return PredictorOf(LoadProfile(path).value());
  Profile profile = testing_util::MakeTestProfile("h100-sxm");
  testing_util::AddTestResiduals(profile);
  return PredictorOf(ParseProfile(SerializeProfile(profile)).value());
}
const Predictor& Full() {
  static const std::shared_ptr<const Predictor>& predictor = *new std::shared_ptr<const Predictor>(MakeFull());
  return *predictor;
}

Kernel Prototype(Op op) {
  switch (op) {
    case Op::kGemm: return {.dtype = DType::kBf16, .work = Gemm{.layer = Gemm::Layer::kLinear}};
    case Op::kAttention: return {.dtype = DType::kBf16, .work = Attention{.phase = Attention::Phase::kDecode}};
    default: return {.dtype = DType::kBf16, .work = Vector{.op = "add", .operands = 2}};
  }
}

// Random values within usual ranges for each dim; 1 value where a dim is fixed.
struct Rows {
  KernelColumns columns;
  std::array<std::vector<std::uint32_t>, kMaxDims> values;
};
Rows MakeRows(Op op, std::size_t count) {
  std::mt19937 random(0);
  const auto up_to = [&](std::uint32_t limit) {
    std::vector<std::uint32_t> values(count);
    for (auto& v : values) v = 1 + random() % limit;
    return values;
  };
  Rows rows;
  rows.columns.prototype = Prototype(op);
  switch (op) {
    case Op::kGemm: rows.values = {std::vector<std::uint32_t>{1}, up_to(8192), up_to(16384), up_to(16384)}; break;
    case Op::kAttention:
      rows.values = {up_to(64),
                     std::vector<std::uint32_t>{1},
                     up_to(16384),
                     std::vector<std::uint32_t>{32},
                     std::vector<std::uint32_t>{8},
                     std::vector<std::uint32_t>{128},
                     std::vector<std::uint32_t>{0}};
      break;
    default: rows.values = {up_to(65536), up_to(8192), std::vector<std::uint32_t>{2}};
  }
  rows.columns.rows = count;
  return rows;
}

void BM_SingleKernel(benchmark::State& state, const Predictor& (*predictor)(), Op op) {
  constexpr std::size_t kKernels = 256;
  const Rows rows = MakeRows(op, kKernels);
  std::vector<Kernel> kernels(kKernels, Prototype(op));
  for (std::size_t i = 0; i < kKernels; ++i) {
    for (int d = 0; d < DimNamesOf(op).size; ++d) {
      const auto& values = rows.values[static_cast<std::size_t>(d)];
      SetDim(kernels[i], d, values[values.size() == 1 ? 0 : i]);
    }
  }
  std::size_t i = 0;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(predictor().EstimateKernel(kernels[i++ % kKernels]));
  state.SetItemsProcessed(state.iterations());
}

void BM_Columns(benchmark::State& state, const Predictor& (*predictor)(), Op op) {
  constexpr std::size_t kRows = 1000;
  Rows rows = MakeRows(op, kRows);
  for (std::size_t d = 0; d < rows.values.size(); ++d) rows.columns.dims[d] = rows.values[d];
  std::vector<float> p50(kRows), p90(kRows), p99(kRows);
  std::vector<Provenance> provenance(kRows);
  ColumnsResult result{.p50_us = p50, .p90_us = p90, .p99_us = p99, .provenance = provenance};
  for ([[maybe_unused]] auto _ : state) {
    if (!predictor().EstimateColumns(rows.columns, {}, result).ok()) state.SkipWithError("refused");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kRows));
}

BENCHMARK_CAPTURE(BM_SingleKernel, gemm, Full, Op::kGemm);
BENCHMARK_CAPTURE(BM_SingleKernel, gemm_without_residual, Plain, Op::kGemm);
BENCHMARK_CAPTURE(BM_SingleKernel, attention, Full, Op::kAttention);
BENCHMARK_CAPTURE(BM_SingleKernel, vector, Full, Op::kVector);
BENCHMARK_CAPTURE(BM_Columns, gemm, Full, Op::kGemm);
BENCHMARK_CAPTURE(BM_Columns, gemm_without_residual, Plain, Op::kGemm);
BENCHMARK_CAPTURE(BM_Columns, attention, Full, Op::kAttention);
BENCHMARK_CAPTURE(BM_Columns, vector, Full, Op::kVector);

}  // namespace
}  // namespace gpueta
