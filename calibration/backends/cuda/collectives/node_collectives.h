// Collectives over several devices of this node, timed from one process.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/cuda/cuda_context.h"
#include "calibration/backends/cuda/driver/card.h"
#include "calibration/backends/cuda/driver/communicators.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/timing/clocks.h"

namespace gpueta {

// A device that ranks run on besides the backend's own.
struct PeerDevice {
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<Card> card;  // null: its clocks and limits are not known
};

// Rank 0 is on the backend's own device. The thread has that device again whenever a
// call returns. Not thread-safe.
class NodeCollectives {
 public:
  // What it is given must outlive it.
  NodeCollectives(CollectiveLibrary& library, std::vector<PeerDevice>& peers, CudaContext& context);
  ~NodeCollectives();
  NodeCollectives(const NodeCollectives&) = delete;
  NodeCollectives& operator=(const NodeCollectives&) = delete;

  // Errors as RankPositions (plan.h).
  absl::Status Supports(const Kernel& kernel) const;

  // Ready to run: as a CUDA graph on every rank (timing graph), call after call without
  // a pause (kernel: as nccl-tests times them), or each call on idle devices (eager). A
  // sample is what the slowest rank takes: from when all have come together (graph and
  // kernel: one run that is not timed goes before), or from before the host begins to issue
  // the call for the first rank, so with the host's time for all ranks (eager). Its condition is that of the rank that
  // fared worst. DEADLINE_EXCEEDED from a sample where a rank hangs, INTERNAL where the library says why; either ends
  // these ranks' connection, and what is prepared next makes a new one.
  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Kernel& kernel);

  // Of the other devices.
  std::vector<Card*> Cards() const;

 private:
  class Ranks;
  class Prepared;
  struct Member;

  absl::StatusOr<std::shared_ptr<Ranks>> Connect(const std::vector<std::size_t>& positions);

  CollectiveLibrary& library_;
  CudaContext& context_;
  std::vector<std::unique_ptr<Member>> members_;  // the backend's own first
  std::map<std::vector<std::size_t>, std::shared_ptr<Ranks>> connected_;
};

}  // namespace gpueta
