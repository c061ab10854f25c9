// Errors with formatted messages, and returning early on them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta {

// A caller's mistake; the message names the field or place and the remedy.
template <class... Args>
absl::Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
absl::Status NotFound(fmt::format_string<Args...> format, Args&&... args) {
  return absl::NotFoundError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
absl::Status FailedPrecondition(fmt::format_string<Args...> format, Args&&... args) {
  return absl::FailedPreconditionError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
absl::Status ResourceExhausted(fmt::format_string<Args...> format, Args&&... args) {
  return absl::ResourceExhaustedError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
absl::Status Unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return absl::UnavailableError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
absl::Status Internal(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InternalError(fmt::format(format, std::forward<Args>(args)...));
}

// INVALID_ARGUMENT about one field of the caller's input. The message is
// "field: problem"; the field travels with the status.
absl::Status FieldError(std::string_view field, std::string_view problem);

// The path of the field a FieldError is about, e.g. "kernels[3].gemm.k"; empty
// for other statuses.
std::string FieldOf(const absl::Status& status);

// The same error seen from the parent: its field is "parent.field", or
// "parent" if it named none. OK stays OK; codes are kept.
absl::Status InField(std::string_view parent, const absl::Status& status);

// The message as a std::string (absl::string_view is a type of its own here).
inline std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// The same code with "prefix: " before the message.
inline absl::Status Prefixed(const absl::Status& status, const std::string& prefix) {
  return status.ok() ? status : absl::Status(status.code(), prefix + ": " + MessageOf(status));
}

}  // namespace gpueta

#define GPUETA_CONCAT_INNER(a, b) a##b  // NOLINT(bugprone-macro-parentheses)
#define GPUETA_CONCAT(a, b) GPUETA_CONCAT_INNER(a, b)

// Returns the status of `expression` from the function unless it is OK.
#define GPUETA_RETURN_IF_ERROR(expression)                                                    \
  do {                                                                                        \
    if (absl::Status gpueta_status = (expression); !gpueta_status.ok()) return gpueta_status; \
  } while (false)

// Assigns the value of a StatusOr, or returns its status from the function.
// NOLINTBEGIN(bugprone-macro-parentheses): `declaration` is no expression.
#define GPUETA_ASSIGN_OR_RETURN(declaration, expression) \
  GPUETA_ASSIGN_OR_RETURN_IMPL(GPUETA_CONCAT(gpueta_statusor_, __LINE__), declaration, expression)
#define GPUETA_ASSIGN_OR_RETURN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                         \
  if (!temporary.ok()) return temporary.status();                        \
  declaration = *std::move(temporary)
// NOLINTEND(bugprone-macro-parentheses)
