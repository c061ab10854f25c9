// Forward convolutions.
#pragma once

#include <array>
#include <cstdint>

#include "core/ops/counts.h"
#include "core/ops/dim.h"
#include "core/ops/dtype.h"

namespace gpueta {

// NCHW; 1-D convolutions have height 1 and kernel_h 1.
struct Conv2d {
  std::int64_t batch = 1;
  std::int64_t in_channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel_h = 0;
  std::int64_t kernel_w = 0;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t pad_h = 0;  // leading
  std::int64_t pad_w = 0;
  std::int64_t groups = 1;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::int64_t extra_pad_h = 0;  // trailing minus leading padding
  std::int64_t extra_pad_w = 0;

  friend bool operator==(const Conv2d&, const Conv2d&) = default;
};

inline constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::min();

inline constexpr std::array<DimField<Conv2d>, 16> kConv2dDims = {{
    {"batch", &Conv2d::batch},
    {"in_channels", &Conv2d::in_channels},
    {"height", &Conv2d::height},
    {"width", &Conv2d::width},
    {"out_channels", &Conv2d::out_channels},
    {"kernel_h", &Conv2d::kernel_h},
    {"kernel_w", &Conv2d::kernel_w},
    {"stride_h", &Conv2d::stride_h, 1, 1},
    {"stride_w", &Conv2d::stride_w, 1, 1},
    {"pad_h", &Conv2d::pad_h, 0, 0},
    {"pad_w", &Conv2d::pad_w, 0, 0},
    {"groups", &Conv2d::groups, 1, 1},
    {"dilation_h", &Conv2d::dilation_h, 1, 1, false},
    {"dilation_w", &Conv2d::dilation_w, 1, 1, false},
    {"extra_pad_h", &Conv2d::extra_pad_h, kAnyInteger, 0, false},
    {"extra_pad_w", &Conv2d::extra_pad_w, kAnyInteger, 0, false},
}};

// Output size; 0 or negative when the kernel does not fit into the input.
std::int64_t OutHeight(const Conv2d& conv);
std::int64_t OutWidth(const Conv2d& conv);

// FLOPs 2·batch·out_channels·out_h·out_w·(in_channels/groups)·kernel_h·kernel_w
// whatever the algorithm (Winograd and FFT do fewer).
Counts CountsOf(const Conv2d& conv, DType dtype);

}  // namespace gpueta
