#include "core/device/catalogue.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "core/base/csv.h"
#include "core/base/errors.h"
#include "core/device/card_name.h"
#include "core/device/gpu_specs_csv.h"

namespace gpueta {
namespace {

// A column and the member it fills; columns without one are for readers of the
// file.
struct SpecColumn {
  std::string_view name;
  bool needed = false;  // no cell may be empty
  std::string DeviceSpec::*text = nullptr;
  double DeviceSpec::*number = nullptr;
  std::int64_t DeviceSpec::*count = nullptr;
};

constexpr std::string_view kSlug = "slug";
constexpr std::string_view kAliases = "aliases";
constexpr std::string_view kFp64 = "fp64_tflops";  // not in gpu_specs.csv

constexpr SpecColumn kColumns[] = {
    {.name = kSlug, .needed = true, .text = &DeviceSpec::slug},
    {.name = "name", .text = &DeviceSpec::name},
    {.name = kAliases},
    {.name = "architecture", .text = &DeviceSpec::architecture},
    {.name = "chip"},
    {.name = "segment", .text = &DeviceSpec::segment},
    {.name = "compute_capability", .number = &DeviceSpec::compute_capability},
    {.name = "sm_count", .count = &DeviceSpec::sm_count},
    {.name = "cuda_cores"},
    {.name = "base_clock_mhz", .number = &DeviceSpec::base_clock_mhz},
    {.name = "boost_clock_mhz", .number = &DeviceSpec::boost_clock_mhz},
    {.name = "memory_type", .text = &DeviceSpec::memory_type},
    {.name = "memory_clock_mhz"},
    {.name = "memory_bus_bits"},
    {.name = "mem_bandwidth_gb_s", .needed = true, .number = &DeviceSpec::mem_bandwidth_gb_s},
    {.name = "memory_gb", .number = &DeviceSpec::memory_gb},
    {.name = "l2_mb", .number = &DeviceSpec::l2_mb},
    {.name = "max_smem_kb_per_sm"},
    {.name = "max_threads_per_sm"},
    {.name = kFp64, .number = &DeviceSpec::fp64_tflops},
    {.name = "fp32_tflops", .needed = true, .number = &DeviceSpec::fp32_tflops},
    {.name = "fp16_vector_tflops", .number = &DeviceSpec::fp16_vector_tflops},
    {.name = "fp16_tensor_tflops_dense_fp16acc"},
    {.name = "fp16_tensor_tflops_dense_fp32acc", .number = &DeviceSpec::fp16_tensor_tflops},
    {.name = "bf16_tensor_tflops_dense", .number = &DeviceSpec::bf16_tensor_tflops},
    {.name = "tf32_tensor_tflops_dense", .number = &DeviceSpec::tf32_tensor_tflops},
    {.name = "fp8_tensor_tflops_dense", .number = &DeviceSpec::fp8_tensor_tflops},
    {.name = "int8_tensor_tops_dense", .number = &DeviceSpec::int8_tensor_tops},
    {.name = "tensor_source"},
    {.name = "tdp_w", .number = &DeviceSpec::tdp_w},
    {.name = "nvlink_gb_s_total_bidir", .number = &DeviceSpec::nvlink_gb_s},
    {.name = "pcie_gb_s_per_dir", .number = &DeviceSpec::pcie_gb_s},
    {.name = "crosscheck"},
    {.name = "source"},
    {.name = "note"},
};

bool IsSlug(std::string_view text) {
  constexpr std::string_view kLegal = "abcdefghijklmnopqrstuvwxyz0123456789-._";
  return !text.empty() && text.find_first_not_of(kLegal) == std::string_view::npos;
}

// The columns of a spec file, by position.
absl::StatusOr<std::vector<const SpecColumn*>> MatchSpecColumns(const CsvReader& csv, bool all_required) {
  std::vector<CsvColumn> known;
  for (const SpecColumn& column : kColumns) {
    known.push_back({column.name, column.needed || (all_required && column.name != kFp64)});
  }
  GPUETA_ASSIGN_OR_RETURN(const std::vector<std::size_t> indices, MatchColumns(csv, known));
  std::vector<const SpecColumn*> columns;
  for (const std::size_t index : indices) columns.push_back(&kColumns[index]);
  return columns;
}

absl::Status ReadCell(const CsvReader& csv, std::size_t cell, const SpecColumn& column, CatalogueEntry& entry) {
  const std::string_view text = csv.cells()[cell];
  if (text.empty()) return column.needed ? csv.ErrorInCell(cell, "is empty") : absl::OkStatus();
  if (column.name == kSlug && !IsSlug(text)) {
    return csv.ErrorInCell(cell, fmt::format("{}: use lower-case letters, digits and -._ only", Excerpt(text)));
  }
  if (column.name == kAliases) {
    std::istringstream words{std::string(text)};
    for (std::string alias; words >> alias;) entry.aliases.push_back(alias);
  }
  if (column.text != nullptr) entry.spec.*column.text = text;
  if (column.number != nullptr) {
    GPUETA_ASSIGN_OR_RETURN(entry.spec.*column.number, csv.Number(cell));
    if (!(entry.spec.*column.number > 0)) return csv.ErrorInCell(cell, "must be above 0; leave it empty if unknown");
  }
  if (column.count != nullptr) {
    GPUETA_ASSIGN_OR_RETURN(entry.spec.*column.count, csv.Integer(cell));
    if (entry.spec.*column.count <= 0) return csv.ErrorInCell(cell, "must be above 0; leave it empty if unknown");
  }
  return absl::OkStatus();
}

absl::StatusOr<CatalogueEntry> ReadRow(const CsvReader& csv, const std::vector<const SpecColumn*>& columns) {
  CatalogueEntry entry;
  for (std::size_t i = 0; i < columns.size(); ++i) GPUETA_RETURN_IF_ERROR(ReadCell(csv, i, *columns[i], entry));
  return entry;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return lower;
}

// Insertions, deletions and replacements that turn `a` into `b` (Levenshtein).
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

}  // namespace

const Catalogue& Catalogue::BuiltIn() {
  // Never destroyed: other static objects may hold on to it.
  static const Catalogue& catalogue = *new Catalogue(Parse(kGpuSpecsCsv).value());
  return catalogue;
}

absl::StatusOr<Catalogue> Catalogue::Parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  GPUETA_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(in, "gpu_specs.csv"));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<const SpecColumn*> columns, MatchSpecColumns(csv, true));
  Catalogue catalogue;
  while (csv.Next()) {
    GPUETA_ASSIGN_OR_RETURN(CatalogueEntry entry, ReadRow(csv, columns));
    std::vector<std::string> names = entry.aliases;
    names.push_back(entry.spec.slug);
    for (const std::string& name : names) {
      if (!IsSlug(name)) return csv.ErrorInColumn(kAliases, fmt::format("{} is not a slug", Excerpt(name)));
      if (!catalogue.index_.emplace(name, catalogue.entries_.size()).second) {
        return csv.ErrorInColumn(kSlug, fmt::format("{} is the slug or alias of an earlier row too", Excerpt(name)));
      }
    }
    catalogue.entries_.push_back(std::move(entry));
  }
  GPUETA_RETURN_IF_ERROR(csv.status());
  return catalogue;
}

