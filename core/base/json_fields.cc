#include "core/base/json_fields.h"

#include <cmath>

namespace gpueta {

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::size_t most_bytes) {
  constexpr int kDeepest = 64;
  const auto shallow = [](int depth, nlohmann::json::parse_event_t /*event*/, nlohmann::json& /*value*/) {
    return depth <= kDeepest;
  };
  if (text.size() > most_bytes) {
    return ResourceExhausted("{} bytes of JSON; at most {} are read", text.size(), most_bytes);
  }
  try {
    return nlohmann::json::parse(text, shallow);
  } catch (const nlohmann::json::exception& error) {
    return InvalidArgument("is no JSON: {}", error.what());
  }
}

std::string Shown(const nlohmann::json& value) {
  constexpr std::size_t kShown = 40;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "…";
  return text;
}

JsonFields::JsonFields(const nlohmann::json& object) : object_(object) {
  if (!object.is_object()) error_ = absl::InvalidArgumentError("must be a JSON object");
}

bool JsonFields::Has(const char* name) {
  known_.insert(name);
  return object_.is_object() && object_.contains(name) && !object_[name].is_null();
}

void JsonFields::Read(const char* name, std::int64_t& value) {
  if (!Has(name)) return;
  const nlohmann::json& field = object_[name];
  const double number = field.is_number() ? field.get<double>() : std::nan("");
  constexpr double kLargest = 9e15;  // whole numbers are exact up to here
  if (std::floor(number) != number || std::abs(number) > kLargest) {
    return Fail(name, fmt::format("is {}, must be an integer", Shown(field)));
  }
  value = static_cast<std::int64_t>(number);
}

void JsonFields::Read(const char* name, double& value, double unit) {
  if (!Has(name)) return;
  if (!object_[name].is_number()) return Fail(name, fmt::format("is {}, must be a number", Shown(object_[name])));
  value = object_[name].get<double>() * unit;
}

void JsonFields::Read(const char* name, std::string& value) {
  if (!Has(name)) return;
  if (!object_[name].is_string()) return Fail(name, fmt::format("is {}, must be a string", Shown(object_[name])));
  value = object_[name].get<std::string>();
}

void JsonFields::Read(const char* name, bool& value) {
  if (!Has(name)) return;
  if (!object_[name].is_boolean()) return Fail(name, fmt::format("is {}, must be true or false", Shown(object_[name])));
  value = object_[name].get<bool>();
}

void JsonFields::Require(const char* name) {
  if (!Has(name)) Fail(name, "is missing");
}

void JsonFields::Fail(const char* name, std::string_view problem) {
  if (error_.ok()) error_ = FieldError(name, problem);
}

absl::Status JsonFields::Finish() {
  if (!error_.ok()) return error_;
  for (const auto& [name, value] : object_.items()) {
    if (!known_.contains(name)) return FieldError(name.substr(0, 80), "is no field here");
  }
  return absl::OkStatus();
}

}  // namespace gpueta
