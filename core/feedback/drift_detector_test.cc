#include "core/feedback/drift_detector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace gpueta {
namespace {

using Noise = std::function<double(std::mt19937_64&)>;

struct NamedNoise {
  const char* name;
  double scale;
  Noise draw;
};

Noise Normal(double deviation) {
  return [deviation](std::mt19937_64& random) { return std::normal_distribution<double>(0, deviation)(random); };
}
// Errors of kernels: most small, one in ten large and one-sided.
Noise Skewed(double scale) {
  return [scale](std::mt19937_64& random) {
    const double tail = std::bernoulli_distribution(0.1)(random) ? std::exponential_distribution<double>(1)(random) : 0;
    return scale * (std::normal_distribution<double>(0, 0.7)(random) + 2 * tail);
  };
}
Noise Laplace(double scale) {
  return [scale](std::mt19937_64& random) {
    const double size = std::exponential_distribution<double>(1)(random);
    return scale * (std::bernoulli_distribution(0.5)(random) ? size : -size) / std::sqrt(2.0);
  };
}
// Outliers of a factor of 20 now and then.
Noise WithGlitches(Noise noise) {
  return [noise](std::mt19937_64& random) {
    return std::bernoulli_distribution(0.01)(random) ? std::log(20.0) : noise(random);
  };
}

const NamedNoise kNoises[] = {
    {"normal 0.005", 0.005, Normal(0.005)}, {"normal 0.05", 0.05, Normal(0.05)},
    {"normal 0.2", 0.2, Normal(0.2)},       {"normal 0.5", 0.5, Normal(0.5)},
    {"Laplace 0.1", 0.1, Laplace(0.1)},     {"Laplace 0.2", 0.2, Laplace(0.2)},
    {"skewed 0.1", 0.1, Skewed(0.1)},       {"glitches", 0.1, WithGlitches(Normal(0.1))},
};

TEST(DriftDetectorTest, RaisesNoAlarmInAHundredThousandObservationsWithoutChange) {
  for (const NamedNoise& noise : kNoises) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      std::mt19937_64 random(seed);
      DriftDetector detector;
      int alarms = 0;
      for (int i = 0; i < 100'000; ++i) alarms += detector.Add(0.05 + noise.draw(random)) ? 1 : 0;
      EXPECT_EQ(alarms, 0) << noise.name << ", seed " << seed;
      EXPECT_EQ(detector.state(), DriftDetector::State::kStable);
    }
  }
}

TEST(DriftDetectorTest, FindsAFactorOf1Point3WithinSixtyObservations) {
  for (const NamedNoise& noise : kNoises) {
    if (noise.scale > 0.2) continue;
    for (const double change : {std::log(1.3), -std::log(1.3)}) {
      for (const int before : {200, 5000}) {
        int late = 0;
        constexpr int kSeeds = 200;
        for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
          std::mt19937_64 random(1000 + seed);
          DriftDetector detector;
          for (int i = 0; i < before; ++i) detector.Add(noise.draw(random));
          int needed = 0;
          while (needed < 1000 && !detector.alarm()) {
            detector.Add(change + noise.draw(random));
            ++needed;
          }
          late += needed > 60 ? 1 : 0;
          EXPECT_NEAR(detector.recent_level(), change, 0.25) << noise.name;
          EXPECT_EQ(detector.state(), change > 0 ? DriftDetector::State::kSlower : DriftDetector::State::kFaster);
        }
        EXPECT_LE(late, noise.scale < 0.15 ? 0 : kSeeds / 50) << noise.name << " after " << before << " by " << change;
      }
    }
  }
}

TEST(DriftDetectorTest, AChangeOfAFewPercentRaisesNone) {
  std::mt19937_64 random(4);
  DriftDetector detector;
  const Noise noise = Normal(0.02);
  for (int i = 0; i < 2000; ++i) detector.Add(noise(random));
  for (int i = 0; i < 2000; ++i) EXPECT_FALSE(detector.Add(0.04 + noise(random)));
}

TEST(DriftDetectorTest, TheAlarmEndsWhenTheDeviceIsBack) {
  std::mt19937_64 random(5);
  DriftDetector detector;
  const Noise noise = Normal(0.1);
  for (int i = 0; i < 500; ++i) detector.Add(noise(random));
  int alarms = 0;
  for (int i = 0; i < 500; ++i) alarms += detector.Add(std::log(1.5) + noise(random)) ? 1 : 0;
  EXPECT_EQ(alarms, 1);
  EXPECT_EQ(detector.state(), DriftDetector::State::kSlower);
  EXPECT_NEAR(detector.recent_level(), std::log(1.5), 0.06);
  for (int i = 0; i < 300; ++i) alarms += detector.Add(noise(random)) ? 1 : 0;
  EXPECT_EQ(alarms, 1);
  EXPECT_EQ(detector.state(), DriftDetector::State::kStable);
}

TEST(DriftDetectorTest, AProfileThatIsWrongFromTheStartRaisesAnAlarmAfterTheWarmUp) {
  std::mt19937_64 random(6);
  const Noise noise = Normal(0.3);
  DriftDetector wrong;
  int needed = 1;
  while (!wrong.Add(-0.8 + noise(random))) ++needed;
  EXPECT_EQ(needed, DriftDetector::kWarmUp);
  EXPECT_EQ(wrong.state(), DriftDetector::State::kFaster);
  wrong.Reset();
  EXPECT_EQ(wrong.state(), DriftDetector::State::kLearning);
  DriftDetector off_a_little;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(off_a_little.Add(0.15 + noise(random)));
}

TEST(DriftDetectorTest, GoesOnFromItsMemoryAsIfNothingHadHappened) {
  std::mt19937_64 random(7);
  const Noise noise = Normal(0.1);
  DriftDetector whole;
  DriftDetector restored;
  for (int i = 0; i < 400; ++i) {
    const double x = noise(random) + (i > 200 ? 0.3 : 0);
    restored = DriftDetector::Restore(restored.state(), restored.memory());
    EXPECT_EQ(whole.Add(x), restored.Add(x));
  }
}

}  // namespace
}  // namespace gpueta
