// Error figures over time windows, in bounded memory.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "core/feedback/error_stats.h"

namespace gpueta {

// Buckets of three lengths side by side: an hour of five-minute buckets, a day
// of hours, a month of days. Times are Unix seconds; an observation older than
// what a length keeps is not added there.
class ErrorWindows {
 public:
  struct Length {
    std::int64_t seconds;
    std::int64_t buckets;  // kept
  };
  static constexpr std::array<Length, 3> kLengths = {{{300, 12}, {3600, 24}, {86400, 30}}};

  void Add(std::int64_t at_unix_s, const PredictedAndObserved& pair);

  // Everything from the bucket that holds `since` on, of the shortest length that
  // reaches back so far; the start of the first bucket is at most one bucket
  // before `since`. `now` says what is kept.
  ErrorStats Since(std::int64_t since_unix_s, std::int64_t now_unix_s) const;

  // Leaves out what is older than each length keeps.
  void Forget(std::int64_t now_unix_s);
  bool empty() const;

  // By length and start; for keeping them elsewhere.
  using Buckets = std::array<std::map<std::int64_t, ErrorStats>, kLengths.size()>;
  const Buckets& buckets() const { return buckets_; }
  void Restore(std::size_t length, std::int64_t start_unix_s, ErrorStats stats);

 private:
  Buckets buckets_;
};

}  // namespace gpueta
