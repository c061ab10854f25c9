#include "calibration/backends/cuda/ops/cublaslt_algorithm.h"

#include <charconv>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::string_view kPrefix = "cublaslt";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Digits and "x" between them.
bool IsSizes(std::string_view text) {
  if (text.empty() || !IsDigit(text.front()) || !IsDigit(text.back())) return false;
  return text.find_first_not_of("0123456789x") == std::string_view::npos;
}

// The number after `prefix` at the start of the text, which is cut off.
std::optional<int> TakeNumber(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view rest = text.substr(prefix.size());
  int value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || rest.empty() || !IsDigit(rest.front())) return std::nullopt;
  text = rest.substr(static_cast<std::size_t>(end - rest.data()));
  return value;
}

bool TakeSizes(std::string_view word, std::string_view prefix, std::string& sizes) {
  if (!word.starts_with(prefix) || !IsSizes(word.substr(prefix.size()))) return false;
  sizes = word.substr(prefix.size());
  return true;
}

bool TakeWord(std::string_view word, CublasLtAlgorithm& algorithm) {
  if (TakeSizes(word, "stages", algorithm.stages) || TakeSizes(word, "cluster", algorithm.cluster)) return true;
  if (IsSizes(word) && algorithm.tile.empty()) {
    algorithm.tile = word;
    return true;
  }
  std::string_view rest = word;
  if (const auto split = TakeNumber(rest, "splitk"); split.has_value()) {
    algorithm.split_k = *split;
    if (const auto reduction = TakeNumber(rest, "r"); reduction.has_value()) algorithm.reduction = *reduction;
    return rest.empty();
  }
  for (const auto& [prefix, member] : {std::pair{"swizzle", &CublasLtAlgorithm::swizzle},
                                       {"custom", &CublasLtAlgorithm::custom},
                                       {"inner", &CublasLtAlgorithm::inner_shape}}) {
    rest = word;
    if (const auto value = TakeNumber(rest, prefix); value.has_value() && rest.empty()) {
      algorithm.*member = *value;
      return true;
    }
  }
  return false;
}

}  // namespace

std::string NameOf(const CublasLtAlgorithm& a) {
  std::string name = fmt::format("{}{}", kPrefix, a.id);
  if (!a.tile.empty()) name += "_" + a.tile;
  if (!a.stages.empty()) name += "_stages" + a.stages;
  if (a.split_k != 1) name += fmt::format("_splitk{}r{}", a.split_k, a.reduction);
  if (a.swizzle != 0) name += fmt::format("_swizzle{}", a.swizzle);
  if (a.custom != 0) name += fmt::format("_custom{}", a.custom);
  if (a.inner_shape != 0) name += fmt::format("_inner{}", a.inner_shape);
  if (!a.cluster.empty()) name += "_cluster" + a.cluster;
  return name;
}

std::optional<CublasLtAlgorithm> ParseCublasLtAlgorithm(std::string_view name) {
  CublasLtAlgorithm algorithm;
  const auto id = TakeNumber(name, kPrefix);
  if (!id.has_value()) return std::nullopt;
  algorithm.id = *id;
  while (!name.empty()) {
    if (name.front() != '_') return std::nullopt;
    name.remove_prefix(1);
    const std::string_view word = name.substr(0, name.find('_'));
    if (!TakeWord(word, algorithm)) return std::nullopt;
    name.remove_prefix(word.size());
  }
  return algorithm;
}

}  // namespace gpueta
