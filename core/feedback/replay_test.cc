// Real measurements replayed as observations against a profile fitted to others
// (testdata/README.md): what learning from them does to the error.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/feedback/correction_learner.h"
#include "core/feedback/drift_detector.h"
#include "core/feedback/error_summary.h"

namespace gpueta {
namespace {

using Stream = std::vector<PredictedAndObserved>;

// Of one profile, by op.
std::map<std::string, Stream> Read(const std::string& profile) {
  std::ifstream file("core/feedback/testdata/replay.csv");
  std::map<std::string, Stream> streams;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string name, op, cell;
    std::getline(cells, name, ',');
    std::getline(cells, op, ',');
    if (name != profile) continue;
    std::vector<double> numbers;
    while (std::getline(cells, cell, ',')) numbers.push_back(std::stod(cell));
    streams[op].push_back({{numbers.at(0), numbers.at(1), numbers.at(2)}, numbers.at(3)});
  }
  return streams;
}

struct Replay {
  Stream without;    // as predicted
  Stream corrected;  // by what was learnt before
  CorrectionLearner learner;
  DriftDetector detector;
};

Replay ReplayStream(const Stream& stream, double planted) {
  Replay replay;
  for (PredictedAndObserved pair : stream) {
    pair.observed_us *= planted;
    replay.without.push_back(pair);
    const double factor = FactorAt(replay.learner.Factors(), pair.predicted_us.p50);
    const double ln_ratio = std::log(pair.observed_us / pair.predicted_us.p50);
    const int size_class = SizeClassOf(pair.predicted_us.p50);
    for (double* us : {&pair.predicted_us.p50, &pair.predicted_us.p90, &pair.predicted_us.p99}) *us *= factor;
    replay.corrected.push_back(pair);
    if (replay.detector.Add(ln_ratio)) replay.learner.Forget(replay.detector.recent_level());
    replay.learner.Add(size_class, ln_ratio);
  }
  return replay;
}

double MeanLn(std::span<const PredictedAndObserved> pairs) {
  double sum = 0;
  for (const auto& pair : pairs) sum += std::log(pair.predicted_us.p50 / pair.observed_us);
  return sum / static_cast<double>(pairs.size());
}

TEST(ReplayTest, APlantedBiasIsDownToThreePercentAfter200Observations) {
  for (const auto& [op, planted] : std::map<std::string, double>{{"gemm", 1.3}, {"vector", 0.8}, {"conv2d", 1.3}}) {
    const Replay replay = ReplayStream(Read("v100-pcie-32gb")[op], planted);
    ASSERT_GE(replay.corrected.size(), 600U) << op;
    const auto after = std::span(replay.corrected).subspan(200);
    EXPECT_LT(std::abs(MeanLn(after)), 0.03) << op;
    EXPECT_LT(Summarise(after).mape, Summarise(std::span(replay.without).subspan(200)).mape) << op;
  }
}

TEST(ReplayTest, WithoutAPlantedBiasNoOpIsEverHalfAPointWorse) {
  for (const auto& [op, stream] : Read("v100-pcie-32gb")) {
    const Replay replay = ReplayStream(stream, 1);
    for (std::size_t n = 100; n <= stream.size(); n += 50) {
      const auto first = [n](const Stream& s) { return std::span(s).first(n); };
      EXPECT_LT(Summarise(first(replay.corrected)).mape, Summarise(first(replay.without)).mape + 0.005) << op << n;
    }
    EXPECT_FALSE(replay.detector.alarm()) << op;
  }
}

TEST(ReplayTest, TheNoiseOfRealKernelsRaisesNoAlarmInAHundredThousandObservations) {
  for (const auto& [op, stream] : Read("v100-pcie-32gb")) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      std::mt19937_64 random(seed);
      DriftDetector detector;
      int alarms = 0;
      for (int i = 0; i < 100'000; ++i) {
        const PredictedAndObserved& pair = stream[random() % stream.size()];
        alarms += detector.Add(std::log(pair.observed_us / pair.predicted_us.p50)) ? 1 : 0;
      }
      EXPECT_EQ(alarms, 0) << op << ", seed " << seed;
    }
  }
}

TEST(ReplayTest, AProfileOfAnotherDeviceRaisesTheAlarmAndHitsTheBoundWithoutHarm) {
  int bounds = 0;
  for (const auto& [op, stream] : Read("t4")) {
    const Replay replay = ReplayStream(stream, 1);
    EXPECT_TRUE(replay.detector.alarm()) << op;
    const CorrectionCurve curve = replay.learner.Factors();
    bounds += replay.learner.observations_at_bound() > 0 ? 1 : 0;
    for (const float factor : curve.factor) {
      EXPECT_GE(factor, kSmallestCorrection);
      EXPECT_LE(factor, kLargestCorrection);
    }
    EXPECT_LE(Summarise(replay.corrected).mape, Summarise(replay.without).mape) << op;
  }
  EXPECT_GE(bounds, 1);
}

}  // namespace
}  // namespace gpueta
