#include "calibration/worker/turn.h"

#include <utility>

#include "core/base/errors.h"

namespace gpueta {

WorkerTurn::WorkerTurn(Backend& backend, const TurnPolicy& policy, HostTime time)
    : backend_(backend), policy_(policy), time_(std::move(time)) {}

absl::Status WorkerTurn::Wait() {
  const double now_us = time_.now();
  if (used_since_us_.has_value() && policy_.max_duty < 1) {
    time_.pause((now_us - *used_since_us_) * (1 / policy_.max_duty - 1));
  }
  const bool looked = used_since_us_.has_value() && now_us - looked_us_ < policy_.look_every_us;
  while (policy_.wait_for_idle && !looked) {
    GPUETA_ASSIGN_OR_RETURN(const bool used, backend_.UsedByOthers());
    looked_us_ = time_.now();
    if (!used) break;
    time_.pause(policy_.look_again_us);
  }
  used_since_us_ = time_.now();
  return absl::OkStatus();
}

}  // namespace gpueta
