#include "core/serving/output_lengths.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 26;

// 1, 2, … with P(> n) = (1 − 1/mean)^n.
std::int64_t DrawGeometric(double u, double mean) {
  if (mean <= 1) return 1;
  const double n = std::ceil(std::log1p(-std::clamp(u, 0.0, 1 - 1e-9)) / std::log1p(-1 / mean));
  return static_cast<std::int64_t>(std::clamp(n, 1.0, static_cast<double>(kLongest)));
}

}  // namespace

OutputLengths OutputLengths::Fixed(std::int64_t tokens) {
  OutputLengths lengths;
  lengths.sorted_ = {std::clamp<std::int64_t>(tokens, 1, kLongest)};
  lengths.mean_ = static_cast<double>(lengths.sorted_.front());
  return lengths;
}

OutputLengths OutputLengths::Geometric(double mean) {
  OutputLengths lengths;
  lengths.mean_ = mean >= 1 ? std::min(mean, static_cast<double>(kLongest)) : 1;
  return lengths;
}

absl::StatusOr<OutputLengths> OutputLengths::FromSamples(std::vector<std::int64_t> tokens) {
  if (tokens.empty()) return InvalidArgument("no sample; give lengths or a mean");
  std::ranges::sort(tokens);
  if (tokens.front() < 1 || tokens.back() > kLongest) {
    return InvalidArgument("{} is not from 1 to {}", tokens.front() < 1 ? tokens.front() : tokens.back(), kLongest);
  }
  OutputLengths lengths;
  lengths.mean_ = std::accumulate(tokens.begin(), tokens.end(), 0.0) / static_cast<double>(tokens.size());
  lengths.sorted_ = std::move(tokens);
  return lengths;
}

std::int64_t OutputLengths::Draw(double u, std::int64_t generated) const {
  if (sorted_.empty()) return generated + DrawGeometric(u, mean_);
  const auto first = std::ranges::upper_bound(sorted_, generated);
  const auto longer = sorted_.end() - first;
  if (longer == 0) return generated + DrawGeometric(u, mean_);
  const auto at = static_cast<std::ptrdiff_t>(u * static_cast<double>(longer));
  return *(first + std::clamp<std::ptrdiff_t>(at, 0, longer - 1));
}

}  // namespace gpueta
