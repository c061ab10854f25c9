// A library with two kernels, on a simulated GPU: what each takes, and which one the
// library chooses, is found out by the whole worker.
#include "calibration/worker/algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/simulated/simulated_library.h"
#include "calibration/backends/measure.h"
#include "calibration/backends/testing_fake_backend.h"
#include "calibration/worker/calibrate.h"
#include "core/device/machine_of.h"
#include "core/feedback/error_summary.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"
#include "core/predict/wave.h"
#include "core/sampling/sampling.h"

namespace gpueta {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr SimulatedTile kTwo[] = {{256, 128, 1, 0.85}, {64, 64, 4, 0.5}};
constexpr double kNoise = 0.02;

struct Bench {
  explicit Bench(const SimulatedGpu& gpu) : driver(gpu) {
    CudaParts parts;
    auto device = driver.OpenSimulated();
    parts.libraries.push_back(MakeSimulatedLibrary(*device, kTwo));
    parts.device = std::move(device);
    parts.card = driver.OpenCard(0).value();
    parts.time = driver.Time();
    backend = MakeCudaBackend(std::move(parts), {}).value();
  }
  double MeasureUs(const Kernel& kernel) {
    return MeasureKernel(*backend, kernel, {.warm_up_us = 0, .max_samples = 1}, driver.Time().now)
        .value()
        .measurement.latency_us;
  }

  SimulatedDriver driver;
  std::unique_ptr<Backend> backend;
};

std::vector<Kernel> Products(std::uint64_t seed, std::size_t count) {
  std::vector<Kernel> kernels = GenerateShapes(Op::kGemm, DType::kFp16, count, seed).value();
  std::erase_if(kernels, [](const Kernel& kernel) { return CountsOf(kernel).flops.value() > 5e11; });
  return kernels;
}

class Algorithms : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    bench_ = new Bench({.noise = kNoise, .placement_noise = kNoise, .seed = 7});
    calibration_ = new Calibration(Calibrate(*bench_->backend, bench_->backend->Describe().value(), Products(1, 2000),
                                             {.budget = 200, .time_budget_us = 1e12, .algorithm_shapes = 80, .seed = 1},
                                             bench_->driver.Time().now)
                                       .value());
  }
  static void TearDownTestSuite() {
    delete calibration_;
    delete bench_;
  }
  static const Table& TheTable() { return calibration_->profile.tables.front(); }

  static Bench* bench_;
  static Calibration* calibration_;
};
Bench* Algorithms::bench_ = nullptr;
Calibration* Algorithms::calibration_ = nullptr;

TEST_F(Algorithms, CostWhatWasAskedForAndStayApart) {
  EXPECT_EQ(calibration_->measurements.size(), 200U);
  EXPECT_EQ(calibration_->alternatives.size(), 80U);  // of two kernels there is one other
  EXPECT_EQ(TheTable().rows, 200);
  std::map<std::string, std::string> chosen;
  for (const Measurement& row : calibration_->measurements)
    chosen[Describe({.dtype = row.kernel.dtype, .work = row.kernel.work})] = row.kernel.launch.kernel;
  for (const Measurement& row : calibration_->alternatives) {
    EXPECT_NE(chosen.at(Describe({.dtype = row.kernel.dtype, .work = row.kernel.work})), row.kernel.launch.kernel);
  }
}

TEST_F(Algorithms, ThroughputOfEachIsRecovered) {
  ASSERT_EQ(TheTable().kernel_configs.size(), std::size(kTwo));
  const SimulatedGpu& hidden = bench_->driver.state().gpu;
  for (const KernelConfig& config : TheTable().kernel_configs) {
    const auto tile = std::ranges::find_if(kTwo, [&](const SimulatedTile& t) { return t.m == config.tile_m; });
    ASSERT_NE(tile, std::end(kTwo)) << config.kernel;
    EXPECT_EQ(config.resident_blocks, tile->resident_blocks);
    const double tflops = PeakTflops(calibration_->profile.spec, DType::kFp16) /
                          static_cast<double>(config.coefficients[2] + config.coefficients[3]);
    const double true_tflops = tile->efficiency * hidden.tflops.at(DType::kFp16);
    EXPECT_NEAR(tflops, true_tflops, 0.03 * true_tflops) << config.kernel;
  }
}

