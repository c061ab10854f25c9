#include "core/feedback/error_sketch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpueta {
namespace {

constexpr double kGrowth = (1 + ErrorSketch::kRelativeError) / (1 - ErrorSketch::kRelativeError);
const double kLnGrowth = std::log(kGrowth);

// Bin i > 0 holds sizes in (kSmallest·kGrowth^(i−1), kSmallest·kGrowth^i].
std::int16_t IndexOf(double size) {
  if (!(size >= ErrorSketch::kSmallest)) return 0;
  const double index = std::ceil(std::log(std::min(size, ErrorSketch::kLargest) / ErrorSketch::kSmallest) / kLnGrowth);
  return static_cast<std::int16_t>(std::max(1.0, index));
}

const std::int16_t kLargestIndex = IndexOf(ErrorSketch::kLargest);

}  // namespace

double ErrorSketch::ValueOf(std::int16_t index) {
  if (index == 0) return 0;
  const double size = kSmallest * std::exp(kLnGrowth * (std::abs(index) - 1)) * 2 * kGrowth / (kGrowth + 1);
  return std::copysign(size, index);
}

ErrorSketch::Bin ErrorSketch::BinOf(double ln_error) {
  const std::int16_t size = IndexOf(std::abs(ln_error));
  return {static_cast<std::int16_t>(ln_error < 0 ? -size : size), 1};
}

void ErrorSketch::Add(Bin bin) {
  count_ += bin.count;
  const auto at = std::lower_bound(bins_.begin(), bins_.end(), bin.index,
                                   [](const Bin& b, std::int16_t index) { return b.index < index; });
  if (at == bins_.end() || at->index != bin.index) {
    bins_.insert(at, bin);
    return;
  }
  at->count += std::min(bin.count, std::numeric_limits<std::uint32_t>::max() - at->count);
}

void ErrorSketch::Merge(const ErrorSketch& other) {
  for (const Bin& bin : other.bins_) Add(bin);
}

ErrorSketch ErrorSketch::FromBins(std::span<const Bin> bins) {
  ErrorSketch sketch;
  for (const Bin& bin : bins) {
    const bool in_order = sketch.bins_.empty() || sketch.bins_.back().index < bin.index;
    if (in_order && std::abs(bin.index) <= kLargestIndex && bin.count > 0) sketch.Add(bin);
  }
  return sketch;
}

}  // namespace gpueta
