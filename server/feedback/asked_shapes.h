// A sample of the kernels that are asked for, so that measurements can be of
// those.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ops/kernel.h"
#include "core/predict/predictor.h"

namespace gpueta {

struct AskedShape {
  Kernel kernel;
  double weight = 0;  // share of the sample
};

// Safe to use from any thread. Offer never waits: most calls only count, and a
// sampled one that finds another thread at work is dropped.
class AskedShapes {
 public:
  static constexpr std::uint32_t kOneIn = 64;  // offers sampled
  static constexpr std::size_t kKept = 512;    // for each device and op; older ones make room at random
  static constexpr std::size_t kDevices = 64;  // further ones are not sampled

  void Offer(std::string_view device, const Kernel& kernel);
  void Offer(std::string_view device, const KernelColumns& columns);  // one row of them

  // Most often first.
  std::vector<AskedShape> Most(std::string_view device, Op op, std::size_t count) const;

 private:
  void Keep(std::string_view device, Kernel kernel);

  mutable std::mutex mutex_;
  std::map<std::string, std::array<std::vector<Kernel>, kAllOps.size()>, std::less<>> kept_;
  std::uint64_t random_ = 1;
};

}  // namespace gpueta
