#include "calibration/worker/tasks.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/wire/kernel_codec.h"
#include "gpueta/v1/profile_service.pb.h"

namespace gpueta {

absl::StatusOr<TaskKernels> KernelsOf(const v1::CalibrationTask& task, const std::vector<Kernel>& candidates) {
  const std::optional<Op> op = ParseOp(task.op());
  if (!op.has_value()) {
    return FailedPrecondition("{} asks for \"{}\", which is no kernel kind; calibrate with --workload instead",
                              task.name(), task.op());
  }
  TaskKernels kernels;
  for (const auto& shape : task.shapes()) {
    auto kernel = wire::Decode(shape.kernel());
    // A kernel that this build does not know is no reason to measure nothing.
    if (kernel.ok() && kernel->op() == *op) kernels.asked.push_back(*std::move(kernel));
  }
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(kernels.candidates),
               [op](const Kernel& kernel) { return kernel.op() == *op; });
  return kernels;
}

absl::StatusOr<Profile> WithTables(Profile base, const Profile& fresh) {
  if (base.spec != fresh.spec) {
    return FailedPrecondition(
        "the active profile of {} has another specification than what was measured is fitted to; "
        "measure again",
        base.device);
  }
  for (const Table& table : fresh.tables) {
    const auto at = std::lower_bound(base.tables.begin(), base.tables.end(), table.key,
                                     [](const Table& t, const TableKey& key) { return t.key < key; });
    if (at != base.tables.end() && at->key == table.key) {
      *at = table;
    } else {
      base.tables.insert(at, table);
    }
  }
  base.sources.insert(base.sources.end(), fresh.sources.begin(), fresh.sources.end());
  base.created_unix_s = fresh.created_unix_s;
  return base;
}

}  // namespace gpueta
