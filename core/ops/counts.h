// Operation and byte counts of kernels. Each op's own formula lives in its
// folder; this is what they are made of.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace gpueta {

// An integer that remembers whether a product or sum left the range
// [0, 2^62]. Counts are computed with it so that huge dims are an error, never
// a wrong number.
class Count {
 public:
  constexpr Count() = default;
  constexpr Count(std::int64_t value)  // NOLINT(google-explicit-constructor)
      : value_(value >= 0 && value <= kLargest ? value : kOverflowed) {}

  constexpr std::int64_t value() const { return overflowed() ? kLargest : value_; }
  constexpr bool overflowed() const { return value_ == kOverflowed; }

  friend constexpr Count operator+(Count a, Count b) {
    std::int64_t sum = 0;
    const bool out = __builtin_add_overflow(a.value_, b.value_, &sum);
    return Count(out || a.overflowed() || b.overflowed() ? kOverflowed : sum);
  }
  friend constexpr Count operator*(Count a, Count b) {
    std::int64_t product = 0;
    const bool out = __builtin_mul_overflow(a.value_, b.value_, &product);
    return Count(out || a.overflowed() || b.overflowed() ? kOverflowed : product);
  }

 private:
  static constexpr std::int64_t kLargest = std::int64_t{1} << 62;
  static constexpr std::int64_t kOverflowed = -1;
  std::int64_t value_ = 0;
};

inline Count Product(std::initializer_list<std::int64_t> factors) {
  Count product = 1;
  for (std::int64_t f : factors) product = product * Count(f);
  return product;
}

// A count worked out in floating point, rounded down; overflowed if it is
// negative, NaN or too large.
inline Count FloorOf(double value) {
  return value >= 0 && value < 0x1p62 ? Count(static_cast<std::int64_t>(value)) : Count(-1);
}

// Bytes of `elements` elements of `bits` bits each, rounded up.
inline Count BytesOf(Count elements, int bits) {
  const Count whole = elements * Count(bits);
  return whole.overflowed() ? whole : Count((whole.value() + 7) / 8);
}

// What one kernel does, at least: every operand read once, the result written
// once.
struct Counts {
  Count macs;   // convolutions and matrix products only
  Count flops;  // one multiply-add = 2
  Count bytes_read;
  Count bytes_written;

  Count bytes() const { return bytes_read + bytes_written; }
  bool overflowed() const { return flops.overflowed() || macs.overflowed() || bytes().overflowed(); }
};

}  // namespace gpueta
