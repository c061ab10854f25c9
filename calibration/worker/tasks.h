// What a server asks to be measured.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/kernel.h"
#include "core/profile/profile.h"

namespace gpueta::v1 {
class CalibrationTask;
}

namespace gpueta {

// The kernels of a task, and the candidates of its op, which fill the space
// around them: what Calibrate measures of. The task's own kernels come first.
// FAILED_PRECONDITION for a task that names no kernel kind (`graph`: measure the
// kernels).
struct TaskKernels {
  std::vector<Kernel> asked;  // every one of them is measured
  std::vector<Kernel> candidates;
};
absl::StatusOr<TaskKernels> KernelsOf(const v1::CalibrationTask& task, const std::vector<Kernel>& candidates);

// `base` with the tables of `fresh` in place of those with the same key, and
// its new ones besides; what was measured of other ops stays. Of base are
// device and labels. FAILED_PRECONDITION if the specifications differ: tables hold
// with the one that they were fitted to.
absl::StatusOr<Profile> WithTables(Profile base, const Profile& fresh);

}  // namespace gpueta
