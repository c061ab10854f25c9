#include "core/device/card_name.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace gpueta {
namespace {

// The driver keeps some memory to itself, most of it for ECC.
constexpr double kMemoryTolerance = 0.12;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return c >= 'a' && c <= 'z'; }
bool IsNumber(std::string_view word) { return !word.empty() && std::ranges::all_of(word, IsDigit); }

// What a name says, in lower case.
struct Said {
  std::set<std::string> words;  // of the model and its form
  double memory_gb = 0;         // 0: nothing
  std::string memory_kind;
};

Said SaidBy(std::string_view name) {
  std::vector<std::string> words(1);
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (IsDigit(c) || IsLetter(c)) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  Said said;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    if (IsNumber(word) && i + 1 < words.size() && words[i + 1] == "gb") word += words[++i];
    if (word.size() <= 6 && word.ends_with("gb") && IsNumber(word.substr(0, word.size() - 2))) {
      said.memory_gb = std::stod(word);
    } else if (word.starts_with("hbm") || word.starts_with("gddr")) {
      said.memory_kind = word;
    } else if (word == "laptop") {
      said.words.insert("mobile");
    } else if (!word.empty()) {
      said.words.insert(word);
    }
  }
  // Makers, brands and what says nothing of the card.
  for (const char* word : {"nvidia", "tesla", "geforce", "gpu", "with", "design"}) said.words.erase(word);
  return said;
}

bool IsFormFactor(std::string_view word) { return word.starts_with("sxm") || word == "pcie" || word == "nvl"; }

// A model's own word: with a letter and a digit, or a number of four digits.
bool NamesModel(const std::string& word) {
  return !IsFormFactor(word) && std::ranges::any_of(word, IsDigit) &&
         (std::ranges::any_of(word, IsLetter) || word.size() >= 4);
}

bool HasMemory(const DeviceSpec& spec, double gb) {
  return gb <= 0 || std::abs(gb - spec.memory_gb) <= kMemoryTolerance * spec.memory_gb;
}

bool Fits(const NamedCard& card, const Said& said, const DeviceSpec& spec, const Said& own) {
  if (card.sm_count > 0 && card.sm_count != spec.sm_count) return false;
  if (!HasMemory(spec, static_cast<double>(card.memory_bytes) / 0x1p30) || !HasMemory(spec, said.memory_gb))
    return false;
  std::string listed = spec.memory_type;
  std::ranges::transform(listed, listed.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return said.memory_kind.empty() || said.memory_kind == listed || said.memory_kind == own.memory_kind;
}

}  // namespace

std::vector<std::string> CardsCalled(const NamedCard& card, const Catalogue& catalogue) {
  const Said said = SaidBy(card.name);
  const bool known = card.sm_count > 0 && card.memory_bytes > 0;
  // Words that the card does not have; words that it has besides; of these, form factors
  // SXM; the same of what it says of its memory.
  using Distance = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  std::vector<std::pair<Distance, std::string>> fitting;
  for (const CatalogueEntry& entry : catalogue.entries()) {
    const Said own = SaidBy(entry.spec.name);
    std::vector<std::string> missing, besides, shared;
    std::ranges::set_difference(said.words, own.words, std::back_inserter(missing));
    std::ranges::set_difference(own.words, said.words, std::back_inserter(besides));
    std::ranges::set_intersection(own.words, said.words, std::back_inserter(shared));
    const bool same_model =
        std::ranges::any_of(shared, NamesModel) || (!shared.empty() && missing.empty() && besides.empty());
    if (!same_model || (!missing.empty() && !known) || !Fits(card, said, entry.spec, own)) continue;
    const auto sxm = static_cast<std::size_t>(
        std::ranges::count_if(besides, [](const std::string& word) { return word.starts_with("sxm"); }));
    const std::size_t of_memory = own.memory_kind != said.memory_kind && !own.memory_kind.empty() ? 1 : 0;
    fitting.emplace_back(Distance{missing.size(), besides.size() - sxm, of_memory, sxm}, entry.spec.slug);
  }
  std::ranges::sort(fitting);
  std::vector<std::string> slugs;
  for (const auto& [distance, slug] : fitting) {
    if (distance == fitting.front().first) slugs.push_back(slug);
  }
  return slugs;
}

std::string CardCalled(const NamedCard& card) {
  const std::vector<std::string> cards = CardsCalled(card);
  return cards.size() == 1 ? cards.front() : "";
}

}  // namespace gpueta
