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
  constexpr Count(std::int64_t value) : value_(value) { Check(); }  // NOLINT(google-explicit-constructor)

  constexpr std::int64_t value() const { return value_; }
  constexpr bool overflowed() const { return overflowed_; }

  friend constexpr Count operator+(Count a, Count b) {
    Count r;
    r.overflowed_ = __builtin_add_overflow(a.value_, b.value_, &r.value_) || a.overflowed_ || b.overflowed_;
    r.Check();
    return r;
  }
  friend constexpr Count operator*(Count a, Count b) {
    Count r;
    r.overflowed_ = __builtin_mul_overflow(a.value_, b.value_, &r.value_) || a.overflowed_ || b.overflowed_;
    r.Check();
    return r;
  }

 private:
  static constexpr std::int64_t kLargest = std::int64_t{1} << 62;
  constexpr void Check() {
    if (overflowed_ || value_ > kLargest || value_ < 0) {
      overflowed_ = true;
      value_ = kLargest;
    }
  }
  std::int64_t value_ = 0;
  bool overflowed_ = false;
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
