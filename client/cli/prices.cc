#include "client/cli/prices.h"

#include <charconv>
#include <cmath>

#include "core/base/errors.h"

namespace gpueta::cli {

absl::StatusOr<Prices> ParsePrices(const std::vector<std::string>& texts) {
  Prices prices;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    double value = 0;
    const char* end = text.data() + text.size();
    const bool split = equals != std::string::npos && equals > 0;
    const auto parsed = split ? std::from_chars(text.data() + equals + 1, end, value) : std::from_chars_result{};
    if (!split || parsed.ec != std::errc() || parsed.ptr != end || !(value > 0) || !std::isfinite(value)) {
      return InvalidArgument("--price {}: must be DEVICE=USD, the price of one GPU for an hour", text);
    }
    prices[text.substr(0, equals)] = value;
  }
  return prices;
}

}  // namespace gpueta::cli
