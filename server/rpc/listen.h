// A gRPC server on an address, as gpueta's programs run it.
#pragma once

#include <grpcpp/server.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta {

struct ListeningServer {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // with the port that was chosen
};

// Health (all services SERVING), reflection and channelz come with it. Port 0
// takes a free port. UNAVAILABLE if nothing can listen there. The services must
// outlive the server.
absl::StatusOr<ListeningServer> Listen(const std::string& address, std::int64_t message_bytes,
                                       const std::vector<grpc::Service*>& services);

// Once for a process, before Listen: the health service, reflection and
// channelz; gRPC's own messages go to our log, at debug level.
void SetUpGrpc();

// Of every service with a name, and of the server as a whole.
void SetHealth(grpc::Server& server, bool serving);

}  // namespace gpueta
