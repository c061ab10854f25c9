// Settings of a card that are restored whatever becomes of the process.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "calibration/control/card/card_settings.h"
#include "calibration/control/card/settings_journal.h"

namespace gpueta {

struct GuardOptions {
  std::string state_directory;  // of journals; empty: DefaultStateDirectory()
  std::string program;          // of the guard; empty: gpueta-card-guard beside this program
};

// Every setting's value is journalled before it is first changed. A guard, a
// process of its own, restores from the journal when this process ends without
// having done so, by SIGKILL too; what neither could do is done by
// ReplayStaleJournals at the next start. Used by one thread.
class GuardedCard {
 public:
  // Restores first what an earlier process left. Errors as OpenCardSettings and
  // SettingsJournal::OpenOf; FAILED_PRECONDITION when the guard does not start.
  static absl::StatusOr<std::unique_ptr<GuardedCard>> Open(const std::string& card_id, const GuardOptions& options);
  // Of a card that is open already.
  static absl::StatusOr<std::unique_ptr<GuardedCard>> Open(std::unique_ptr<CardSettings> card,
                                                           const GuardOptions& options);
  // Restores.
  ~GuardedCard();
  GuardedCard(const GuardedCard&) = delete;
  GuardedCard& operator=(const GuardedCard&) = delete;

  // Errors as CardSettings::Read and Write. A setting that the card refuses and that is
  // as it was leaves the journal as it was.
  absl::Status Set(const std::string& setting, const std::string& value);
  absl::Status Restore();

 private:
  GuardedCard(std::unique_ptr<CardSettings> card, SettingsJournal journal)
      : card_(std::move(card)), journal_(std::move(journal)) {}
  absl::Status StartGuard(const GuardOptions& options);

  std::unique_ptr<CardSettings> card_;
  SettingsJournal journal_;
  std::map<std::string, std::string> before_;  // of settings changed
  pid_t guard_ = -1;
  int alive_ = -1;  // the guard reads its end of this pipe until we are gone
};

// The guard's work: tells on `ready` that it watches, waits until every other
// process has closed the pipe `alive`, restores from the journal. All three are
// open descriptors.
absl::Status GuardCard(int alive, int ready, int journal);

}  // namespace gpueta
