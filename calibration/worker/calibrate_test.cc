#include "calibration/worker/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "calibration/backends/backends.h"
#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/ops/vector_library.h"
#include "calibration/backends/cuda/simulated/simulated_driver.h"
#include "calibration/backends/testing_fake_backend.h"
#include "calibration/worker/candidates.h"
#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/feedback/error_summary.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"

namespace gpueta {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using testing_util::FakeBackend;

DeviceSpec Spec() {
  return {.slug = "cpu-test",
          .architecture = "CPU",
          .sm_count = 2,
          .boost_clock_mhz = 3000,
          .mem_bandwidth_gb_s = 20,
          .l2_mb = 32,
          .fp32_tflops = 0.2};
}

// Rows whose latency follows a simple law, written to a file that the replay
// backend answers from.
class Recording {
 public:
  explicit Recording(int rows) {
    path_ = (std::filesystem::temp_directory_path() / ("calibrate_test." + std::to_string(getpid()) + ".csv")).string();
    std::vector<Measurement> measurements;
    for (int i = 0; i < rows; ++i) {
      Measurement row;
      row.device = "cpu-test";
      row.source = "recorded";
      row.timing = Timing::kEager;
      row.kernel.dtype = DType::kFp32;
      row.kernel.work = Gemm{.m = 8 + 3 * (i % 37), .n = 64 * (1 + i % 11), .k = 64 * (1 + i % 7)};
      row.latency_us = 3 + 1.4 * static_cast<double>(CountsOf(row.kernel).flops.value()) / 0.2e6;
      measurements.push_back(row);
      kernels.push_back(row.kernel);
    }
    std::ofstream out(path_);
    EXPECT_TRUE(WriteMeasurements(out, measurements).ok());
  }
  ~Recording() { std::filesystem::remove(path_); }
  std::unique_ptr<Backend> Open() const { return OpenBackend("replay:" + path_).value(); }

  std::vector<Kernel> kernels;

