#include "server/rpc/status_mapping.h"

#include "google/rpc/status.pb.h"
#include "server/status_details.h"

namespace gpueta {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  EncodeStatus(status, details);
  return {static_cast<grpc::StatusCode>(status.code()), details.message(), details.SerializeAsString()};
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace gpueta
