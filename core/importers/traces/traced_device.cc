#include "core/importers/traces/traced_device.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include "core/device/catalogue.h"

namespace gpueta {
namespace {

// The driver keeps some memory to itself, most of it for ECC.
constexpr double kMemoryTolerance = 0.12;

// Lower-case words of a name; a number before "GB" is one word with it.
std::set<std::string> WordsOf(std::string_view name) {
  std::set<std::string> words;
  std::string word;
  std::string number;
  const auto finish = [&] {
    if (word == "gb" && !number.empty()) {
      words.erase(number);
      word = number + word;
    }
    number = std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; }) ? word : "";
    if (!word.empty()) words.insert(word);
    word.clear();
  };
  for (char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool kept = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (kept) word += upper ? static_cast<char>(c - 'A' + 'a') : c;
    if (!kept) finish();
  }
  finish();
  for (const char* brand : {"nvidia", "tesla", "geforce"}) words.erase(brand);
  return words;
}

bool Fits(const TracedDevice& device, const DeviceSpec& spec) {
  if (device.sm_count > 0 && device.sm_count != spec.sm_count) return false;
  if (device.memory_bytes <= 0) return true;
  const double memory_gb = static_cast<double>(device.memory_bytes) / 0x1p30;
  return std::abs(memory_gb - spec.memory_gb) <= kMemoryTolerance * spec.memory_gb;
}

}  // namespace

std::string SlugOf(const TracedDevice& device) {
  const std::set<std::string> words = WordsOf(device.name);
  std::string best;
  double best_score = 0;
  for (const CatalogueEntry& entry : Catalogue::BuiltIn().entries()) {
    const std::set<std::string> own = WordsOf(entry.spec.name);
    std::set<std::string> shared;
    std::set_intersection(words.begin(), words.end(), own.begin(), own.end(), std::inserter(shared, shared.end()));
    // The model's own word: with a letter and a digit, and no size of memory.
    const bool same_model = std::any_of(shared.begin(), shared.end(), [](const std::string& word) {
      const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
      return !word.ends_with("gb") &&
             std::any_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
             (std::any_of(word.begin(), word.end(), letter) || word.size() >= 4);
    });
    const bool all_given = std::includes(own.begin(), own.end(), words.begin(), words.end());
    const bool known = device.sm_count > 0 && device.memory_bytes > 0;
    if (!same_model || !Fits(device, entry.spec) || (!all_given && !known)) continue;
    const double score = static_cast<double>(shared.size()) / static_cast<double>(own.size() + words.size());
    if (score == best_score) best.clear();
    if (score <= best_score) continue;
    best_score = score;
    best = entry.spec.slug;
  }
  return best;
}

}  // namespace gpueta