const CatalogueEntry* Catalogue::Find(std::string_view slug_or_alias) const {
  const auto found = index_.find(slug_or_alias);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

std::string Catalogue::CanonicalSlug(std::string_view slug_or_alias) const {
  const CatalogueEntry* entry = Find(slug_or_alias);
  return entry == nullptr ? std::string(slug_or_alias) : entry->spec.slug;
}

absl::StatusOr<DeviceSpec> Catalogue::Get(std::string_view slug_or_alias) const {
  if (const CatalogueEntry* entry = Find(slug_or_alias)) return entry->spec;
  // Slugs have no capitals, names have.
  constexpr std::size_t kLongestName = 128;
  if (slug_or_alias.size() <= kLongestName && LowerCase(slug_or_alias) != slug_or_alias) {
    const std::vector<std::string> cards = CardsCalled({.name = std::string(slug_or_alias)}, *this);
    if (cards.size() == 1) return Find(cards.front())->spec;
    if (!cards.empty()) {
      return NotFound("device {} may be any of {}: give the one that it is", Excerpt(slug_or_alias),
                      fmt::join(cards, ", "));
    }
  }

  // A slug that goes on where the question stops ("a100") is likelier meant
  // than one that differs in a letter ("a10").
  constexpr std::size_t kMostSuggestions = 3;
  constexpr std::size_t kLongestSlug = 64;  // bounds the cost of hopeless questions
  const std::string wanted = LowerCase(slug_or_alias.substr(0, kLongestSlug));
  std::vector<std::pair<std::size_t, std::string_view>> candidates;
  for (const auto& [name, index] : index_) {
    const bool continues = !wanted.empty() && name.starts_with(wanted);
    const std::size_t distance = EditDistance(wanted, name);
    if (continues || distance <= std::max<std::size_t>(1, name.size() / 3)) {
      candidates.emplace_back(continues ? 0 : distance, name);
    }
  }
  std::ranges::sort(candidates);
  std::string names;
  for (std::size_t i = 0; i < std::min(candidates.size(), kMostSuggestions); ++i) {
    names += (names.empty() ? "" : ", ") + std::string(candidates[i].second);
  }
  return NotFound("unknown device {}{}", Excerpt(slug_or_alias),
                  names.empty() ? "; \"gpueta devices\" lists the known ones" : "; did you mean " + names + "?");
}

absl::Status CheckPlausible(const DeviceSpec& spec) {
  constexpr double kMost = 1e6;
  constexpr std::int64_t kMostSms = 100'000;
  for (const SpecColumn& column : kColumns) {
    if (column.number != nullptr && !(spec.*column.number >= 0 && spec.*column.number <= kMost)) {
      return InvalidArgument("{}: {} must be between 0 and {}", column.name, spec.*column.number, kMost);
    }
    if (column.count != nullptr && (spec.*column.count < 0 || spec.*column.count > kMostSms)) {
      return InvalidArgument("{}: {} must be between 0 and {}", column.name, spec.*column.count, kMostSms);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceSpec> ParseSpecRow(std::string_view text, std::string_view file_name) {
  std::istringstream in{std::string(text)};
  GPUETA_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(in, file_name));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<const SpecColumn*> columns, MatchSpecColumns(csv, false));
  if (!csv.Next()) return csv.status().ok() ? csv.ErrorInRow("a row must follow the header") : csv.status();
  GPUETA_ASSIGN_OR_RETURN(const CatalogueEntry entry, ReadRow(csv, columns));
  if (const absl::Status status = CheckPlausible(entry.spec); !status.ok()) return csv.ErrorInRow(MessageOf(status));
  if (csv.Next()) return csv.ErrorInRow("is a second row; one device is expected");
  GPUETA_RETURN_IF_ERROR(csv.status());
  return entry.spec;
}

absl::StatusOr<std::string> SpecRow(const DeviceSpec& spec) {
  std::string header;
  std::string row;
  const auto add = [&](std::string_view column, std::string_view cell) -> absl::Status {
    if (!header.empty()) {
      header += ',';
      row += ',';
    }
    header += column;
    return AppendCsvCell(cell, row);
  };
  for (const SpecColumn& column : kColumns) {
    if (column.text != nullptr && !(spec.*column.text).empty()) {
      GPUETA_RETURN_IF_ERROR(add(column.name, spec.*column.text));
    }
    if (column.number != nullptr && spec.*column.number > 0) {
      std::string number;
      AppendDecimal(spec.*column.number, number);
      GPUETA_RETURN_IF_ERROR(add(column.name, number));
    }
    if (column.count != nullptr && spec.*column.count > 0) {
      GPUETA_RETURN_IF_ERROR(add(column.name, fmt::format("{}", spec.*column.count)));
    }
  }
  return header + "\n" + row + "\n";
}

}  // namespace gpueta
