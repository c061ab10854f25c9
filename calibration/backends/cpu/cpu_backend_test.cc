#include "calibration/backends/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <limits>

#include "calibration/backends/cpu/measuring_scope.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

const std::vector<Kernel> kModel = {
    {.work = Conv2d{.batch = 1,
                    .in_channels = 3,
                    .height = 16,
                    .width = 16,
                    .out_channels = 8,
                    .kernel_h = 3,
                    .kernel_w = 3,
                    .pad_h = 1,
                    .pad_w = 1}},
    {.work = Vector{.op = "relu", .rows = 8, .cols = 256}},
    {.work = Vector{.op = "add", .rows = 8, .cols = 256, .operands = 2}},
    {.work =
         Attention{.query_len = 8, .kv_len = 8, .heads = 2, .kv_heads = 2, .head_dim = 16, .kv_dtype = DType::kFp32}},
    {.work = Gemm{.layer = Gemm::Layer::kLinear, .m = 4, .n = 32, .k = 64}},
};

std::unique_ptr<Backend> Open() {
  auto backend = OpenCpuBackend();
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

TEST(CpuBackendTest, SlugNamesTheModelAndTheThreads) {
  EXPECT_THAT(Open()->slug(), ContainsRegex("^cpu-[a-z0-9-]*[0-9]+t$"));
}

TEST(CpuBackendTest, LabelsNameTheLibrary) { EXPECT_THAT(Open()->labels().at("library"), HasSubstr("onednn")); }

TEST(CpuBackendTest, TimesSingleKernels) {
  const std::unique_ptr<Backend> backend = Open();
  for (const Kernel& kernel : kModel) {
    const auto prepared = backend->Prepare(kernel);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ((*prepared)->timing(), Timing::kEager);
    for (const std::size_t runs : {1, 5}) EXPECT_GT((*prepared)->TakeSample(runs)->latency_us, 0);
  }
}

TEST(CpuBackendTest, TimesKernelsBackToBack) {
  const std::unique_ptr<Backend> backend = Open();
  const auto prepared = backend->PrepareGraph(kModel);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  for (int run = 0; run < 2; ++run) {
    const auto sample = (*prepared)->Run();
    ASSERT_TRUE(sample.ok()) << sample.status();
    ASSERT_EQ(sample->kernels.size(), kModel.size());
    for (const Sample& kernel : sample->kernels) EXPECT_GT(kernel.latency_us, 0);
  }
}

TEST(CpuBackendTest, NamesTheKernelOfAGraphThatItCannotRun) {
  std::vector<Kernel> kernels = kModel;
  kernels.push_back({.work = Vector{.op = "scatter", .rows = 1, .cols = 1}});
  const absl::Status status = Open()->PrepareGraph(kernels).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(status), HasSubstr("kernel 5 (vector fp32 scatter"));
}

TEST(CpuBackendTest, RefusesKernelsThatDoNotFitIntoMemory) {
  const Kernel huge{.work = Vector{.op = "relu", .rows = std::int64_t{1} << 30, .cols = 1 << 20}};
  EXPECT_EQ(Open()->Prepare(huge).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(CpuBackendTest, DescribesWhatItMeasured) {
  const auto spec = Open()->Describe();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->architecture, "CPU");
  EXPECT_GE(spec->sm_count, 1);
  EXPECT_GT(spec->fp32_tflops, 0);
  EXPECT_GT(spec->mem_bandwidth_gb_s, 0);
  EXPECT_GT(spec->memory_gb, 0);
}

TEST(MeasuringScopeTest, RestoresTheCoresAndDenormals) {
  const volatile float smallest_normal = std::numeric_limits<float>::min();
  const ThreadPlacement placement;
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  {
    const MeasuringScope scope(placement);
#ifdef __SSE__
    EXPECT_EQ(smallest_normal / 2, 0);
#endif
  }
  EXPECT_GT(smallest_normal / 2, 0);
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace gpueta
