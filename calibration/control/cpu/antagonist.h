// Threads that take memory bandwidth away from other cores.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta {

// One thread on each of the given cores copies memory for a share of the time, in
// bursts of microseconds: what runs elsewhere meets the same contention whether
// it takes ten microseconds or a second. Writes go past the caches where the
// processor can, so that less of what others have there is pushed out.
class Antagonist {
 public:
  // Runs until destroyed. `duty` in (0, 1]. RESOURCE_EXHAUSTED when its memory
  // or threads cannot be had.
  static absl::StatusOr<std::unique_ptr<Antagonist>> Start(std::span<const int> cores, double duty);
  ~Antagonist();
  Antagonist(const Antagonist&) = delete;
  Antagonist& operator=(const Antagonist&) = delete;

  // Share of the time since the start that its threads were kept from their
  // cores by something else.
  double StarvedShare() const;

 private:
  struct Worker;
  Antagonist() = default;

  std::atomic<bool> stop_ = false;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace gpueta
