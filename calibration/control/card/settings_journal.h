// What a card's settings were, on disk before they are changed.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/control/card/card_settings.h"
#include "calibration/control/card/saved_settings.h"

namespace gpueta {

// A journal file that this process holds the lock of. The lock lasts until this
// object and every copy of its descriptor in other processes are closed. Files
// stay, empty, when all is restored.
class SettingsJournal {
 public:
  // The journal of a card in `directory`, which is made if need be; opened by
  // path: whichever card it is of. FAILED_PRECONDITION if another process holds
  // it, or if others than its owner may write to it (what it says is written to
  // the card); UNAVAILABLE if it cannot be read or made.
  static absl::StatusOr<SettingsJournal> OpenOf(const std::string& directory, std::string_view card);
  static absl::StatusOr<SettingsJournal> Open(const std::string& path);
  // Takes over a descriptor that an ancestor opened and locked.
  static SettingsJournal Adopt(int file) { return SettingsJournal(file, ""); }
  ~SettingsJournal();
  SettingsJournal(SettingsJournal&& other) noexcept;
  SettingsJournal& operator=(SettingsJournal&& other) noexcept;

  absl::StatusOr<SavedSettings> Read() const;
  // On disk when it returns OK. The first entry also says which card.
  absl::Status Append(std::string_view card, const SavedSetting& entry);
  // Makes it what it was before the last Append of this object, which nothing may follow.
  absl::Status Withdraw();
  // Empties it.
  absl::Status Clear();

  int file() const { return file_; }
  const std::string& path() const { return path_; }

 private:
  SettingsJournal(int file, std::string path) : file_(file), path_(std::move(path)) {}
  // To `bytes`, on disk when it returns OK.
  absl::Status CutTo(off_t bytes);

  int file_ = -1;
  off_t bytes_before_ = 0;  // the last Append
  std::string path_;
};

// Writes back what the journal says, the last change first, and clears it.
// An empty journal: nothing to do. The first error of the card; other settings
// are written back nevertheless, and the journal stays.
absl::Status RestoreFrom(SettingsJournal& journal, CardSettings& card);
// The same on the card that the journal names.
absl::Status RestoreFrom(SettingsJournal& journal);

// Restores from every journal in `directory` that no process holds: what a
// worker left that was killed together with its guard. Returns how many had
// something to restore. No such directory: 0.
absl::StatusOr<int> ReplayStaleJournals(const std::string& directory);

// GPUETA_STATE; else /var/lib/gpueta for root, XDG_STATE_HOME/gpueta or
// ~/.local/state/gpueta for others.
std::string DefaultStateDirectory();

}  // namespace gpueta
