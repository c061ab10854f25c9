#include "core/device/slice.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// What one profile has of a card.
struct MigProfile {
  int compute_slices = 0;
  int memory_slices = 0;
};

struct MigCard {
  int compute_slices = 0;
  int memory_slices = 0;
  std::vector<MigProfile> profiles;
};

// By compute capability and memory: which cards have MIG, and how they divide.
std::optional<MigCard> MigCardOf(const DeviceSpec& spec) {
  const auto capability = std::lround(10 * spec.compute_capability);
  // A30 and the RTX PRO 6000 divide in four; other GA100, GH100 and GB100 in seven.
  constexpr double kLargestA30 = 24;  // GB
  constexpr double kRtxPro6000 = 96;
  if (!(spec.memory_gb > 0)) return std::nullopt;
  if ((capability == 80 && spec.memory_gb <= kLargestA30) || (capability == 120 && spec.memory_gb == kRtxPro6000))
    return MigCard{4, 4, {{1, 1}, {2, 2}, {4, 4}}};
  if (capability == 80 || capability == 90 || capability == 100)
    return MigCard{7, 8, {{1, 1}, {1, 2}, {2, 2}, {3, 4}, {4, 4}, {7, 8}}};
  return std::nullopt;
}

std::string NameOf(const DeviceSpec& whole, const MigCard& card, const MigProfile& profile) {
  const double gb = whole.memory_gb * profile.memory_slices / card.memory_slices;
  return fmt::format("{}g.{:.0f}gb", profile.compute_slices, std::floor(gb + 0.5));
}

// SMs of a profile. Where nvidia-smi mig -lgip lists them (GA100 with 108, GH100
// with 132) these; elsewhere the share of slices, in whole TPCs of two.
std::int64_t SmsOf(const DeviceSpec& whole, const MigCard& card, const MigProfile& profile) {
  const int g = profile.compute_slices;
  if (whole.sm_count == 108 && card.compute_slices == 7) return 14 * g;
  if (whole.sm_count == 132 && card.compute_slices == 7) {
    if (g == 1) return profile.memory_slices == 1 ? 16 : 26;
    if (g == 2) return 32;
    if (g == 3) return 60;
    return g == 4 ? 64 : 132;
  }
  return std::max<std::int64_t>(whole.sm_count * g / card.compute_slices / 2 * 2, 2);
}

DeviceSpec Part(const DeviceSpec& whole, std::int64_t sms, double memory_share, std::string_view name) {
  DeviceSpec part = whole;
  part.slug = fmt::format("{}/{}", whole.slug, name);
  part.name = fmt::format("{} ({})", whole.name, name);
  part.sm_count = sms;
  const double share = static_cast<double>(sms) / static_cast<double>(whole.sm_count);
  // Power, too: what a card sustains goes by its watts for each TFLOPS.
  for (double DeviceSpec::*rate :
       {&DeviceSpec::fp64_tflops, &DeviceSpec::fp32_tflops, &DeviceSpec::tf32_tensor_tflops,
        &DeviceSpec::fp16_vector_tflops, &DeviceSpec::fp16_tensor_tflops, &DeviceSpec::bf16_tensor_tflops,
        &DeviceSpec::fp8_tensor_tflops, &DeviceSpec::int8_tensor_tops, &DeviceSpec::tdp_w})
    part.*rate *= share;
  for (double DeviceSpec::*of_memory : {&DeviceSpec::mem_bandwidth_gb_s, &DeviceSpec::memory_gb, &DeviceSpec::l2_mb})
    part.*of_memory *= memory_share;
  return part;
}

absl::Status NoSuchSlice(const DeviceSpec& whole, std::string_view slice) {
  const std::vector<std::string> offered = MigProfilesOf(whole);
  const std::string has = offered.empty() ? "it has no MIG profiles" : fmt::format("{}", fmt::join(offered, ", "));
  return InvalidArgument("slice \"{}\" is none of {}: {}; or a share of its SMs, such as sm=0.5", slice, whole.slug,
                         has);
}

}  // namespace

std::vector<std::string> MigProfilesOf(const DeviceSpec& whole) {
  std::vector<std::string> names;
  const std::optional<MigCard> card = MigCardOf(whole);
  if (!card.has_value()) return names;
  for (const MigProfile& profile : card->profiles) names.push_back(NameOf(whole, *card, profile));
  return names;
}

absl::StatusOr<DeviceSpec> SliceOf(const DeviceSpec& listed, std::string_view slice) {
  const DeviceSpec whole = WithInferredCells(listed);
  constexpr std::string_view kShare = "sm=";
  if (slice.starts_with(kShare)) {
    double share = 0;
    const char* end = slice.data() + slice.size();
    const auto parsed = std::from_chars(slice.data() + kShare.size(), end, share);
    if (parsed.ec != std::errc() || parsed.ptr != end || !(share > 0 && share <= 1))
      return InvalidArgument("slice \"{}\": the share of the SMs must be above 0, at most 1, e.g. sm=0.5", slice);
    const auto sms = static_cast<std::int64_t>(std::lround(share * static_cast<double>(whole.sm_count)));
    return Part(whole, std::max<std::int64_t>(sms, 1), 1, slice);
  }
  const std::optional<MigCard> card = MigCardOf(whole);
  if (!card.has_value()) return NoSuchSlice(whole, slice);
  for (const MigProfile& profile : card->profiles) {
    if (NameOf(whole, *card, profile) != slice) continue;
    const double memory_share = static_cast<double>(profile.memory_slices) / card->memory_slices;
    return Part(whole, SmsOf(whole, *card, profile), memory_share, slice);
  }
  return NoSuchSlice(whole, slice);
}

}  // namespace gpueta
