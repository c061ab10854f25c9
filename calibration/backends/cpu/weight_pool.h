// Weights that are not in cache.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/cpu/buffers.h"
#include "core/ops/dtype.h"

namespace gpueta {

// As initialisers of networks choose it.
inline constexpr double kWeightScale = 0.05;

// Weights of one kernel, several times over in one buffer.
struct WeightCopies {
  std::shared_ptr<const Buffer> pool;  // nullptr without weights
  std::size_t stride = 0;
  std::size_t count = 1;
};

// Weights for kernels timed alone. In a model, the weights of other layers have
// run since a layer ran last: its own are in memory. A kernel therefore goes
// round copies of its weights that together exceed twice the last-level cache.
// Not those of a model that fits into the cache as a whole: there the kernel
// alone is a little too slow.
class WeightPool {
 public:
  explicit WeightPool(std::size_t cache_bytes) : cache_bytes_(cache_bytes) {}

  // RESOURCE_EXHAUSTED when memory does not suffice for one copy.
  absl::StatusOr<WeightCopies> Copies(std::size_t bytes, DType dtype);

 private:
  std::size_t cache_bytes_;
  std::map<DType, std::shared_ptr<const Buffer>> pools_;
};

}  // namespace gpueta
