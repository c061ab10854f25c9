// absl::Status as gRPC sees it: canonical codes with google.rpc details.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace gpueta {

// With the details of server/status_details.h in the trailing metadata
// grpc-status-details-bin.
grpc::Status ToGrpc(const absl::Status& status);

// Code and message of a gRPC status; what its BadRequest or ErrorInfo details
// say stays behind.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace gpueta
