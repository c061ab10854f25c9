#include "core/ops/conv2d/conv2d.h"

namespace gpueta {
namespace {

// In 128 bits: dims are checked for range only after this.
std::int64_t OutSize(std::int64_t size, std::int64_t pad, std::int64_t extra, std::int64_t kernel,
                     std::int64_t dilation, std::int64_t stride) {
  const __int128 span = __int128{size} + 2 * __int128{pad} + extra - __int128{dilation} * (kernel - 1) - 1;
  if (span < 0 || stride < 1) return 0;
  const __int128 out = span / stride + 1;
  return out > std::numeric_limits<std::int64_t>::max() ? std::numeric_limits<std::int64_t>::max()
                                                        : static_cast<std::int64_t>(out);
}

}  // namespace

std::int64_t OutHeight(const Conv2d& c) {
  return OutSize(c.height, c.pad_h, c.extra_pad_h, c.kernel_h, c.dilation_h, c.stride_h);
}

std::int64_t OutWidth(const Conv2d& c) {
  return OutSize(c.width, c.pad_w, c.extra_pad_w, c.kernel_w, c.dilation_w, c.stride_w);
}

Counts CountsOf(const Conv2d& c, DType dtype) {
  const ElementBits bits = BitsOf(dtype);
  const Count weights = Product({c.out_channels, c.in_channels / c.groups, c.kernel_h, c.kernel_w});
  const Count outputs = Product({c.batch, c.out_channels, OutHeight(c), OutWidth(c)});
  Counts counts;
  counts.macs = outputs * Product({c.in_channels / c.groups, c.kernel_h, c.kernel_w});
  counts.flops = 2 * counts.macs;
  counts.bytes_read =
      BytesOf(Product({c.batch, c.in_channels, c.height, c.width}), bits.activation) + BytesOf(weights, bits.weight);
  counts.bytes_written = BytesOf(outputs, bits.output);
  return counts;
}

}  // namespace gpueta