 private:
  std::string path_;
};

// Time that passes by a fixed step at each look.
MicrosecondClock Ticking(double step_us) {
  auto now = std::make_shared<double>(0);
  return [now, step_us] { return *now += step_us; };
}

TEST(CalibrateTest, MeasuresTheBudgetAndFitsAProfile) {
  const Recording recording(300);
  const auto backend = recording.Open();
  const auto calibration = Calibrate(*backend, Spec(), recording.kernels, {.budget = 60, .seed = 1}, Ticking(100));
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_EQ(calibration->measurements.size(), 60u);
  EXPECT_TRUE(calibration->skipped.empty());
  ASSERT_EQ(calibration->profile.tables.size(), 1u);
  const Predictor predictor(
      Spec(), std::make_shared<const CompiledProfile>(ParseProfile(SerializeProfile(calibration->profile)).value()),
      nullptr);
  std::vector<PredictedAndObserved> pairs;
  for (const Kernel& kernel : recording.kernels) {
    pairs.push_back({predictor.EstimateKernel(kernel)->latency_us,
                     3 + 1.4 * static_cast<double>(CountsOf(kernel).flops.value()) / 0.2e6});
  }
  EXPECT_LT(Summarise(pairs).mape, 0.05);
}

TEST(CalibrateTest, TheWorkloadIsMeasuredFirstAndCounts) {
  const Recording recording(100);
  const auto backend = recording.Open();
  CalibrationOptions options{.budget = 20};
  options.workload = {{recording.kernels[40], recording.kernels[41], recording.kernels[40]}};
  const auto calibration = Calibrate(*backend, Spec(), recording.kernels, options, Ticking(100));
  ASSERT_EQ(calibration->measurements.size(), 20u);
  for (int i : {0, 1}) {
    const Kernel& kernel = calibration->measurements[static_cast<std::size_t>(i)].kernel;
    EXPECT_TRUE(kernel.work == recording.kernels[40].work || kernel.work == recording.kernels[41].work);
    EXPECT_EQ(calibration->measurements[static_cast<std::size_t>(i)].source, "model");
  }
}

TEST(CalibrateTest, ModelsOfTheWorkloadWaitForTheirTurn) {
  FakeBackend backend([](Sample sample, std::size_t) { return sample; });
  std::vector<Kernel> model;
  for (const std::int64_t rows : {100, 200}) {
    model.push_back({.dtype = DType::kFp32, .work = Vector{.op = "relu", .rows = rows, .cols = 64}});
  }
  // A turn that another takes: nothing runs.
  CalibrationOptions options{.budget = 2};
  options.workload = {model, model};
  options.wait_turn = [] { return Unavailable("the device is another's"); };
  EXPECT_THAT(MessageOf(Calibrate(backend, Spec(), {}, options, backend.Clock()).status()), HasSubstr("another's"));
  EXPECT_EQ(backend.runs(), 0U);
  std::vector<std::size_t> runs_before;
  options.wait_turn = [&] {
    runs_before.push_back(backend.runs());
    return absl::OkStatus();
  };
  ASSERT_TRUE(Calibrate(backend, Spec(), {}, options, backend.Clock()).ok());
  EXPECT_THAT(runs_before, ElementsAre(0U, testing::Gt(0U)));
}

TEST(CalibrateTest, StopsWhenTheTimeIsUpAndFitsWhatThereIs) {
  const Recording recording(200);
  const auto backend = recording.Open();
  const auto calibration =
      Calibrate(*backend, Spec(), recording.kernels, {.budget = 200, .time_budget_us = 1e5}, Ticking(1000));
  ASSERT_TRUE(calibration.ok());
  EXPECT_GT(calibration->measurements.size(), 0u);
  EXPECT_LT(calibration->measurements.size(), 200u);
}

TEST(CalibrateTest, KernelsThatCannotRunAreSkippedSayingWhy) {
  const Recording recording(50);
  const auto backend = recording.Open();
  std::vector<Kernel> candidates = recording.kernels;
  candidates.push_back(
      {.name = "", .dtype = DType::kFp32, .work = Gemm{.m = 9999, .n = 9999, .k = 9999}, .launch = {}});
  const auto calibration = Calibrate(*backend, Spec(), candidates, {.budget = 1000}, Ticking(100));
  ASSERT_TRUE(calibration.ok());
  ASSERT_EQ(calibration->skipped.size(), 1u);
  EXPECT_THAT(calibration->skipped[0], HasSubstr("9999"));
}

// Latencies by the rows of vector kernels, 100 to 4,000 of them.
std::map<std::int64_t, double> Measured(const Calibration& calibration) {
  std::map<std::int64_t, double> us;
  for (const Measurement& m : calibration.measurements) us[std::get<Vector>(m.kernel.work).rows] = m.latency_us;
  return us;
}
std::vector<Kernel> VectorKernels() {
  std::vector<Kernel> kernels;
  for (std::int64_t rows = 100; rows <= 4000; rows += 100) kernels.push_back(testing_util::VectorOfRows(rows));
  return kernels;
}

// Kernels longer than the rests of something else are stretched by its turns;
// shorter ones are not.
testing_util::FakeBackend SharedDevice(double rests_us) {
  return testing_util::FakeBackend([rests_us](Sample sample, std::size_t) {
    if (sample.latency_us < rests_us) return sample;
    return Sample{.latency_us = 1.6 * sample.latency_us, .condition = Condition::kInterrupted};
  });
}

TEST(CalibrateTest, ADeviceThatIsSharedForGoodIsDescribedAsItIs) {
  testing_util::FakeBackend backend = SharedDevice(500);
  const auto calibration = Calibrate(backend, Spec(), VectorKernels(), {.budget = 40}, backend.Clock());
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_TRUE(calibration->shared);
  EXPECT_EQ(calibration->profile.labels.at("state"), "shared");
  EXPECT_EQ(calibration->disturbed, 0u);  // there is no better time to measure them
  EXPECT_EQ(calibration->measurements.size(), 36u);
  EXPECT_EQ(calibration->given_up, 4u);
  for (const auto& [rows, us] : Measured(*calibration)) EXPECT_DOUBLE_EQ(us, 1.6 * static_cast<double>(rows));
}

TEST(CalibrateTest, OfADeviceThatIsSharedKernelsAskedForSayWhichStateIsDescribed) {
  testing_util::FakeBackend backend = SharedDevice(2500);
  const auto general = Calibrate(backend, Spec(), VectorKernels(), {.budget = 40}, backend.Clock());
  ASSERT_TRUE(general.ok()) << general.status();
  EXPECT_FALSE(general->shared);
  for (const auto& [rows, us] : Measured(*general)) EXPECT_LT(rows, 2500);
  CalibrationOptions options{.budget = 40};
  options.asked = {testing_util::VectorOfRows(3950), testing_util::VectorOfRows(2950)};
  const auto asked = Calibrate(backend, Spec(), VectorKernels(), options, backend.Clock());
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->shared);
  for (const auto& [rows, us] : Measured(*asked)) EXPECT_GE(rows, 2500);
  EXPECT_DOUBLE_EQ(Measured(*asked).at(3950), 1.6 * 3950);
}

