// Settings that outlast the process that makes them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta {

// Of one card or machine. What Read returns, Write takes.
class CardSettings {
 public:
  virtual ~CardSettings() = default;
  // What OpenCardSettings opens it by, in another process too.
  virtual std::string id() const = 0;
  // NOT_FOUND for a setting that the card does not have.
  virtual absl::StatusOr<std::string> Read(std::string_view setting) const = 0;
  // FAILED_PRECONDITION, PERMISSION_DENIED or UNIMPLEMENTED when the system does not let
  // it be set; other errors where it may have been set nevertheless.
  virtual absl::Status Write(std::string_view setting, std::string_view value) = 0;
};

// "files:DIRECTORY": settings are files below a directory, as in sysfs; names
// are paths relative to it, without "..". "nvml:BUS": nvml_settings.h.
// INVALID_ARGUMENT for another id.
absl::StatusOr<std::unique_ptr<CardSettings>> OpenCardSettings(std::string_view id);
std::string FilesCardId(std::string_view directory);

}  // namespace gpueta
