// The GPUs gpueta knows by their data sheets.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/spec.h"

namespace gpueta {

struct CatalogueEntry {
  DeviceSpec spec;
  std::vector<std::string> aliases;  // other slugs for the same card
};

// Immutable; safe to use from any thread.
class Catalogue {
 public:
  // The 338 GPUs of gpu_specs.csv, compiled in; parsed on the first call.
  static const Catalogue& BuiltIn();

  // The CSV of gpu_specs.csv, with all of its columns in any order.
  // INVALID_ARGUMENT naming line and column.
  static absl::StatusOr<Catalogue> Parse(std::string_view csv);

  const std::vector<CatalogueEntry>& entries() const { return entries_; }
  // By slug or alias; nullptr if unknown.
  const CatalogueEntry* Find(std::string_view slug_or_alias) const;
  // The slug behind an alias; the argument itself if it is no alias.
  std::string CanonicalSlug(std::string_view slug_or_alias) const;
  // Also by a driver's name ("NVIDIA A100-SXM4-80GB"; card_name.h) where it means one card.
  // NOT_FOUND naming the cards that it may mean, or the most similar slugs.
  absl::StatusOr<DeviceSpec> Get(std::string_view slug_or_alias) const;

 private:
  std::vector<CatalogueEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

// INVALID_ARGUMENT naming a number that no device has: below 0, not finite, or
// beyond a million of its unit (100,000 SMs).
absl::Status CheckPlausible(const DeviceSpec& spec);

// A user's own device: a header and one row, with any of the columns of
// gpu_specs.csv and fp64_tflops; slug, mem_bandwidth_gb_s and fp32_tflops must
// be there. INVALID_ARGUMENT naming `file_name`, line and column.
absl::StatusOr<DeviceSpec> ParseSpecRow(std::string_view csv, std::string_view file_name = "spec");

// What ParseSpecRow reads: the columns that are known of the device, numbers
// with 6 significant digits. INVALID_ARGUMENT for text with control characters.
absl::StatusOr<std::string> SpecRow(const DeviceSpec& spec);

}  // namespace gpueta