TEST(CalibrateTest, WhatWasMeasuredBesideSomethingThatEndsIsMeasuredAgain) {
  double now_us = 0;
  testing_util::FakeBackend backend([&now_us](Sample sample, std::size_t) {
    constexpr double kOthersEnd = 5e6;
    const bool busy = now_us < kOthersEnd;
    if (busy) sample = {.latency_us = 1.6 * sample.latency_us, .condition = Condition::kInterrupted};
    now_us += sample.latency_us;
    return sample;
  });
  const auto calibration = Calibrate(backend, Spec(), VectorKernels(), {.budget = 40}, backend.Clock());
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_FALSE(calibration->shared);
  EXPECT_GT(calibration->disturbed, 0u);
  EXPECT_EQ(calibration->measurements.size(), 40u);
  for (const auto& [rows, us] : Measured(*calibration)) EXPECT_DOUBLE_EQ(us, static_cast<double>(rows));
}

TEST(CalibrateTest, NothingMeasuredIsAnError) {
  const Recording recording(5);
  const auto backend = recording.Open();
  const std::vector<Kernel> unknown = {
      {.name = "", .dtype = DType::kFp32, .work = Gemm{.m = 1, .n = 1, .k = 1}, .launch = {}}};
  EXPECT_EQ(Calibrate(*backend, Spec(), unknown, {.budget = 5}, Ticking(100)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CalibrateTest, ProgressNeverGoesBack) {
  const Recording recording(100);
  const auto backend = recording.Open();
  CalibrationOptions options{.budget = 50};
  double last = 0;
  options.progress = [&](double share, const std::string&) {
    EXPECT_GE(share, last);
    EXPECT_LE(share, 1);
    last = share;
  };
  EXPECT_TRUE(Calibrate(*backend, Spec(), recording.kernels, options, Ticking(100)).ok());
}

TEST(CandidatesTest, LongKernelsAreLeftOut) {
  const auto backend = OpenBackend("cpu");
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto candidates =
      GenerateCandidates(**backend, Spec(), {.ops = {Op::kGemm}, .per_op = 300, .longest_us = 1000});
  ASSERT_TRUE(candidates.ok());
  EXPECT_GT(candidates->size(), 20u);
  for (const Kernel& kernel : *candidates) EXPECT_LE(static_cast<double>(CountsOf(kernel).flops.value()) / 0.2e6, 1000);
}

TEST(WorkloadModelsTest, HaveTheirKernelsInOrder) {
  const auto backend = OpenBackend("cpu").value();
  const std::vector<std::string> models = {"examples/resnet50.onnx"};
  const auto loaded = WorkloadModels(*backend, models);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), 1u);
  std::size_t convolutions = 0;
  for (const Kernel& kernel : loaded->front()) convolutions += kernel.op() == Op::kConv2d ? 1 : 0;
  EXPECT_EQ(convolutions, 53u);
}

// Runs whatever it is given.
class AnyBackend : public FakeBackend {
 public:
  AnyBackend() : FakeBackend([](Sample sample, std::size_t) { return sample; }) {}
  absl::Status Supports(const Kernel&) const override { return absl::OkStatus(); }
};

