// Kernels of one's own: measured, fitted as configurations, asked for by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/device/catalogue.h"
#include "core/device/machine_of.h"
#include "core/feedback/error_summary.h"
#include "core/fit/fit.h"
#include "core/kernels/kernel_launch.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"
#include "core/wire/manifest_codec.h"

namespace gpueta {
namespace {

DeviceSpec Spec() { return Catalogue::BuiltIn().Get("a100-sxm4-80gb").value(); }

// What a synthetic device does with a kernel. None of it is known to the fit,
// whose forms have no maximum, no warm-up of a block and no thinner last wave.
struct Hidden {
  double launch_us;
  double block_us;    // of a block, besides its work
  double efficiency;  // of the peak
  double bandwidth;   // share of the data sheet's
  int resident;       // blocks of an SM
};

double SyntheticUs(const Hidden& hidden, const Kernel& kernel) {
  const Machine<double> machine = MachineOf(Spec(), KeyOf(kernel, Timing::kKernel));
  const Custom& work = std::get<Custom>(kernel.work);
  const auto blocks = static_cast<double>(kernel.launch.blocks());
  const double slots = machine.sms * hidden.resident;
  const double flops = static_cast<double>(work.flops) / blocks, bytes = static_cast<double>(work.bytes) / blocks;
  const auto wave_us = [&](double running) {
    // Blocks share what their SM computes; all of them share the memory.
    const double per_sm = std::ceil(running / machine.sms);
    const double compute = flops * per_sm / (hidden.efficiency * machine.peak / machine.sms);
    const double memory = bytes * running / (hidden.bandwidth * machine.bandwidth);
    return hidden.block_us + std::max(compute, memory);
  };
  const double full = std::floor(blocks / slots);
  const double rest = blocks - full * slots;
  return hidden.launch_us + full * wave_us(slots) + (rest > 0 ? wave_us(rest) : 0);
}

std::vector<Measurement> Measure(const std::string& example, const Hidden& hidden, std::size_t count, unsigned seed) {
  constexpr std::int64_t kMemory = std::int64_t{4} << 30;
  constexpr double kNoise = 0.02;
  const KernelManifest manifest = wire::ReadManifestFile("examples/kernels/" + example + ".manifest").value();
  const std::vector<SymbolValues> shapes = SampleShapes(manifest, count, kMemory, seed).value();
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, kNoise);
  std::vector<Measurement> rows;
  for (const SymbolValues& shape : shapes) {
    Measurement row;
    row.device = "a100-sxm4-80gb";
    row.kernel = LaunchOf(manifest, shape).value().kernel;
    row.latency_us = SyntheticUs(hidden, row.kernel) * std::exp(noise(random));
    rows.push_back(row);
  }
  return rows;
}

constexpr Hidden kGemm = {.launch_us = 3.1, .block_us = 1.7, .efficiency = 0.44, .bandwidth = 0.71, .resident = 4};
constexpr Hidden kFlash = {.launch_us = 2.4, .block_us = 0.9, .efficiency = 0.27, .bandwidth = 0.83, .resident = 6};

// Both kernels in one table, as a node has them.
std::vector<Measurement> BothKernels(std::size_t each, unsigned seed) {
  std::vector<Measurement> rows = Measure("tiled_gemm", kGemm, each, seed);
  for (Measurement& row : Measure("flash_attention", kFlash, each, seed + 1)) rows.push_back(std::move(row));
  return rows;
}

Predictor Fitted(const std::vector<Measurement>& rows) {
  const auto profile = FitProfile(Spec(), rows);
  EXPECT_TRUE(profile.ok()) << profile.status();
  return Predictor(Spec(), std::make_shared<const CompiledProfile>(ParseProfile(SerializeProfile(*profile)).value()),
                   nullptr);
}

ErrorSummary Errors(const Predictor& predictor, const std::vector<Measurement>& rows) {
  std::vector<PredictedAndObserved> pairs;
  for (const Measurement& row : rows)
    pairs.push_back({predictor.EstimateKernel(row.kernel, {.timing = row.timing})->latency_us, row.latency_us});
  return Summarise(pairs);
}

TEST(CustomFitTest, KernelsArePredictedByTheirNameAndGrid) {
  const Predictor predictor = Fitted(BothKernels(300, 1));
  const std::vector<Measurement> gemm = Measure("tiled_gemm", kGemm, 600, 101);
  const std::vector<Measurement> flash = Measure("flash_attention", kFlash, 600, 102);
  const ErrorSummary of_gemm = Errors(predictor, gemm), of_flash = Errors(predictor, flash);
  RecordProperty("gemm_mape", std::to_string(of_gemm.mape));  // for docs/accuracy.md
  RecordProperty("flash_mape", std::to_string(of_flash.mape));
  EXPECT_LT(of_gemm.mape, 0.03);
  EXPECT_LT(of_flash.mape, 0.03);
  EXPECT_GT(of_gemm.below_p90, 0.84);
  EXPECT_LT(of_gemm.below_p90, 0.97);
  EXPECT_EQ(predictor.EstimateKernel(gemm.front().kernel)->estimator, "launch");
}

TEST(CustomFitTest, TheGridSaysMoreThanTheCounts) {
  const Predictor predictor = Fitted(BothKernels(200, 3));
  std::vector<Measurement> rows = Measure("tiled_gemm", kGemm, 400, 103);
  const double with = Errors(predictor, rows).mape;
  for (Measurement& row : rows) row.kernel.launch = {};
  const double without = Errors(predictor, rows).mape;
  EXPECT_LT(with, 0.8 * without);
}

TEST(CustomFitTest, AFewMeasurementsGiveAConfiguration) {
  const Predictor predictor = Fitted(Measure("tiled_gemm", kGemm, 30, 5));
  const std::vector<Measurement> rows = Measure("tiled_gemm", kGemm, 400, 105);
  EXPECT_LT(Errors(predictor, rows).mape, 0.15);
  const auto aware = predictor.EstimateKernel(rows.front().kernel, {.estimator = "kernel-aware"});
  ASSERT_TRUE(aware.ok()) << aware.status();
  EXPECT_EQ(aware->estimator, "kernel-aware");
}

TEST(CustomFitTest, BatchesAnswerAsKernelsOneByOne) {
  const Predictor predictor = Fitted(BothKernels(100, 7));
  std::vector<Kernel> kernels;
  for (const Measurement& row : BothKernels(40, 107)) kernels.push_back(row.kernel);
  for (std::size_t i = 0; i < kernels.size(); i += 3) kernels[i].launch = {};  // some without a grid
  std::vector<Estimate> batch(kernels.size());
  ASSERT_TRUE(predictor.EstimateKernels(kernels, {}, batch).ok());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Estimate alone = predictor.EstimateKernel(kernels[i]).value();
    EXPECT_EQ(batch[i].latency_us.p50, alone.latency_us.p50) << i;
    EXPECT_EQ(batch[i].estimator, alone.estimator) << i;
  }
}

TEST(CustomFitTest, AnUnknownNameIsExtrapolated) {
  const Predictor predictor = Fitted(Measure("tiled_gemm", kGemm, 60, 9));
  Kernel kernel = Measure("tiled_gemm", kGemm, 1, 109).front().kernel;
  std::get<Custom>(kernel.work).op = "someone_elses";
  const Estimate estimate = predictor.EstimateKernel(kernel).value();
  EXPECT_EQ(estimate.provenance, Provenance::kExtrapolated);
}

}  // namespace
}  // namespace gpueta
