// Memory that kernels read and write.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "core/ops/dtype.h"

namespace gpueta {

inline constexpr std::size_t kCacheLineBytes = 64;

constexpr std::size_t RoundUpToLine(std::size_t bytes) {
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

// The deviation of random activations, as normalisation layers leave them.
inline constexpr double kActivationScale = 1;

// Bytes a new buffer may take without pushing others out of memory; the
// largest integer where that is unknown.
std::size_t AvailableMemoryBytes();

class Buffer {
 public:
  Buffer() = default;

  // Uninitialised but touched by all threads, so that no page fault is timed.
  // RESOURCE_EXHAUSTED naming `purpose` when memory does not suffice.
  static absl::StatusOr<Buffer> Allocate(std::size_t bytes, const char* purpose);

  // As Allocate, filled with normally distributed elements of deviation
  // `scale`: no zeros, which a processor may handle faster, and no denormals,
  // which it handles slower. Integers for kInt8.
  static absl::StatusOr<Buffer> Random(std::size_t bytes, DType dtype, double scale, const char* purpose);

  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace gpueta