// As cuDNN's attention, which has 16-bit types only, beside experts in any type.
class GpuLike : public AnyBackend {
 public:
  absl::Status Supports(const Kernel& kernel) const override {
    const bool half = kernel.dtype == DType::kBf16 || kernel.dtype == DType::kFp16;
    return kernel.op() != Op::kAttention || half ? absl::OkStatus() : absl::UnimplementedError("attention in 16 bits");
  }
};

// How many there are by op and type, attention by phase.
std::map<std::string, std::size_t> KindsOf(const std::vector<Kernel>& kernels) {
  std::map<std::string, std::size_t> kinds;
  for (const Kernel& kernel : kernels) {
    std::string kind = fmt::format("{} {}", Name(kernel.op()), Name(kernel.dtype));
    const auto* attention = std::get_if<Attention>(&kernel.work);
    if (attention != nullptr && attention->phase == Attention::Phase::kDecode) kind += " decode";
    ++kinds[kind];
  }
  return kinds;
}

absl::StatusOr<std::vector<Kernel>> PlannedFor(const DeviceSpec& spec, DType dtype,
                                               const std::vector<std::vector<Kernel>>& workload = {}) {
  return GenerateCandidates(GpuLike(), spec, {.ops = PlannedOps(spec, workload), .dtype = dtype, .per_op = 200});
}

TEST(CandidatesTest, AGpuIsAskedForAttentionAndExpertsInATypeThatItHas) {
  const DeviceSpec gpu = Catalogue::BuiltIn().Get("h100-sxm").value();
  const auto fp32 = KindsOf(PlannedFor(gpu, DType::kFp32).value());
  for (const char* kind :
       {"gemm fp32", "conv2d fp32", "vector fp32", "attention bf16", "attention bf16 decode", "moe fp32"}) {
    EXPECT_TRUE(fp32.contains(kind)) << kind;
  }
  EXPECT_FALSE(fp32.contains("attention fp32"));
  const auto fp16 = KindsOf(PlannedFor(gpu, DType::kFp16).value());
  EXPECT_TRUE(fp16.contains("attention fp16"));
  EXPECT_FALSE(fp16.contains("attention bf16"));
}

TEST(CandidatesTest, AGpuIsAskedForTheVectorOperatorsOfTransformersAndTraining) {
  const DeviceSpec gpu = Catalogue::BuiltIn().Get("h100-sxm").value();
  const auto ops_of = [](const DeviceSpec& spec) {
    std::map<std::string, int> ops;
    const std::vector<Kernel> planned =
        GenerateCandidates(AnyBackend(), spec, {.ops = {Op::kVector}, .per_op = 400}).value();
    for (const Kernel& kernel : planned) {
      const auto& vector = std::get<Vector>(kernel.work);
      ++ops[fmt::format("{} {}", vector.op, vector.operands)];
    }
    return ops;
  };
  const auto ops = ops_of(gpu);
  for (const char* op : {"rmsnorm 1", "silu_mul 2", "rope 1", "silu 1", "batchnorm 1", "batchnorm 2", "dropout 1",
                         "accumulate_gradient 2"}) {
    EXPECT_TRUE(ops.contains(op) && ops.at(op) >= 10) << op;
  }
  EXPECT_TRUE(ops.contains("softmax 1") && ops.at("softmax 1") >= 10);
  EXPECT_FALSE(ops_of(Spec()).contains("rmsnorm 1"));
}

TEST(CandidatesTest, AttentionAndExpertsAreLeftOutWhereTheyAreNotWanted) {
  const DeviceSpec gpu = Catalogue::BuiltIn().Get("h100-sxm").value();
  const Kernel product = {.dtype = DType::kFp16, .work = Gemm{.m = 64, .n = 64, .k = 64}};
  const Kernel experts = {.dtype = DType::kFp16,
                          .work = Moe{.num_tokens = 8, .hidden_size = 1024, .inter_size = 512, .num_experts = 8}};
  EXPECT_THAT(PlannedOps(gpu, {{product}}), ElementsAre(Op::kGemm, Op::kConv2d, Op::kVector));
  EXPECT_THAT(PlannedOps(gpu, {{product}, {experts}}), AllOf(Contains(Op::kMoe), Not(Contains(Op::kAttention))));
  EXPECT_THAT(PlannedOps(Spec(), {}), ElementsAre(Op::kGemm, Op::kConv2d, Op::kVector));
  // Asked for by themselves.
  const auto only = GenerateCandidates(GpuLike(), gpu, {.ops = {Op::kVector}, .per_op = 50}).value();
  for (const Kernel& kernel : only) EXPECT_EQ(kernel.op(), Op::kVector);
}

