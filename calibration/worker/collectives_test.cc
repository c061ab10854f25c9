// Collectives through the whole worker, on a node of simulated GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "calibration/backends/backends.h"
#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/simulated/simulated_communicators.h"
#include "calibration/backends/cuda/simulated/simulated_library.h"
#include "calibration/backends/measure.h"
#include "calibration/worker/calibrate.h"
#include "calibration/worker/candidates.h"
#include "core/base/errors.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Node {
  explicit Node(int devices) {
    CudaParts parts;
    auto device = driver.OpenSimulated();
    parts.libraries.push_back(MakeSimulatedLibrary(*device));
    parts.device = std::move(device);
    parts.card = driver.OpenCard(0).value();
    parts.time = driver.Time();
    parts.collectives = MakeSimulatedCollectives(links);
    for (int i = 1; i < devices; ++i) parts.peers.push_back({.device = driver.OpenSimulated()});
    EXPECT_TRUE(parts.device->Activate().ok());
    backend = MakeCudaBackend(std::move(parts), {}).value();
  }

  SimulatedLinks links;
  SimulatedDriver driver{{.noise = 0.02, .seed = 3}};
  std::unique_ptr<Backend> backend;
};

std::set<std::int64_t> RanksOf(const std::vector<Kernel>& kernels) {
  std::set<std::int64_t> ranks;
  for (const Kernel& kernel : kernels) ranks.insert(std::get<Collective>(kernel.work).ranks);
  return ranks;
}

TEST(CollectiveCandidatesTest, AreOfAsManyRanksAsTheNodeHas) {
  EXPECT_THAT(RanksOf(CollectiveCandidates(*Node(8).backend, {})), ElementsAre(2, 4, 8));
  EXPECT_THAT(RanksOf(CollectiveCandidates(*Node(6).backend, {})), ElementsAre(2, 4, 6));
  EXPECT_THAT(RanksOf(CollectiveCandidates(*Node(2).backend, {})), ElementsAre(2));
  EXPECT_THAT(CollectiveCandidates(*Node(1).backend, {}), IsEmpty());
  EXPECT_THAT(CollectiveCandidates(*OpenBackend("cpu").value(), {}), IsEmpty());
}

TEST(CollectivesTest, AreMeasuredFittedAndPredicted) {
  Node node(4);
  const DeviceSpec spec = node.backend->Describe().value();
  const std::vector<Kernel> candidates = CollectiveCandidates(*node.backend, {.dtype = DType::kBf16});
  ASSERT_GT(candidates.size(), 300u);
  const auto calibration =
      Calibrate(*node.backend, spec, candidates, {.budget = 150, .seed = 1}, node.driver.Time().now);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_EQ(calibration->measurements.size(), 150u);
  ASSERT_EQ(calibration->profile.tables.size(), 1u);
  EXPECT_EQ(calibration->profile.tables[0].key.op, Op::kCollective);
  EXPECT_EQ(calibration->profile.tables[0].key.backend, "nccl-tests");
  EXPECT_EQ(calibration->profile.labels.at("simulated-collectives"), "1");

  const Predictor predictor(
      calibration->profile.spec,
      std::make_shared<const CompiledProfile>(ParseProfile(SerializeProfile(calibration->profile)).value()), nullptr);
  double sum = 0;
  int unseen = 0;
  for (const Kernel& kernel : candidates) {
    const Estimate estimate = predictor.EstimateKernel(kernel).value();
    if (estimate.provenance == Provenance::kMeasured) continue;
    const auto measured = MeasureKernel(*node.backend, kernel, node.backend->timing_policy(), node.driver.Time().now);
    ASSERT_TRUE(measured.ok()) << measured.status();
    sum += std::abs(estimate.latency_us.p50 / measured->measurement.latency_us - 1);
    ++unseen;
  }
  ASSERT_GT(unseen, 100);
  RecordProperty("mape", std::to_string(sum / unseen));
  EXPECT_LT(sum / unseen, 0.05);
}

TEST(CollectivesTest, OtherDevicesRefuseThem) {
  EXPECT_THAT(MessageOf(OpenBackend("cpu", {.collectives = true}).status()), HasSubstr("run on CUDA devices only"));
}

}  // namespace
}  // namespace gpueta
