#include "calibration/backends/cpu/buffers.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "calibration/backends/cpu/loops.h"
#include "calibration/backends/cpu/parallel.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Part of the memory that is free now; the rest is for whoever else is there.
constexpr double kShareOfMemory = 0.8;

// Values are drawn once and repeated; a prime number of them, so that no two
// rows of a tensor are alike.
constexpr std::size_t kPatternElements = 8'191;

std::vector<std::byte> RandomPattern(DType dtype, double scale) {
  std::mt19937 generator(1);  // NOLINT(cert-msc51-cpp): the same values in every run
  std::normal_distribution<float> normal(0, static_cast<float>(scale));
  const std::size_t element_bytes = static_cast<std::size_t>(BitsOf(dtype).activation) / 8;
  std::vector<std::byte> pattern(kPatternElements * element_bytes);
  for (std::size_t i = 0; i < kPatternElements; ++i) {
    const float value = normal(generator);
    std::byte* place = pattern.data() + i * element_bytes;
    if (dtype == DType::kInt8) {
      *place = static_cast<std::byte>(generator() & 0x3f);
    } else if (dtype == DType::kBf16) {
      const Bf16 rounded = ToBf16(value);
      std::memcpy(place, &rounded, sizeof rounded);
    } else {
      std::memcpy(place, &value, sizeof value);
    }
  }
  return pattern;
}

}  // namespace

std::size_t AvailableMemoryBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  std::size_t kilobytes = 0;
  std::string unit;
  while (meminfo >> name >> kilobytes) {
    if (name == "MemAvailable:")
      return static_cast<std::size_t>(kShareOfMemory * 1024 * static_cast<double>(kilobytes));
    std::getline(meminfo, unit);
  }
  return std::numeric_limits<std::size_t>::max();
}

void Buffer::Free::operator()(std::byte* data) const { std::free(data); }

absl::StatusOr<Buffer> Buffer::Allocate(std::size_t bytes, const char* purpose) {
  Buffer buffer;
  buffer.bytes_ = RoundUpToLine(std::max<std::size_t>(bytes, 1));
  if (buffer.bytes_ > AvailableMemoryBytes()) {
    return ResourceExhausted("{} need {} MiB of memory, more than is free: use smaller shapes", purpose, bytes >> 20);
  }
  buffer.data_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, buffer.bytes_)));
  if (buffer.data_ == nullptr) return ResourceExhausted("{}: cannot allocate {} MiB", purpose, bytes >> 20);
  ParallelParts(buffer.bytes_, true,
                [&buffer](std::size_t begin, std::size_t end) { std::memset(buffer.data() + begin, 0, end - begin); });
  return buffer;
}

absl::StatusOr<Buffer> Buffer::Random(std::size_t bytes, DType dtype, double scale, const char* purpose) {
  GPUETA_ASSIGN_OR_RETURN(Buffer buffer, Allocate(bytes, purpose));
  const std::vector<std::byte> pattern = RandomPattern(dtype, scale);
  ParallelParts(buffer.bytes(), true, [&](std::size_t begin, std::size_t end) {
    while (begin < end) {
      const std::size_t phase = begin % pattern.size();
      const std::size_t count = std::min(end - begin, pattern.size() - phase);
      std::memcpy(buffer.data() + begin, pattern.data() + phase, count);
      begin += count;
    }
  });
  return buffer;
}

}  // namespace gpueta
