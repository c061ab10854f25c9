#include "server/options.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <charconv>
#include <string_view>

#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "server/config.pb.h"

namespace gpueta {
namespace {

// Keeps the first error of a parse.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status ApplyLimits(const server::ServerConfig::Limits& message, Limits& limits) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const auto* field : fields) {
    GPUETA_RETURN_IF_ERROR(SetLimit(limits, field->name(), message.GetReflection()->GetInt64(message, field)));
  }
  return absl::OkStatus();
}

absl::Status Apply(const server::ServerConfig& config, ServerOptions& options) {
  if (config.has_listen()) options.listen = config.listen();
  if (config.has_metrics_listen()) options.metrics_listen = config.metrics_listen();
  if (config.has_profiles()) options.profiles = config.profiles();
  if (config.has_store()) options.store = config.store();
  if (config.has_drain_seconds()) options.drain_seconds = config.drain_seconds();
  if (config.has_finish_seconds()) options.finish_seconds = config.finish_seconds();
  if (config.has_profile_policy()) GPUETA_RETURN_IF_ERROR(SetProfilePolicy(config.profile_policy(), options));
  if (config.has_corrections()) GPUETA_RETURN_IF_ERROR(SetCorrections(config.corrections(), options));
  if (config.has_log_format()) GPUETA_RETURN_IF_ERROR(SetLogFormat(config.log_format(), options));
  if (config.has_log_level()) GPUETA_RETURN_IF_ERROR(SetLogLevel(config.log_level(), options));
  GPUETA_RETURN_IF_ERROR(ApplyLimits(config.limits(), options.limits));
  return CheckOptions(options);
}

// Longer waits than a day are mistakes of units.
absl::Status CheckSeconds(std::string_view name, double seconds) {
  constexpr double kLongest = 86400;
  return seconds >= 0 && seconds <= kLongest
             ? absl::OkStatus()
             : InvalidArgument("{}: {} must be between 0 and {} seconds", name, seconds, kLongest);
}

// HOST:PORT with a port of 16 bits; unix:PATH as it is.
absl::Status CheckAddress(std::string_view name, const std::string& address) {
  if (address.starts_with("unix:")) return absl::OkStatus();
  const std::size_t colon = address.rfind(':');
  int port = -1;
  if (colon != std::string::npos && colon > 0 && address.find_first_of("]:", colon + 1) == std::string::npos) {
    const char* end = address.data() + address.size();
    const auto [stop, error] = std::from_chars(address.data() + colon + 1, end, port);
    if (error != std::errc() || stop != end) port = -1;
  }
  constexpr int kMostPort = 65535;
  return port >= 0 && port <= kMostPort
             ? absl::OkStatus()
             : InvalidArgument("{}: \"{}\" must be HOST:PORT with a port up to {}", name, address, kMostPort);
}

}  // namespace

absl::Status ReadConfigFile(const std::string& path, ServerOptions& options) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return InvalidArgument("--config {}", MessageOf(text.status()));
  server::ServerConfig config;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(*text, &config)) return InvalidArgument("--config {}: {}", path, error.text());
  return Prefixed(Apply(config, options), fmt::format("--config {}", path));
}

absl::Status SetProfilePolicy(const std::string& name, ServerOptions& options) {
  if (name != "auto" && name != "manual") return InvalidArgument("profile_policy: \"{}\" is not auto or manual", name);
  options.profile_policy = name == "auto" ? ProfilePolicy::kAuto : ProfilePolicy::kManual;
  return absl::OkStatus();
}

absl::Status SetCorrections(const std::string& text, ServerOptions& options) {
  if (text != "on" && text != "off") return InvalidArgument("corrections: \"{}\" is not on or off", text);
  options.corrections = text == "on";
  return absl::OkStatus();
}

absl::Status SetLogFormat(const std::string& name, ServerOptions& options) {
  if (name == "text") {
    options.log_format = LogFormat::kText;
  } else if (name == "json") {
    options.log_format = LogFormat::kJson;
  } else {
    return InvalidArgument("log format \"{}\" must be text or json", name);
  }
  return absl::OkStatus();
}

absl::Status SetLogLevel(const std::string& name, ServerOptions& options) {
  static constexpr std::pair<std::string_view, LogLevel> kLevels[] = {{"debug", LogLevel::kDebug},
                                                                      {"info", LogLevel::kInfo},
                                                                      {"warning", LogLevel::kWarning},
                                                                      {"error", LogLevel::kError}};
  for (const auto& [known, level] : kLevels) {
    if (name != known) continue;
    options.log_level = level;
    return absl::OkStatus();
  }
  return InvalidArgument("log level \"{}\" must be debug, info, warning or error", name);
}

absl::Status CheckOptions(const ServerOptions& options) {
  GPUETA_RETURN_IF_ERROR(CheckSeconds("drain_seconds", options.drain_seconds));
  GPUETA_RETURN_IF_ERROR(CheckSeconds("finish_seconds", options.finish_seconds));
  if (options.listen.empty()) return InvalidArgument("listen: is empty; give an address such as 127.0.0.1:7410");
  if (options.metrics_listen.empty()) return InvalidArgument("metrics_listen: is empty; give an address, or off");
  GPUETA_RETURN_IF_ERROR(CheckAddress("listen", options.listen));
  if (options.metrics_listen != "off") GPUETA_RETURN_IF_ERROR(CheckAddress("metrics_listen", options.metrics_listen));
  return absl::OkStatus();
}

}  // namespace gpueta
