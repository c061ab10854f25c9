#include "calibration/backends/cpu/weight_pool.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// oneDNN needs arguments for each copy. So many copies of weights below a few
// hundred kilobytes leave only the caches next to the cores; they are a small
// part of what their kernels read.
constexpr std::size_t kMaxCopies = 512;

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

}  // namespace

absl::StatusOr<WeightCopies> WeightPool::Copies(std::size_t bytes, DType dtype) {
  if (bytes == 0) return WeightCopies{};
  const std::size_t total = std::min(2 * cache_bytes_, kMaxBytes);
  WeightCopies copies;
  copies.count = std::clamp<std::size_t>((total + bytes - 1) / bytes, 1, kMaxCopies);
  copies.stride = RoundUpToLine(std::max(bytes, total / copies.count));
  std::shared_ptr<const Buffer>& pool = pools_[dtype];
  if (pool == nullptr || pool->bytes() < copies.count * copies.stride) {
    GPUETA_ASSIGN_OR_RETURN(Buffer buffer,
                            Buffer::Random(copies.count * copies.stride, dtype, kWeightScale, "weights"));
    pool = std::make_shared<const Buffer>(std::move(buffer));
  }
  copies.pool = pool;
  return copies;
}

}  // namespace gpueta
