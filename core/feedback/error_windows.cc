#include "core/feedback/error_windows.h"

#include <algorithm>

namespace gpueta {
namespace {

std::int64_t StartOf(std::int64_t at, std::int64_t seconds) { return at - at % seconds; }

// The oldest start that is kept when `latest` is the newest.
std::int64_t OldestOf(const ErrorWindows::Length& length, std::int64_t latest) {
  return latest - (length.buckets - 1) * length.seconds;
}

}  // namespace

void ErrorWindows::Add(std::int64_t at_unix_s, const PredictedAndObserved& pair) {
  const ErrorSketch::Bin bin = ErrorSketch::BinOf(LnErrorOf(pair));
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    const std::int64_t start = StartOf(at_unix_s, kLengths[i].seconds);
    auto& kept = buckets_[i];
    if (!kept.empty() && start < OldestOf(kLengths[i], kept.rbegin()->first)) continue;
    kept[start].Add(pair, bin);
    const std::int64_t oldest = OldestOf(kLengths[i], kept.rbegin()->first);
    while (kept.begin()->first < oldest) kept.erase(kept.begin());
  }
}

void ErrorWindows::Forget(std::int64_t now_unix_s) {
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    auto& kept = buckets_[i];
    kept.erase(kept.begin(), kept.lower_bound(OldestOf(kLengths[i], StartOf(now_unix_s, kLengths[i].seconds))));
  }
}

bool ErrorWindows::empty() const {
  return std::ranges::all_of(buckets_, [](const auto& kept) { return kept.empty(); });
}

ErrorStats ErrorWindows::Since(std::int64_t since_unix_s, std::int64_t now_unix_s) const {
  ErrorStats stats;
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    const std::int64_t start = StartOf(since_unix_s, kLengths[i].seconds);
    const bool last = i + 1 == kLengths.size();
    if (start < OldestOf(kLengths[i], StartOf(now_unix_s, kLengths[i].seconds)) && !last) continue;
    for (auto it = buckets_[i].lower_bound(start); it != buckets_[i].end(); ++it) stats.Merge(it->second);
    break;
  }
  return stats;
}

void ErrorWindows::Restore(std::size_t length, std::int64_t start_unix_s, ErrorStats stats) {
  buckets_[length][start_unix_s] = std::move(stats);
}

}  // namespace gpueta
