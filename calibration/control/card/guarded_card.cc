#include "calibration/control/card/guarded_card.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;
  }
  ~Pipe() {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  bool ok() const { return ends_[0] >= 0; }
  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }
  void CloseWriting() { close(TakeWriting()); }
  int TakeWriting() { return std::exchange(ends_[1], -1); }

 private:
  int ends_[2];
};

std::string ProgramBeside() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "gpueta-card-guard";
}

// Of a write that was not let through, as opposed to one that failed on its way.
bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status) || absl::IsUnimplemented(status);
}

// Until a byte comes, or the end.
bool ReadByte(int file) {
  char byte = 0;
  ssize_t got = 0;
  do got = read(file, &byte, 1);
  while (got < 0 && errno == EINTR);
  return got == 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuardedCard>> GuardedCard::Open(const std::string& card_id,
                                                               const GuardOptions& options) {
  GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<CardSettings> card, OpenCardSettings(card_id));
  return Open(std::move(card), options);
}

absl::StatusOr<std::unique_ptr<GuardedCard>> GuardedCard::Open(std::unique_ptr<CardSettings> card,
                                                               const GuardOptions& options) {
  const std::string directory = options.state_directory.empty() ? DefaultStateDirectory() : options.state_directory;
  GPUETA_ASSIGN_OR_RETURN(SettingsJournal journal, SettingsJournal::OpenOf(directory, card->id()));
  GPUETA_RETURN_IF_ERROR(RestoreFrom(journal, *card));
  std::unique_ptr<GuardedCard> guarded(new GuardedCard(std::move(card), std::move(journal)));
  GPUETA_RETURN_IF_ERROR(guarded->StartGuard(options));
  return guarded;
}

// The guard is a program of its own: a fork of a process with threads could do
// little more than end. It lives in a session of its own, so that what ends
// this one from a terminal does not end it.
absl::Status GuardedCard::StartGuard(const GuardOptions& options) {
  const std::string program = options.program.empty() ? ProgramBeside() : options.program;
  Pipe alive;
  Pipe ready;
  if (!alive.ok() || !ready.ok()) return FailedPrecondition("card settings: no pipes left: {}", std::strerror(errno));
  constexpr int kJournal = 3;
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  // Through high numbers, so that none is overwritten before it is passed on.
  constexpr int kHigh = 100;
  posix_spawn_file_actions_adddup2(&files, alive.reading(), kHigh);
  posix_spawn_file_actions_adddup2(&files, ready.writing(), kHigh + 1);
  posix_spawn_file_actions_adddup2(&files, journal_.file(), kHigh + 2);
  posix_spawn_file_actions_adddup2(&files, kHigh, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, kHigh + 1, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, kHigh + 2, kJournal);
  for (const int file : {kHigh, kHigh + 1, kHigh + 2}) posix_spawn_file_actions_addclose(&files, file);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::string name = program;
  char* arguments[] = {name.data(), nullptr};
  const int error = posix_spawn(&guard_, program.c_str(), &files, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    guard_ = -1;
    return FailedPrecondition("card settings: the guard {} cannot be started: {}", program, std::strerror(error));
  }
  ready.CloseWriting();
  alive_ = alive.TakeWriting();
  if (!ReadByte(ready.reading())) return FailedPrecondition("card settings: the guard {} did not come up", program);
  return absl::OkStatus();
}

GuardedCard::~GuardedCard() {
  // What fails here the guard tries again.
  Restore().IgnoreError();
  if (alive_ >= 0) close(alive_);
  if (guard_ > 0) {
    while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

absl::Status GuardedCard::Set(const std::string& setting, const std::string& value) {
  if (before_.contains(setting)) return card_->Write(setting, value);
  GPUETA_ASSIGN_OR_RETURN(const std::string before, card_->Read(setting));
  GPUETA_RETURN_IF_ERROR(journal_.Append(card_->id(), {setting, before}));
  absl::Status written = card_->Write(setting, value);
  // What cannot be set cannot be restored either: an entry of it would stay for ever.
  if (IsRefusal(written)) {
    const absl::StatusOr<std::string> after = card_->Read(setting);
    if (after.ok() && *after == before && journal_.Withdraw().ok()) return written;
  }
  before_.emplace(setting, before);
  return written;
}

absl::Status GuardedCard::Restore() {
  GPUETA_RETURN_IF_ERROR(RestoreFrom(journal_, *card_));
  before_.clear();
  return absl::OkStatus();
}

absl::Status GuardCard(int alive, int ready, int journal_file) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(signal, SIG_IGN);
  SettingsJournal journal = SettingsJournal::Adopt(journal_file);
  const char up = '.';
  if (write(ready, &up, 1) != 1) return FailedPrecondition("gone before it was guarded");
  close(ready);
  while (ReadByte(alive)) {
  }
  return RestoreFrom(journal);
}

}  // namespace gpueta
