// JSON that a user wrote for gpueta, read strictly. Kept to .cc files: the
// JSON library is slow to compile. (Configs of models are not ours and read
// leniently: core/importers/huggingface/config.h.)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/errors.h"

namespace gpueta {

// INVALID_ARGUMENT for text that is no JSON, naming line and column;
// RESOURCE_EXHAUSTED past `most_bytes`. What is nested deeper than 64 is left
// out. Never throws.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::size_t most_bytes);

// The value as short text, for messages.
std::string Shown(const nlohmann::json& value);

// Typed fields of one JSON object. The first wrong one is the error, and so is
// one that nobody asked for; null is a missing field. Errors are
// INVALID_ARGUMENT naming the field; reading on after one is harmless.
class JsonFields {
 public:
  explicit JsonFields(const nlohmann::json& object);

  // Whether it is there; it counts as asked for.
  bool Has(const char* name);
  // Leaves the value as it is where the field is missing.
  void Read(const char* name, std::int64_t& value);
  void Read(const char* name, double& value, double unit = 1);  // times the unit
  void Read(const char* name, std::string& value);
  void Read(const char* name, bool& value);
  void Require(const char* name);
  // A list or an object, read by its own function.
  template <class ReadIt>
  void With(const char* name, const ReadIt& read) {
    if (!Has(name) || !error_.ok()) return;
    error_ = InField(name, read(object_[name]));
  }
  template <class ReadOne>
  void Each(const char* name, std::size_t most, const ReadOne& read) {
    if (!Has(name) || !error_.ok()) return;
    const nlohmann::json& list = object_[name];
    if (!list.is_array()) return Fail(name, "must be a list");
    if (list.size() > most) return Fail(name, fmt::format("{} entries; {} are possible", list.size(), most));
    for (std::size_t i = 0; i < list.size() && error_.ok(); ++i) {
      error_ = InField(fmt::format("{}[{}]", name, i), read(list[i]));
    }
  }
  void Fail(const char* name, std::string_view problem);
  absl::Status Finish();
  // The same where others may be there.
  const absl::Status& status() const { return error_; }

 private:
  const nlohmann::json& object_;
  std::set<std::string, std::less<>> known_;
  absl::Status error_;
};

}  // namespace gpueta
