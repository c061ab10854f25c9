// absl::Status as a message with google.rpc details.
#pragma once

#include "absl/status/status.h"

namespace google::rpc {
class Status;
}

namespace gpueta {

// Details of an error:
// - BadRequest with one field violation if the status names a field (FieldOf);
// - ErrorInfo otherwise, and for limits: domain "gpueta", the canonical code as
//   reason, or LIMIT_EXCEEDED with the limit's name under "limit".
// OK has none.
void EncodeStatus(const absl::Status& status, google::rpc::Status& message);

}  // namespace gpueta
