// Kernels of manifests through the whole worker, on a simulated GPU that knows
// nothing of their work but their blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "calibration/backends/backends.h"
#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/simulated/simulated_driver.h"
#include "calibration/backends/cuda/simulated/simulated_library.h"
#include "calibration/backends/manifest/manifest_library.h"
#include "calibration/backends/measure.h"
#include "calibration/worker/calibrate.h"
#include "calibration/worker/candidates.h"
#include "core/base/errors.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kManifests = {"examples/kernels/tiled_gemm.manifest",
                                             "examples/kernels/flash_attention.manifest"};

TEST(OwnKernelsTest, AreMeasuredFittedAndPredictedByName) {
  SimulatedDriver driver({.noise = 0.02, .seed = 3});
  ManifestKernels kernels = ManifestKernels::Read(kManifests).value();
  CudaParts parts;
  auto device = driver.OpenSimulated();
  parts.libraries.push_back(MakeSimulatedLibrary(*device));  // for the device's peaks
  parts.libraries.push_back(MakeManifestLibrary(*device, kernels));
  parts.device = std::move(device);
  parts.card = driver.OpenCard(0).value();
  parts.time = driver.Time();
  const std::unique_ptr<Backend> backend = MakeCudaBackend(std::move(parts), {}).value();
  const DeviceSpec spec = backend->Describe().value();
  const auto candidates = OwnKernelCandidates(kernels, *backend, spec, {.per_op = 150, .seed = 5});
  ASSERT_TRUE(candidates.ok()) << candidates.status();
  ASSERT_GT(candidates->size(), 200u);

  const auto calibration = Calibrate(*backend, spec, *candidates,
                                     {.budget = 150, .seed = 1, .timing = backend->timing_policy()}, driver.Time().now);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  ASSERT_EQ(calibration->profile.tables.size(), 1u);
  EXPECT_EQ(calibration->profile.tables[0].key.op, Op::kCustom);
  EXPECT_EQ(calibration->measurements.size(), 150u);
  EXPECT_GT(calibration->measurements[0].kernel.launch.grid_x, 0);

  const Predictor predictor(
      calibration->profile.spec,
      std::make_shared<const CompiledProfile>(ParseProfile(SerializeProfile(calibration->profile)).value()), nullptr);
  double sum = 0;
  int unseen = 0;
  for (const Kernel& kernel : *candidates) {
    const Estimate estimate = predictor.EstimateKernel(kernel).value();
    if (estimate.provenance == Provenance::kMeasured) continue;
    const auto measured = MeasureKernel(*backend, kernel, backend->timing_policy(), driver.Time().now);
    ASSERT_TRUE(measured.ok()) << measured.status();
    sum += std::abs(estimate.latency_us.p50 / measured->measurement.latency_us - 1);
    ++unseen;
  }
  ASSERT_GT(unseen, 50);
  RecordProperty("mape", std::to_string(sum / unseen));
  EXPECT_LT(sum / unseen, 0.04);
}

TEST(OwnKernelsTest, OtherDevicesRefuseThem) {
  const ManifestKernels kernels = ManifestKernels::Read(kManifests).value();
  EXPECT_THAT(MessageOf(OpenBackend("cpu", {.own_kernels = &kernels}).status()), HasSubstr("run on CUDA devices only"));
}

}  // namespace
}  // namespace gpueta
