#include "server/limits.h"

#include "absl/strings/cord.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr char kLimitPayload[] = "gpueta/limit";

}  // namespace

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

std::string LimitOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kLimitPayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace gpueta
