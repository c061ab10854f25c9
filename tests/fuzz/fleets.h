// Judging fleets that a fuzzer makes up: every engine has the same small table,
// and each run stays short.
#pragma once

#include <cmath>
#include <cstdlib>
#include <memory>

#include "core/device/catalogue.h"
#include "core/serving/fleet.h"
#include "core/serving/testing_models.h"

namespace gpueta::fuzz {

inline constexpr FleetLimits kSmall = {.engines = 4, .replicas = 8, .requests = 64};
inline constexpr ScheduleOptions kShort = {.scenarios = 2, .max_steps = 2000};

inline std::shared_ptr<const ServedModel> Served() {
  static const std::shared_ptr<const ServedModel> served = [] {
    const Predictor roofline(Catalogue::BuiltIn().Get("h100-sxm").value(), nullptr, nullptr);
    auto model = std::make_shared<const StepModel>(StepModel::Compile(testing::SmallLlama(), "m").value());
    StepTable table = StepTable::Build(*model, roofline, {.tokens = 256, .sequences = 16, .context = 1024}).value();
    const CacheRoom room = RoomForCache(*model, 80, 256).value();
    return std::make_shared<const ServedModel>(ServedModel{1, std::move(model), std::move(table), room});
  }();
  return served;
}

// Refused, or decided with margins that agree with the decision.
inline void JudgeOne(Fleet& fleet, const DescribedCandidate& candidate) {
  const auto admission = fleet.Judge(
      candidate, [](std::size_t, std::int64_t) { return Served(); }, kShort);
  if (!admission.ok()) return;
  for (const ReplicaDecision& decision : admission->replicas) {
    if (std::isnan(decision.margin) || decision.admit != (decision.margin >= 0)) std::abort();
  }
}

}  // namespace gpueta::fuzz
