// The integer dims of an op, by name: the one list that CSV columns, proto
// fields, graph symbols, hashes and hulls all follow.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace gpueta {

// A dim without a default must be given.
inline constexpr std::int64_t kRequired = std::numeric_limits<std::int64_t>::min();

template <class Work>
struct DimField {
  std::string_view name;  // as in CSV headers and proto messages
  std::int64_t Work::*member;
  std::int64_t smallest = 1;           // smallest legal value
  std::int64_t otherwise = kRequired;  // value when not given
  bool in_csv = true;                  // a column of the canonical CSV

  constexpr bool required() const { return otherwise == kRequired; }
};

}  // namespace gpueta