// Convolutions by the gradient that their name asks for.
std::map<std::string, int> ConvolutionsOf(const std::vector<Kernel>& kernels) {
  std::map<std::string, int> convolutions;
  for (const Kernel& kernel : kernels) {
    if (kernel.op() == Op::kConv2d) ++convolutions[kernel.launch.kernel];
  }
  return convolutions;
}

TEST(WorkloadModelsTest, GradientsOfATrainingStepAreAskedForByName) {
  const std::vector<std::string> models = {"examples/resnet50.onnx"};
  const auto step = WorkloadModels(AnyBackend(), models, {.train = true});
  ASSERT_TRUE(step.ok()) << step.status();
  // The model's input needs no gradient.
  EXPECT_THAT(ConvolutionsOf(step->front()),
              ElementsAre(Pair("", 53), Pair("cudnn_dgrad", 52), Pair("cudnn_wgrad", 53)));
  EXPECT_THAT(ConvolutionsOf(WorkloadModels(AnyBackend(), models)->front()), ElementsAre(Pair("", 53)));
}

// It has forward kernels only, which must not stand for gradients.
TEST(WorkloadModelsTest, ADeviceWithoutGradientsLeavesThemOutAndSaysSo) {
  const auto backend = OpenBackend("cpu").value();
  const std::vector<std::string> models = {"examples/resnet50.onnx"};
  std::map<std::string, std::size_t> left_out;
  const auto step = WorkloadModels(*backend, models, {.train = true}, &left_out);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_THAT(ConvolutionsOf(step->front()), ElementsAre(Pair("", 53)));
  EXPECT_THAT(left_out, Contains(Pair("conv2d in fp32 (dgrad)", 52U)));
  EXPECT_THAT(left_out, Contains(Pair("conv2d in fp32 (wgrad)", 53U)));
}

// The backward passes of norms, activations and poolings, the optimiser and what clears and
// adds gradients up are kernels of our own.
TEST(WorkloadModelsTest, OurOwnKernelsHaveEveryVectorOperatorOfATrainingStep) {
  if (VectorKernelsPtx().empty()) GTEST_SKIP() << "built without the CUDA toolkit";
  SimulatedDriver driver({});
  CudaParts parts;
  auto device = driver.OpenSimulated();
  parts.libraries.push_back(LoadVectorLibrary(*device, VectorKernelsPtx()).value());
  parts.device = std::move(device);
  const auto backend = MakeCudaBackend(std::move(parts), {}).value();
  const std::vector<std::string> models = {"examples/resnet50.onnx", "examples/bert_base.onnx"};
  for (const bool train : {false, true}) {
    std::map<std::string, std::size_t> left_out;
    const auto loaded = WorkloadModels(*backend, models, {.train = train}, &left_out);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    for (const auto& [kind, times] : left_out) EXPECT_THAT(kind, Not(HasSubstr("vector"))) << times;
    std::map<std::string, int> ops;
    for (const std::vector<Kernel>& model : *loaded) {
      for (const Kernel& kernel : model) ++ops[std::get<Vector>(kernel.work).op];
    }
    EXPECT_TRUE(ops.contains("pool"));
    EXPECT_EQ(ops.contains("adam"), train);
    EXPECT_EQ(ops.contains("accumulate_gradient"), train);
  }
}

TEST(WorkloadModelsTest, ErrorsNameTheFile) {
  const auto backend = OpenBackend("cpu").value();
  const std::vector<std::string> models = {"examples/none.onnx"};
  EXPECT_THAT(MessageOf(WorkloadModels(*backend, models).status()), HasSubstr("none.onnx"));
}

}  // namespace
}  // namespace gpueta
