// How a server is run.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "core/feedback/profile_policy.h"
#include "core/profile/profile.h"
#include "server/limits.h"
#include "server/logging.h"

namespace gpueta {

struct ServerOptions {
  // Address of the gRPC port; port 0 takes a free one. Loopback by default:
  // there is no authentication yet.
  std::string listen = "127.0.0.1:7410";
  // Address of the HTTP port with /metrics; "off": none.
  std::string metrics_listen = "127.0.0.1:7411";
  // Directory with *.profile files that are served, read-only; "off": none.
  std::string profiles = DefaultProfileDirectory();
  // Where published profiles and models are kept, see OpenStore.
  std::string store = "sqlite::memory:";
  // After SIGTERM: how long calls are still accepted while health says
  // NOT_SERVING, so that balancers notice, and how long running calls may take
  // to finish after that.
  double drain_seconds = 1;
  double finish_seconds = 10;
  // What happens when a profile in the shadow proves better.
  ProfilePolicy profile_policy = ProfilePolicy::kAuto;
  // Whether answers are corrected by what observations taught. Without, they
  // are still learnt, so that nothing is lost by switching back.
  bool corrections = true;
  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
  Limits limits;
};

// Overwrites what the text-format ServerConfig in `path` sets.
// INVALID_ARGUMENT naming file and line, or the field.
absl::Status ReadConfigFile(const std::string& path, ServerOptions& options);

// INVALID_ARGUMENT naming the option.
absl::Status SetLogFormat(const std::string& name, ServerOptions& options);
absl::Status SetProfilePolicy(const std::string& name, ServerOptions& options);
absl::Status SetCorrections(const std::string& text, ServerOptions& options);
absl::Status SetLogLevel(const std::string& name, ServerOptions& options);
absl::Status CheckOptions(const ServerOptions& options);

}  // namespace gpueta
