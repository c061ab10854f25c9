// Collectives between open devices of one node: the few calls of a library of
// collectives that measuring is made of.
//
// Two implementations: NCCL and a simulated library for tests. Nothing above this
// interface knows which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "core/ops/dtype.h"

namespace gpueta {

enum class Exchange : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kSend, kReceive };

// What one rank calls. Reductions add up.
struct ExchangeCall {
  Exchange what = Exchange::kAllReduce;
  DevicePointer from = 0;  // none of kReceive
  DevicePointer to = 0;    // none of kSend
  // Elements: all of kAllReduce, kSend and kReceive; what each rank gives to
  // kAllGather; what each gets of kReduceScatter.
  std::size_t count = 0;
  int peer = 0;  // the rank of kSend's receiver, of kReceive's sender
};

// Ranks that are connected, each on a device. Used by one thread, which has another
// device afterwards than before (CudaDevice::Activate). The devices must outlive it.
class Communicators {
 public:
  virtual ~Communicators() = default;

  // Enqueues calls[r] on streams[r], of rank r's device, all as one group: none waits
  // for another to be enqueued first. May be captured, on all streams at once.
  virtual absl::Status Enqueue(const std::vector<std::vector<ExchangeCall>>& calls, DType dtype,
                               std::span<const StreamHandle> streams) = 0;
  // INTERNAL naming what went wrong since the ranks were connected: streams may then
  // never come to their end. Never blocks.
  virtual absl::Status Health() = 0;
  // Ends what is under way, so that streams go on. Nothing can be enqueued any more.
  // Destroy the graphs that captured an Enqueue before, and before the end of this
  // object: NCCL from 2.26 on waits until they are gone, without end.
  virtual void Abort() = 0;
};

class CollectiveLibrary {
 public:
  virtual ~CollectiveLibrary() = default;
  // For Measurement::source, e.g. "nccl".
  virtual std::string name() const = 0;
  // For the profile's labels, e.g. "2.28.9".
  virtual std::string version() const = 0;
  // Rank r on devices[r]; takes a second or two. Errors name the call and the
  // library's own words.
  virtual absl::StatusOr<std::unique_ptr<Communicators>> Connect(std::span<CudaDevice* const> devices) = 0;
};

}  // namespace gpueta
