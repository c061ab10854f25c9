#include "server/limits.h"

#include <limits>

#include "absl/strings/cord.h"
#include "core/base/errors.h"
#include "core/profile/profile.h"

namespace gpueta {
namespace {

constexpr char kLimitPayload[] = "gpueta/limit";

// gRPC keeps sizes of messages in an int.
constexpr std::int64_t kLargestMessage = std::numeric_limits<int>::max();

std::int64_t LargestValue(std::string_view name) {
  if (name == "message_bytes") return kLargestMessage;
  if (name == "profile_bytes") return kMaxProfileBytes;
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace

absl::Status SetLimit(Limits& limits, std::string_view name, std::int64_t value) {
  std::string names;
  for (const LimitInfo& info : kLimits) {
    if (info.name != name) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", info.name);
      continue;
    }
    if (value < 1 || value > LargestValue(name)) {
      return InvalidArgument("limit {}: {} must be between 1 and {}", name, value, LargestValue(name));
    }
    limits.*info.member = value;
    return absl::OkStatus();
  }
  return InvalidArgument("there is no limit \"{}\"; there are {}", name, names);
}

absl::Status LimitError(std::string_view field, std::string_view limit, std::int64_t allowed, std::int64_t got) {
  const absl::Status about_field =
      FieldError(field, fmt::format("is {}, the limit \"{}\" of this server is {}", got, limit, allowed));
  absl::Status status = ResourceExhausted("{}", MessageOf(about_field));
  about_field.ForEachPayload(
      [&status](absl::string_view url, const absl::Cord& value) { status.SetPayload(url, value); });
  status.SetPayload(kLimitPayload, absl::Cord(std::string(limit)));
  return status;
}

absl::Status CheckLimit(std::string_view field, std::string_view limit, std::int64_t allowed, std::int64_t got) {
  return got <= allowed ? absl::OkStatus() : LimitError(field, limit, allowed, got);
}

absl::Status NamingLimit(absl::Status status, std::string_view limit) {
  status.SetPayload(kLimitPayload, absl::Cord(std::string(limit)));
  return status;
}

std::string LimitOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kLimitPayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace gpueta
