// Elements of device memory as numbers, for tests that compute on a device.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/ops/dtype.h"

namespace gpueta {

inline double ValueOf(const std::byte* at, DType dtype) {
  std::uint32_t bits = 0;
  switch (dtype) {
    case DType::kFp64: {
      double value = 0;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    case DType::kFp32: std::memcpy(&bits, at, 4); return static_cast<double>(std::bit_cast<float>(bits));
    case DType::kBf16: std::memcpy(&bits, at, 2); return static_cast<double>(std::bit_cast<float>(bits << 16));
    case DType::kFp16: {
      std::memcpy(&bits, at, 2);
      const int exponent = static_cast<int>(bits >> 10 & 31);
      const double mantissa = (bits & 1023) / 1024.0;
      const double magnitude = exponent == 0 ? std::ldexp(mantissa, -14) : std::ldexp(1 + mantissa, exponent - 15);
      return (bits & 0x8000) != 0 ? -magnitude : magnitude;
    }
    case DType::kFp8: {  // e4m3
      bits = static_cast<std::uint32_t>(*at);
      const int exponent = static_cast<int>(bits >> 3 & 15);
      const double mantissa = (bits & 7) / 8.0;
      const double magnitude = exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
      return (bits & 0x80) != 0 ? -magnitude : magnitude;
    }
    default: return static_cast<double>(static_cast<std::int8_t>(*at));
  }
}

// Of a result of about 1.
inline double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return 1e-12;
    case DType::kFp32: return 2e-5;
    case DType::kFp16: return 2e-3;
    case DType::kBf16: return 2e-2;
    default: return 0;
  }
}

// The nearest value of a type of 8 or 16 bits for one that it reaches; of wider types the
// value itself.
inline double Nearest(double value, DType dtype) {
  int mantissa_bits = 0;
  int least_exponent = 0;
  switch (dtype) {
    case DType::kFp8: mantissa_bits = 3, least_exponent = -6; break;
    case DType::kFp16: mantissa_bits = 10, least_exponent = -14; break;
    case DType::kBf16: mantissa_bits = 7, least_exponent = -126; break;
    default: return value;
  }
  if (value == 0) return 0;
  const double unit = std::ldexp(1, std::max(std::ilogb(value), least_exponent) - mantissa_bits);
  return std::nearbyint(value / unit) * unit;
}

// The nearest of 8 bits' mantissa.
inline std::uint16_t Bf16Of(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace gpueta
