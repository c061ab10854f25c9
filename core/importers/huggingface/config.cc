#include "core/importers/huggingface/config.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/json_fields.h"

namespace gpueta::huggingface {
namespace {

constexpr std::size_t kLargestConfig = std::size_t{16} << 20;
constexpr std::int64_t kLargestInt = std::int64_t{1} << 28;  // a product of two and a few times that fits 64 bits

// Python writes NaN, Infinity and -Infinity, which JSON does not have: null.
std::string WithNullForNoNumber(std::string_view json) {
  static constexpr std::string_view kNoNumbers[] = {"NaN", "Infinity", "-Infinity"};
  std::string text;
  text.reserve(json.size());
  bool quoted = false;
  while (!json.empty()) {
    std::string_view taken = json.substr(0, quoted && json.front() == '\\' ? 2 : 1);
    std::string_view kept = taken;
    if (taken == "\"") quoted = !quoted;
    for (const std::string_view word : kNoNumbers) {
      if (quoted || !json.starts_with(word)) continue;
      taken = word;
      kept = "null";
    }
    text += kept;
    json.remove_prefix(taken.size());
  }
  return text;
}

}  // namespace

absl::StatusOr<Config> Config::Parse(std::string_view json) {
  const bool readable = json.size() <= kLargestConfig;
  absl::StatusOr<nlohmann::json> object =
      ParseJson(readable ? WithNullForNoNumber(json) : std::string(json), kLargestConfig);
  if (!object.ok()) return Prefixed(object.status(), "the config");
  if (!object->is_object()) return InvalidArgument("the config is no JSON object; give a Hugging Face config.json");
  return Config(*std::move(object));
}

void Config::Refuse(std::string_view field, std::string problem) {
  if (status_.ok()) status_ = FieldError(field, problem);
}

const nlohmann::json* Config::Find(Names names, std::string_view& found) const {
  for (const std::string_view name : names) {
    const auto at = object_.find(name);
    if (at == object_.end()) continue;
    found = name;
    return &*at;
  }
  return nullptr;
}

std::int64_t Config::Int(Names names, std::int64_t otherwise) {
  std::string_view name;
  const nlohmann::json* value = Find(names, name);
  if (value == nullptr) {
    if (otherwise == 0) Refuse(names.front(), "is missing; the config must give it");
    return std::max<std::int64_t>(otherwise, 1);
  }
  if (!value->is_number_integer() || *value < 1 || *value > kLargestInt) {
    Refuse(name, fmt::format("is {}, must be an integer from 1 to {}", Shown(*value), kLargestInt));
    return std::max<std::int64_t>(otherwise, 1);
  }
  return value->get<std::int64_t>();
}

std::int64_t Config::IntOrNone(Names names, std::int64_t otherwise) {
  std::string_view name;
  const nlohmann::json* value = Find(names, name);
  if (value == nullptr) return otherwise;
  if (value->is_null() || (value->is_number_integer() && *value == 0)) return 0;
  const std::string_view only[] = {name};
  return Int(only, std::max<std::int64_t>(otherwise, 1));
}

std::int64_t Config::Scaled(std::string_view name, double otherwise, std::int64_t times) {
  double factor = otherwise;
  if (const auto at = object_.find(name); at != object_.end()) {
    if (!at->is_number() || at->get<double>() <= 0 || at->get<double>() > 1024) {
      Refuse(name, fmt::format("is {}, must be a number above 0 and at most 1024", Shown(*at)));
    } else {
      factor = at->get<double>();
    }
  }
  return std::max<std::int64_t>(static_cast<std::int64_t>(std::floor(factor * static_cast<double>(times))), 1);
}

bool Config::Flag(std::string_view name, bool otherwise) {
  const auto at = object_.find(name);
  if (name.empty() || at == object_.end() || at->is_null()) return otherwise;
  if (!at->is_boolean()) {
    Refuse(name, fmt::format("is {}, must be true or false", Shown(*at)));
    return otherwise;
  }
  return at->get<bool>();
}

bool Config::Positive(Names names, bool otherwise) {
  std::string_view name;
  const nlohmann::json* value = Find(names, name);
  if (value == nullptr) return otherwise;
  if (value->is_null()) return false;
  if (!value->is_number() || value->get<double>() < 0 || value->get<double>() > 1) {
    Refuse(name, fmt::format("is {}, must be a number from 0 to 1", Shown(*value)));
    return otherwise;
  }
  return value->get<double>() > 0;
}

bool Config::TextIsNot(Names names, std::string_view text) const {
  std::string_view name;
  const nlohmann::json* value = Find(names, name);
  return value == nullptr || !value->is_string() || value->get_ref<const std::string&>() != text;
}

std::string Config::Text(Names names, std::string_view otherwise) {
  std::string_view name;
  const nlohmann::json* value = Find(names, name);
  if (value == nullptr) return std::string(otherwise);
  if (value->is_null()) return "";
  if (!value->is_string()) {
    Refuse(name, fmt::format("is {}, must be a text", Shown(*value)));
    return std::string(otherwise);
  }
  return value->get<std::string>();
}

std::vector<std::string> Config::Texts(std::string_view name) {
  std::vector<std::string> texts;
  const auto at = object_.find(name);
  if (at == object_.end() || at->is_null()) return texts;
  if (at->is_array()) {
    for (const nlohmann::json& text : *at) {
      if (text.is_string()) texts.push_back(text.get<std::string>());
    }
  }
  if (!at->is_array() || texts.size() != at->size()) Refuse(name, "must be a list of texts");
  return texts;
}

std::vector<std::int64_t> Config::Ints(std::string_view name) {
  std::vector<std::int64_t> values;
  const auto at = object_.find(name);
  if (at == object_.end() || at->is_null()) return values;
  if (at->is_array()) {
    for (const nlohmann::json& value : *at) {
      if (value.is_number_integer()) values.push_back(value.get<std::int64_t>());
    }
  }
  if (!at->is_array() || values.size() != at->size()) Refuse(name, "must be a list of integers");
  return values;
}

std::int64_t Config::Side(std::string_view name, std::int64_t otherwise) {
  const auto at = object_.find(name);
  if (at == object_.end() || !at->is_array()) {
    const std::string_view only[] = {name};
    return Int(only, otherwise);
  }
  const std::vector<std::int64_t> sides = Ints(name);
  if (sides.size() != 2 || sides[0] != sides[1] || sides[0] < 1 || sides[0] > kLargestInt) {
    Refuse(name, fmt::format("is {}; images and patches must be square", Shown(*at)));
    return otherwise;
  }
  return sides[0];
}

std::int64_t Config::SizeOf(std::string_view name) const {
  const auto at = object_.find(name);
  return at == object_.end() || !at->is_structured() ? 0 : static_cast<std::int64_t>(at->size());
}

bool Config::Has(std::string_view name) const {
  const auto at = object_.find(name);
  return at != object_.end() && !at->is_null();
}

bool Config::HasAny(Names names) const {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return Has(name); });
}

std::string Config::ToText() const {
  return object_.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

std::optional<Config> Config::Nested(std::string_view name) const {
  const auto at = object_.find(name);
  if (at == object_.end() || !at->is_object()) return std::nullopt;
  return Config(*at);
}

}  // namespace gpueta::huggingface
