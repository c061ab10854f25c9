// A running gpueta-server: from options to ports, and down again.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/clock.h"
#include "server/options.h"

namespace gpueta {

class Server {
 public:
  // Opens the store, loads profiles and models, and only then listens: whoever
  // gets a connection gets answers. Errors say which option to change.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, Clock clock);
  virtual ~Server() = default;

  // Where it listens, with the ports that were chosen; metrics: "off" if so.
  virtual const std::string& address() const = 0;
  virtual const std::string& metrics_address() const = 0;

  // Health says NOT_SERVING from now on; calls are still answered.
  virtual void StopServing() = 0;
  // Accepts no more calls, ends watches, waits for the others to finish and
  // cancels those that have not by then.
  virtual void Shutdown(std::chrono::duration<double> finish) = 0;
};

// Starts a server, prints its addresses as one line on standard output, and
// runs it until SIGTERM or SIGINT; a second signal cuts the draining short. To
// be called before any thread is started.
absl::Status RunServer(const ServerOptions& options);

}  // namespace gpueta
