#include "core/serving/output_lengths.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 26;

}  // namespace

LengthQuantile LengthQuantile::Of(double u) { return {u, std::log1p(-std::clamp(u, 0.0, 1 - 1e-9))}; }

OutputLengths::OutputLengths(std::vector<std::int64_t> sorted, double mean)
    : sorted_(std::move(sorted)), mean_(mean), ln_longer_(mean > 1 ? std::log1p(-1 / mean) : 0) {}

OutputLengths OutputLengths::Fixed(std::int64_t tokens) {
  const std::int64_t within = std::clamp<std::int64_t>(tokens, 1, kLongest);
  return {{within}, static_cast<double>(within)};
}

OutputLengths OutputLengths::Geometric(double mean) {
  return {{}, mean >= 1 ? std::min(mean, static_cast<double>(kLongest)) : 1};
}

absl::StatusOr<OutputLengths> OutputLengths::FromSamples(std::vector<std::int64_t> tokens) {
  if (tokens.empty()) return InvalidArgument("no sample; give lengths or a mean");
  std::ranges::sort(tokens);
  if (tokens.front() < 1 || tokens.back() > kLongest) {
    return InvalidArgument("{} is not from 1 to {}", tokens.front() < 1 ? tokens.front() : tokens.back(), kLongest);
  }
  const double mean = std::accumulate(tokens.begin(), tokens.end(), 0.0) / static_cast<double>(tokens.size());
  return OutputLengths(std::move(tokens), mean);
}

std::int64_t OutputLengths::DrawGeometric(double ln_beyond) const {
  if (mean_ <= 1) return 1;
  return static_cast<std::int64_t>(std::clamp(std::ceil(ln_beyond / ln_longer_), 1.0, static_cast<double>(kLongest)));
}

std::int64_t OutputLengths::Draw(const LengthQuantile& at, std::int64_t generated) const {
  if (sorted_.empty()) return generated + DrawGeometric(at.ln_beyond);
  const auto first = std::ranges::upper_bound(sorted_, generated);
  const auto longer = sorted_.end() - first;
  if (longer == 0) return generated + DrawGeometric(at.ln_beyond);
  const auto place = static_cast<std::ptrdiff_t>(at.u * static_cast<double>(longer));
  return *(first + std::clamp<std::ptrdiff_t>(place, 0, longer - 1));
}

}  // namespace gpueta
