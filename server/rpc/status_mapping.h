// absl::Status as gRPC sees it: canonical codes with google.rpc details.
#pragma once

#include <grpcpp/support/status.h>

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

// The same with the details in the trailing metadata grpc-status-details-bin.
grpc::Status ToGrpc(const absl::Status& status);

// Code and message of a gRPC status; what its BadRequest or ErrorInfo details
// say stays behind.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace gpueta
