#include "server/status_details.h"

#include <string>

#include "core/base/errors.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/limits.h"

namespace gpueta {
namespace {

constexpr char kErrorDomain[] = "gpueta";
constexpr char kLimitReason[] = "LIMIT_EXCEEDED";

// gRPC drops a status whose trailers pass 16 kB: texts that quote a caller's
// long input are cut, at a character of UTF-8.
std::string Shortened(std::string text) {
  constexpr std::size_t kLongest = 1500;
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

}  // namespace

void EncodeStatus(const absl::Status& status, google::rpc::Status& message) {
  message.Clear();
  if (status.ok()) return;
  message.set_code(static_cast<int>(status.code()));
  message.set_message(Shortened(MessageOf(status)));
  const std::string field = Shortened(FieldOf(status));
  const std::string limit = LimitOf(status);
  if (!field.empty()) {
    google::rpc::BadRequest bad_request;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(field);
    violation->set_description(message.message());
    message.add_details()->PackFrom(bad_request);
  }
  if (field.empty() || !limit.empty()) {
    google::rpc::ErrorInfo info;
    info.set_domain(kErrorDomain);
    info.set_reason(limit.empty() ? absl::StatusCodeToString(status.code()) : kLimitReason);
    if (!limit.empty()) (*info.mutable_metadata())["limit"] = limit;
    message.add_details()->PackFrom(info);
  }
}

}  // namespace gpueta
