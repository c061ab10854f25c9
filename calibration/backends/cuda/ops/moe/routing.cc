#include "calibration/backends/cuda/ops/moe/routing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::string_view kPowerLaw = "power_law_";

// Far above any model and any step: what is held for each is bounded.
constexpr std::int64_t kMostExperts = 1 << 16;
constexpr std::int64_t kMostTokens = 1 << 22;
constexpr std::int64_t kMostChoices = 1 << 24;

// 0 where all experts are alike.
std::optional<double> ExponentOf(std::string_view distribution) {
  if (distribution.empty() || distribution == "balanced") return 0;
  if (!distribution.starts_with(kPowerLaw)) return std::nullopt;
  double exponent = 0;
  const char* end = distribution.data() + distribution.size();
  const auto [parsed, error] = std::from_chars(distribution.data() + kPowerLaw.size(), end, exponent);
  if (error != std::errc() || parsed != end || !(exponent >= 0) || exponent > 10) return std::nullopt;
  return exponent;
}

}  // namespace

absl::StatusOr<std::vector<std::int64_t>> ExpertLoads(const Moe& moe) {
  const std::optional<double> exponent = ExponentOf(moe.distribution);
  if (!exponent.has_value()) {
    return absl::UnimplementedError(fmt::format("tokens spread over experts as \"{}\"", moe.distribution));
  }
  if (moe.num_experts > kMostExperts || moe.num_tokens > kMostTokens || moe.top_k > kMostChoices / moe.num_tokens) {
    return absl::UnimplementedError("more experts, tokens or choices than any model has");
  }
  std::vector<double> shares;
  for (std::int64_t e = 0; e < moe.num_experts; ++e) shares.push_back(std::pow(static_cast<double>(e + 1), -*exponent));
  double share_left = 0;
  for (const double share : shares) share_left += share;
  // What is left is shared among those that are left, so that rounding and full experts
  // are made up for.
  std::int64_t left = moe.num_tokens * std::min(moe.top_k, moe.num_experts);
  std::vector<std::int64_t> loads;
  for (std::size_t e = 0; e < shares.size(); ++e) {
    const auto others = static_cast<std::int64_t>(shares.size() - e - 1);
    const auto fair = static_cast<std::int64_t>(std::ceil(static_cast<double>(left) * shares[e] / share_left - 1e-9));
    // The others must be able to take the rest.
    const std::int64_t load =
        std::clamp(fair, std::max<std::int64_t>(0, left - others * moe.num_tokens), moe.num_tokens);
    loads.push_back(std::min(load, left));
    left -= loads.back();
    share_left -= shares[e];
  }
  std::ranges::sort(loads, std::greater<>());
  return loads;
}

absl::StatusOr<Routing> RouteTokens(const Moe& moe, std::int64_t row_alignment) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<std::int64_t> loads, ExpertLoads(moe));
  const std::int64_t ranks = std::max<std::int64_t>(1, moe.ep);
  Routing routing;
  std::vector<std::vector<std::int32_t>> rows_of(static_cast<std::size_t>(moe.num_tokens));
  std::int64_t token = 0;
  for (std::size_t e = 0; e < loads.size(); e += static_cast<std::size_t>(ranks)) {
    const std::int64_t index = routing.experts_on_rank++;
    if (loads[e] == 0) continue;
    const std::int64_t first = (routing.row_count + row_alignment - 1) / row_alignment * row_alignment;
    routing.experts.push_back({.index = index, .first_row = first, .rows = loads[e]});
    routing.row_count = first + loads[e];
    for (std::int64_t row = first; row < routing.row_count; ++row) {
      routing.tokens.push_back(static_cast<std::int32_t>(token));
      routing.rows.push_back(static_cast<std::int32_t>(row));
      rows_of[static_cast<std::size_t>(token)].push_back(static_cast<std::int32_t>(row));
      token = (token + 1) % moe.num_tokens;
    }
  }
  routing.token_begins.push_back(0);
  for (const std::vector<std::int32_t>& rows : rows_of) {
    routing.token_rows.insert(routing.token_rows.end(), rows.begin(), rows.end());
    routing.token_begins.push_back(static_cast<std::int32_t>(routing.token_rows.size()));
  }
  return routing;
}

}  // namespace gpueta
