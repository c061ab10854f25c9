#include "server/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace gpueta {
namespace {

LogFormat global_format = LogFormat::kText;

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: break;
  }
  return spdlog::level::err;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

bool IsPlain(std::string_view text) {
  return !text.empty() && text.find_first_of("\" =\\\n\t\r") == std::string_view::npos;
}

}  // namespace

void SetUpLogging(LogFormat format, LogLevel level) {
  global_format = format;
  auto logger = spdlog::stderr_logger_mt("gpueta");
  logger->set_level(LevelOf(level));
  logger->set_pattern(format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                                                 : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                      spdlog::pattern_time_type::utc);
  spdlog::set_default_logger(std::move(logger));
}

std::string FormatEvent(LogFormat format, std::string_view event, std::initializer_list<LogField> fields) {
  std::string line;
  if (format == LogFormat::kJson) {
    line = fmt::format("\"event\":{}", Quoted(event));
    for (const LogField& f : fields)
      line += fmt::format(",{}:{}", Quoted(f.key), f.is_number ? f.value : Quoted(f.value));
    return line;
  }
  line = event;
  for (const LogField& f : fields) line += fmt::format(" {}={}", f.key, IsPlain(f.value) ? f.value : Quoted(f.value));
  return line;
}

bool IsLogged(LogLevel level) { return spdlog::default_logger_raw()->should_log(LevelOf(level)); }

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (IsLogged(level)) spdlog::default_logger_raw()->log(LevelOf(level), FormatEvent(global_format, event, fields));
}

}  // namespace gpueta
