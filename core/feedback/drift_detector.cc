#include "core/feedback/drift_detector.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gpueta {
namespace {

constexpr double kClip = 4;
constexpr double kLeastScale = 0.08;
constexpr double kLevelMemory = 1000;
constexpr double kRecentMemory = 50;
// Sums above this may be the start of a change: the level does not follow.
constexpr double kSuspicion = DriftDetector::kThreshold / 4;
const double kWrongFromTheStart = std::log(1.3);
constexpr double kStandardErrors = 4;
// Back: that near the level from before, for that many in a row.
const double kBackWithin = std::log(1.1);
constexpr std::int64_t kBackCount = 50;
// Outliers of a level that is not known yet: a factor of 8.
constexpr double kFarOff = 2.1;

}  // namespace

// `level`: what the change led to.
bool DriftDetector::Raise(double level, bool slower) {
  const bool raised = !alarm();
  if (raised) memory_.normal_level = state_ == State::kLearning ? 0 : memory_.level;
  // A change during an alarm may be one back.
  state_ = (raised ? slower : level > memory_.normal_level) ? State::kSlower : State::kFaster;
  memory_ = {.recent = level, .normal_level = memory_.normal_level};
  return raised;
}

void DriftDetector::Follow(double x) {
  const double weight = std::min(static_cast<double>(memory_.count), kLevelMemory);
  memory_.level += (x - memory_.level) / weight;
  memory_.deviation += (std::abs(x - memory_.level) - memory_.deviation) / weight;
}

bool DriftDetector::Add(double ln_ratio) {
  Memory& m = memory_;
  const double x = std::clamp(ln_ratio, -kFarOff, kFarOff);
  ++m.count;
  m.recent += (x - m.recent) / (m.count == 1 && state_ == State::kLearning ? 1 : kRecentMemory);
  if (alarm()) {
    m.back_count = std::abs(m.recent - m.normal_level) < kBackWithin ? m.back_count + 1 : 0;
    if (m.back_count >= kBackCount) {
      state_ = State::kStable;
      m = {.count = kWarmUp, .level = m.recent, .deviation = std::max(m.deviation, kLeastScale), .recent = m.recent};
      return false;
    }
  }
  if (m.count <= kWarmUp) {
    Follow(x);
    if (m.count < kWarmUp || state_ != State::kLearning) return false;
    const double error = std::max(m.deviation, kLeastScale / 4) / std::sqrt(m.count);
    if (std::abs(m.level) > kWrongFromTheStart && std::abs(m.level) > kStandardErrors * error)
      return Raise(m.level, m.level > 0);
    state_ = State::kStable;
    return false;
  }
  // A normal deviation from a mean absolute one.
  const double scale = std::max(m.deviation * std::sqrt(std::numbers::pi / 2), kLeastScale);
  const double z = std::clamp((x - m.level) / scale, -kClip, kClip);
  const double clipped = m.level + z * scale;
  const auto advance = [clipped](Run& run, double step) {
    run = run.sum + step > 0 ? Run{run.sum + step, run.total + clipped, run.count + 1} : Run();
  };
  advance(m.up, z - kReference);
  advance(m.down, -z - kReference);
  const Run& larger = m.up.sum > m.down.sum ? m.up : m.down;
  if (larger.sum > kThreshold) return Raise(larger.total / static_cast<double>(larger.count), &larger == &m.up);
  if (larger.sum < kSuspicion) Follow(clipped);
  return false;
}

DriftDetector DriftDetector::Restore(State state, const Memory& memory) {
  DriftDetector detector;
  detector.state_ = state;
  detector.memory_ = memory;
  return detector;
}

}  // namespace gpueta
