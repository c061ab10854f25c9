#include "core/base/errors.h"

#include "absl/strings/cord.h"

namespace gpueta {
namespace {

constexpr char kFieldPayload[] = "gpueta/field";

absl::Status WithField(absl::StatusCode code, std::string_view field, std::string_view problem) {
  absl::Status status(code, fmt::format("{}: {}", field, problem));
  status.SetPayload(kFieldPayload, absl::Cord(std::string(field)));
  return status;
}

}  // namespace

absl::Status FieldError(std::string_view field, std::string_view problem) {
  return WithField(absl::StatusCode::kInvalidArgument, field, problem);
}

std::string FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

absl::Status InField(std::string_view parent, const absl::Status& status) {
  if (status.ok()) return status;
  const std::string field = FieldOf(status);
  const std::string message(status.message());
  if (field.empty()) return WithField(status.code(), parent, message);
  return WithField(status.code(), fmt::format("{}.{}", parent, field), message.substr(field.size() + 2));
}

}  // namespace gpueta
