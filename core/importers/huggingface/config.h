// The fields of a config.json, typed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta::huggingface {

// The names a field goes by; the first one that the config has counts.
using Names = std::span<const std::string_view>;

// Reads fields of a JSON object. The first wrong one is remembered; later reads
// go on, with the values that stand for missing fields. INVALID_ARGUMENT,
// naming the field.
class Config {
 public:
  // INVALID_ARGUMENT for text that is no JSON object, RESOURCE_EXHAUSTED past
  // 16 MB.
  static absl::StatusOr<Config> Parse(std::string_view json);

  // An integer from 1 to 2^28. `otherwise` where the field is missing; 0 there
  // means it must be given.
  std::int64_t Int(Names names, std::int64_t otherwise);
  // As Int, but null and 0 are 0: none of it. So may `otherwise` be.
  std::int64_t IntOrNone(Names names, std::int64_t otherwise);
  // A floating-point number, rounded down after `times` was multiplied in.
  std::int64_t Scaled(std::string_view name, double otherwise, std::int64_t times);
  bool Flag(std::string_view name, bool otherwise);
  // Whether a probability is above 0.
  bool Positive(Names names, bool otherwise);
  // Whether the field is anything but this text.
  bool TextIsNot(Names names, std::string_view text) const;
  // Empty for null.
  std::string Text(Names names, std::string_view otherwise);
  // Empty where the field is missing or null.
  std::vector<std::string> Texts(std::string_view name);
  std::vector<std::int64_t> Ints(std::string_view name);
  // Of an integer, or the first of a pair of equal ones.
  std::int64_t Side(std::string_view name, std::int64_t otherwise);
  // Elements of an array or object; 0 where the field is missing.
  std::int64_t SizeOf(std::string_view name) const;

  bool Has(std::string_view name) const;
  bool HasAny(Names names) const;
  // The config nested in this field, e.g. text_config; nullopt if there is none.
  std::optional<Config> Nested(std::string_view name) const;

  // Its fields sorted by name, without spaces.
  std::string ToText() const;

  // The problem becomes that of the field, unless there was one before.
  void Refuse(std::string_view field, std::string problem);
  const absl::Status& status() const { return status_; }

 private:
  explicit Config(nlohmann::json object) : object_(std::move(object)) {}
  // The name that the config has, and its value; null value where it has none.
  const nlohmann::json* Find(Names names, std::string_view& found) const;

  nlohmann::json object_;
  absl::Status status_;
};

}  // namespace gpueta::huggingface
