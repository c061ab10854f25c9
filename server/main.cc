// gpueta-server: answers how long work takes on a device, over gRPC.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <optional>

#include "core/base/errors.h"
#include "server/options.h"
#include "server/server.h"

namespace gpueta {
namespace {

constexpr int kUsage = 2;

// What was given on the command line; the rest comes from --config or the
// defaults.
struct Flags {
  std::optional<std::string> config, listen, metrics_listen, profiles, store, profile_policy, corrections, log_format,
      log_level;
  std::optional<double> drain_seconds, finish_seconds;
  std::vector<std::string> limits;  // NAME=VALUE
};

std::string LimitHelp() {
  const Limits defaults;
  std::string help = "Sets a limit; may be repeated. The limits and their defaults:";
  for (const LimitInfo& info : kLimits)
    help += fmt::format("\n  {} ({}): {}", info.name, defaults.*info.member, info.meaning);
  return help;
}

void AddFlags(CLI::App& app, Flags& flags) {
  const ServerOptions defaults;
  app.set_version_flag("--version", "gpueta-server " GPUETA_VERSION);
  app.add_option("--listen", flags.listen,
                 "Address of the gRPC port; port 0 takes a free one [" + defaults.listen + "]")
      ->type_name("ADDR");
  app.add_option(
         "--metrics-listen", flags.metrics_listen,
         "Address that serves /metrics over HTTP; port 0 takes a free one, off: none [" + defaults.metrics_listen + "]")
      ->type_name("ADDR");
  app.add_option("--profiles", flags.profiles,
                 "Directory of *.profile files to serve, or off; published profiles win over them [the installed ones]")
      ->type_name("DIR");
  app.add_option("--store", flags.store,
                 "Where published profiles and models are kept: sqlite:PATH, or sqlite::memory: which forgets them [" +
                     defaults.store + "]")
      ->type_name("STORE");
  app.add_option("--config", flags.config,
                 "Text-format file with the same options (server/config.proto); flags win over it")
      ->type_name("FILE");
  app.add_option(
         "--drain-seconds", flags.drain_seconds,
         fmt::format("After SIGTERM: time to accept calls while health says NOT_SERVING [{}]", defaults.drain_seconds))
      ->type_name("S");
  app.add_option(
         "--finish-seconds", flags.finish_seconds,
         fmt::format("Then: time for running calls to finish before they are cancelled [{}]", defaults.finish_seconds))
      ->type_name("S");
  app.add_option(
         "--profile-policy", flags.profile_policy,
         "When a profile in the shadow proves better by observations: auto makes it active, manual does not [auto]")
      ->type_name("POLICY");
  app.add_option("--corrections", flags.corrections,
                 "Whether answers are corrected by what was observed: on or off, which still learns and reports [on]")
      ->type_name("on|off");
  app.add_option("--log-format", flags.log_format, "Format of the log on standard error: text or json [text]")
      ->type_name("FORMAT");
  app.add_option("--log-level", flags.log_level, "Least level logged: debug, info, warning or error [info]")
      ->type_name("LEVEL");
  app.add_option("--limit", flags.limits, LimitHelp())->type_name("NAME=VALUE")->allow_extra_args(false);
}

absl::Status ApplyLimitFlag(const std::string& text, Limits& limits) {
  const std::size_t equals = text.find('=');
  std::int64_t value = 0;
  const char* begin = text.data() + std::min(text.size(), equals == std::string::npos ? text.size() : equals + 1);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (equals == std::string::npos || error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("--limit {}: give NAME=VALUE with a whole number", text);
  }
  return Prefixed(SetLimit(limits, text.substr(0, equals), value), "--limit");
}

absl::StatusOr<ServerOptions> OptionsOf(const Flags& flags) {
  ServerOptions options;
  if (flags.config.has_value()) GPUETA_RETURN_IF_ERROR(ReadConfigFile(*flags.config, options));
  options.listen = flags.listen.value_or(options.listen);
  options.metrics_listen = flags.metrics_listen.value_or(options.metrics_listen);
  options.profiles = flags.profiles.value_or(options.profiles);
  options.store = flags.store.value_or(options.store);
  options.drain_seconds = flags.drain_seconds.value_or(options.drain_seconds);
  options.finish_seconds = flags.finish_seconds.value_or(options.finish_seconds);
  if (flags.profile_policy.has_value()) GPUETA_RETURN_IF_ERROR(SetProfilePolicy(*flags.profile_policy, options));
  if (flags.corrections.has_value()) GPUETA_RETURN_IF_ERROR(SetCorrections(*flags.corrections, options));
  if (flags.log_format.has_value()) GPUETA_RETURN_IF_ERROR(SetLogFormat(*flags.log_format, options));
  if (flags.log_level.has_value()) GPUETA_RETURN_IF_ERROR(SetLogLevel(*flags.log_level, options));
  for (const std::string& limit : flags.limits) GPUETA_RETURN_IF_ERROR(ApplyLimitFlag(limit, options.limits));
  GPUETA_RETURN_IF_ERROR(CheckOptions(options));
  return options;
}

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "gpueta-server: %s\n", MessageOf(status).c_str());
  return code;
}

int Main(int argc, char** argv) {
  CLI::App app("Answers how long work takes on a GPU, over gRPC.", "gpueta-server");
  Flags flags;
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::fprintf(stderr, "gpueta-server: %s; see --help\n", error.what());
    return kUsage;
  }
  const auto options = OptionsOf(flags);
  if (!options.ok()) return Fail(options.status(), kUsage);
  const absl::Status status = RunServer(*options);
  return status.ok() ? 0 : Fail(status, 1);
}

}  // namespace
}  // namespace gpueta

int main(int argc, char** argv) { return gpueta::Main(argc, argv); }
