// Structured logs on standard error: one event a line, as key=value pairs or
// as JSON. Safe to call from any thread.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

namespace gpueta {

enum class LogFormat { kText, kJson };
enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Before the first thread starts. Messages below `level` are dropped.
void SetUpLogging(LogFormat format, LogLevel level);

// One pair of an event. Values are text or numbers; text is quoted where
// needed.
struct LogField {
  LogField(std::string_view k, std::string_view text) : key(k), value(text) {}
  LogField(std::string_view k, const char* text) : key(k), value(text) {}
  LogField(std::string_view k, const std::string& text) : key(k), value(text) {}
  LogField(std::string_view k, double number) : key(k), value(fmt::format("{:.6g}", number)), is_number(true) {}
  template <std::integral Number>
  LogField(std::string_view k, Number number) : key(k), value(fmt::format("{}", number)), is_number(true) {}

  std::string_view key;
  std::string value;
  bool is_number = false;
};

// `event` says in a few fixed words what happened; what varies goes into the
// fields.
void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

// Whether Log would write anything: for callers whose fields cost something.
bool IsLogged(LogLevel level);

// The line's text without time and level.
std::string FormatEvent(LogFormat format, std::string_view event, std::initializer_list<LogField> fields);

}  // namespace gpueta
