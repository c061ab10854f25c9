#include "core/base/whole_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "core/base/errors.h"

namespace gpueta {
namespace {

bool Write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.flush();
  return static_cast<bool>(out);
}

}  // namespace

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Unavailable("{}: is a directory", path);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const std::string reason = std::error_code(errno, std::generic_category()).message();
    return errno == ENOENT ? NotFound("{}: cannot be opened: {}", path, reason)
                           : Unavailable("{}: cannot be opened: {}", path, reason);
  }
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return std::move(bytes).str();
}

absl::Status WriteWholeFile(const std::string& path, std::string_view bytes) {
  const auto failed = [&] {
    return Unavailable("{}: cannot be written; check the directory and the space left", path);
  };
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return Write(path, bytes) ? absl::OkStatus() : failed();
  }
  // Through a link to what it points to, so that it stays a link.
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  if (error) return failed();
  std::filesystem::path temporary = target;
  temporary += ".part";
  if (!Write(temporary, bytes)) {
    std::filesystem::remove(temporary, error);
    return failed();
  }
  std::filesystem::rename(temporary, target, error);
  return error ? failed() : absl::OkStatus();
}

}  // namespace gpueta
