#include "calibration/control/card/card_settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "calibration/control/card/nvml_settings.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"

namespace gpueta {
namespace {

constexpr std::string_view kFiles = "files:";
constexpr std::string_view kNvml = "nvml:";

class FilesCard : public CardSettings {
 public:
  explicit FilesCard(std::string directory) : directory_(std::move(directory)) {}

  std::string id() const override { return FilesCardId(directory_); }

  absl::StatusOr<std::string> Read(std::string_view setting) const override {
    GPUETA_ASSIGN_OR_RETURN(const std::string path, PathOf(setting));
    GPUETA_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
    return std::string(absl::StripAsciiWhitespace(text));
  }

  // In place: a setting's file is the system's own.
  absl::Status Write(std::string_view setting, std::string_view value) override {
    GPUETA_ASSIGN_OR_RETURN(const std::string path, PathOf(setting));
    const int file = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (file < 0) return FailedPrecondition("{}: cannot be set: {}", path, std::strerror(errno));
    const std::string line = std::string(value) + "\n";
    const bool written = write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    const int error = errno;
    const bool closed = close(file) == 0;
    if (!written || !closed) {
      return FailedPrecondition("{}: cannot be set to {}: {}", path, value, std::strerror(written ? errno : error));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::string> PathOf(std::string_view setting) const {
    for (const std::string& part : std::vector<std::string>(absl::StrSplit(std::string(setting), '/'))) {
      if (part.empty() || part == "." || part == "..") {
        return InvalidArgument("setting \"{}\": is no path below {}", setting, directory_);
      }
    }
    return directory_ + "/" + std::string(setting);
  }

  std::string directory_;
};

}  // namespace

std::string FilesCardId(std::string_view directory) { return std::string(kFiles) + std::string(directory); }

absl::StatusOr<std::unique_ptr<CardSettings>> OpenCardSettings(std::string_view id) {
  if (id.starts_with(kFiles) && id.size() > kFiles.size()) {
    return std::make_unique<FilesCard>(std::string(id.substr(kFiles.size())));
  }
  if (id.starts_with(kNvml)) return OpenNvmlSettings(std::string(id.substr(kNvml.size())));
  return InvalidArgument("card \"{}\": expected files:DIRECTORY or nvml:BUS", id);
}

}  // namespace gpueta
