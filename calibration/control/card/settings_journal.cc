#include "calibration/control/card/settings_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::string_view kSuffix = ".journal";
constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // far above any real journal

std::string FileNameOf(std::string_view card) {
  std::string name(card);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return name + std::string(kSuffix);
}

absl::Status WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Unavailable("journal of card settings: cannot be written: {}", std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SettingsJournal> SettingsJournal::OpenOf(const std::string& directory, std::string_view card) {
  std::error_code error;
  if (!std::filesystem::exists(directory)) {
    std::filesystem::create_directories(directory, error);
    if (!error) std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
    if (error) return Unavailable("{}: cannot be made: {}", directory, error.message());
  }
  return Open(directory + "/" + FileNameOf(card));
}

absl::StatusOr<SettingsJournal> SettingsJournal::Open(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return Unavailable("{}: cannot be opened: {}", path, std::strerror(errno));
  SettingsJournal journal(file, path);
  struct stat status {};
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  if (fstat(file, &status) != 0 || status.st_uid != geteuid() || (status.st_mode & kOthersWrite) != 0) {
    return FailedPrecondition("{}: others than you may write to it; remove it", path);
  }
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    return FailedPrecondition("{}: another process controls this card, or is restoring it; try again when it has ended",
                              path);
  }
  return journal;
}

SettingsJournal::~SettingsJournal() {
  if (file_ >= 0) close(file_);
}

SettingsJournal::SettingsJournal(SettingsJournal&& other) noexcept
    : file_(std::exchange(other.file_, -1)), bytes_before_(other.bytes_before_), path_(std::move(other.path_)) {}

SettingsJournal& SettingsJournal::operator=(SettingsJournal&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(bytes_before_, other.bytes_before_);
  std::swap(path_, other.path_);
  return *this;
}

absl::StatusOr<SavedSettings> SettingsJournal::Read() const {
  std::string text;
  char block[4096];
  for (off_t at = 0;;) {
    const ssize_t got = pread(file_, block, sizeof block, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unavailable("{}: cannot be read: {}", path_, std::strerror(errno));
    if (got == 0) break;
    text.append(block, static_cast<std::size_t>(got));
    at += got;
    if (text.size() > kMostBytes) return InvalidArgument("{}: is too large to be a journal", path_);
  }
  return ParseSettingsJournal(text);
}

absl::Status SettingsJournal::Append(std::string_view card, const SavedSetting& entry) {
  struct stat status {};
  std::string text;
  if (fstat(file_, &status) != 0) return Unavailable("{}: cannot be looked at: {}", path_, std::strerror(errno));
  if (status.st_size == 0) {
    GPUETA_ASSIGN_OR_RETURN(text, JournalHeader(card));
  }
  GPUETA_ASSIGN_OR_RETURN(const std::string line, JournalLine(entry));
  bytes_before_ = status.st_size;
  GPUETA_RETURN_IF_ERROR(WriteAll(file_, text + line));
  if (fdatasync(file_) != 0) return Unavailable("{}: cannot be written: {}", path_, std::strerror(errno));
  return absl::OkStatus();
}

absl::Status SettingsJournal::Withdraw() { return CutTo(bytes_before_); }

absl::Status SettingsJournal::Clear() { return CutTo(0); }

absl::Status SettingsJournal::CutTo(off_t bytes) {
  if (ftruncate(file_, bytes) != 0 || fdatasync(file_) != 0) {
    return Unavailable("{}: cannot be cut to {} bytes: {}", path_, bytes, std::strerror(errno));
  }
  return absl::OkStatus();
}

absl::Status RestoreFrom(SettingsJournal& journal, CardSettings& card) {
  GPUETA_ASSIGN_OR_RETURN(const SavedSettings content, journal.Read());
  absl::Status first_error;
  for (auto entry = content.entries.rbegin(); entry != content.entries.rend(); ++entry) {
    first_error.Update(card.Write(entry->setting, entry->value));
  }
  return first_error.ok() ? journal.Clear() : first_error;
}

absl::Status RestoreFrom(SettingsJournal& journal) {
  GPUETA_ASSIGN_OR_RETURN(const SavedSettings content, journal.Read());
  if (content.entries.empty()) return journal.Clear();
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<CardSettings> card, OpenCardSettings(content.card));
  return RestoreFrom(journal, *card);
}

absl::StatusOr<int> ReplayStaleJournals(const std::string& directory) {
  int replayed = 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(directory, error)) {
    if (!file.path().native().ends_with(kSuffix)) continue;
    absl::StatusOr<SettingsJournal> journal = SettingsJournal::Open(file.path());
    if (absl::IsFailedPrecondition(journal.status())) continue;  // in use
    if (!journal.ok()) return journal.status();
    GPUETA_ASSIGN_OR_RETURN(const SavedSettings content, journal->Read());
    if (content.entries.empty()) continue;
    if (const absl::Status restored = RestoreFrom(*journal); !restored.ok()) {
      return Prefixed(restored, fmt::format("{}: settings of an earlier run", file.path().native()));
    }
    ++replayed;
  }
  return replayed;
}

std::string DefaultStateDirectory() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string state = variable("GPUETA_STATE"); !state.empty()) return state;
  if (geteuid() == 0) return "/var/lib/gpueta";
  if (const std::string state = variable("XDG_STATE_HOME"); !state.empty()) return state + "/gpueta";
  return variable("HOME") + "/.local/state/gpueta";
}

}  // namespace gpueta