TEST_F(Algorithms, TheLibrarysChoiceIsPredicted) {
  const Machine<double> machine = MachineOf(calibration_->profile.spec, TheTable().key);
  std::vector<KernelConfig> by_latency = TheTable().kernel_configs;
  for (KernelConfig& config : by_latency) config.selection_ln = 0;
  std::map<std::string, int> times;              // by what the library chose
  std::map<std::string, int> right;              // predicted
  std::map<std::string, int> right_if_quickest;  // had it chosen by latency
  for (const Kernel& kernel : Products(2, 400)) {
    const std::string chosen = bench_->backend->Algorithms(kernel).front().launch.kernel;
    ++times[chosen];
    right[chosen] += SelectedConfig(kernel, machine, TheTable().kernel_configs)->kernel == chosen ? 1 : 0;
    right_if_quickest[chosen] += SelectedConfig(kernel, machine, by_latency)->kernel == chosen ? 1 : 0;
  }
  ASSERT_EQ(times.size(), std::size(kTwo));
  int all_right = 0;
  int all_right_if_quickest = 0;
  for (const auto& [name, count] : times) {
    // Of each, so that naming always the same one would not do.
    EXPECT_GT(right[name], 0.8 * count) << name;
    all_right += right[name];
    all_right_if_quickest += right_if_quickest[name];
  }
  EXPECT_GT(all_right, 0.95 * (times.begin()->second + times.rbegin()->second));
  EXPECT_GT(all_right, all_right_if_quickest);
}

// Asked for by name, whether or not the library would choose it; and by shape alone, of
// which alternatives must not have taught anything.
TEST_F(Algorithms, BothArePredictedByNameAndTheShapeAsChosen) {
  Bench quiet{SimulatedGpu{}};
  const Predictor predictor(
      calibration_->profile.spec,
      std::make_shared<const CompiledProfile>(ParseProfile(SerializeProfile(calibration_->profile)).value()), nullptr);
  std::map<std::string, std::vector<PredictedAndObserved>> by_name;
  std::vector<PredictedAndObserved> by_shape;
  for (const Kernel& kernel : Products(3, 150)) {
    const std::vector<Kernel> algorithms = quiet.backend->Algorithms(kernel);
    for (const Kernel& algorithm : algorithms) {
      Kernel launched = kernel;
      launched.launch = quiet.backend->Prepare(algorithm).value()->launch();
      by_name[algorithm.launch.kernel].push_back(
          {predictor.EstimateKernel(launched)->latency_us, quiet.MeasureUs(algorithm)});
    }
    by_shape.push_back({predictor.EstimateKernel(kernel)->latency_us, quiet.MeasureUs(kernel)});
  }
  EXPECT_EQ(by_name.size(), std::size(kTwo));
  for (const auto& [name, pairs] : by_name) EXPECT_LT(Summarise(pairs).mape, 0.06) << name;
  EXPECT_LT(Summarise(by_shape).mape, 0.05);
  const auto explained = predictor.Explain(Products(4, 1).front(), {});
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_THAT(explained->notes, Contains(HasSubstr("the library is likely to run simulated_gemm_")));
}

// Cost: not more shapes than asked for, three others each, of a dozen algorithms.
class ManyAlgorithms : public testing_util::FakeBackend {
 public:
  ManyAlgorithms() : FakeBackend([](Sample sample, std::size_t) { return sample; }) {}
  std::vector<Kernel> Algorithms(const Kernel& kernel) override {
    constexpr int kThere = 40;
    const auto rows = std::get<Vector>(kernel.work).rows;
    std::vector<Kernel> kernels;
    for (int i = 0; i < kThere; ++i) {
      kernels.emplace_back(kernel).launch.kernel = "algorithm" + std::to_string((rows + i) % kThere);
    }
    return kernels;
  }
};

TEST(AlternativesTest, AreFewAndSpreadOverThoseThatAreChosenMost) {
  ManyAlgorithms backend;
  std::vector<Kernel> shapes;
  for (std::int64_t i = 0; i < 300; ++i) shapes.push_back(testing_util::VectorOfRows(1 + i % 20 + (i % 3) * 40));
  Kernel named = testing_util::VectorOfRows(1);
  named.launch.kernel = "algorithm1";
  shapes.insert(shapes.begin(), named);  // chosen already: no choice of the library's
  const std::vector<Kernel> alternatives = AlternativesOf(backend, shapes, 50);
  EXPECT_EQ(alternatives.size(), 150U);
  std::map<std::string, int> times;
  for (const Kernel& kernel : alternatives) ++times[kernel.launch.kernel];
  EXPECT_EQ(times.size(), 12U);
  for (const auto& [name, count] : times) EXPECT_NEAR(count, 150.0 / 12, 3) << name;
  EXPECT_TRUE(AlternativesOf(backend, shapes, 0).empty());
}

TEST(AlternativesTest, ADeviceWithoutAChoiceHasNone) {
  testing_util::FakeBackend backend([](Sample sample, std::size_t) { return sample; });
  const std::vector<Kernel> shapes = {testing_util::VectorOfRows(5)};
  EXPECT_TRUE(AlternativesOf(backend, shapes, 10).empty());
}

}  // namespace
}  // namespace gpueta
