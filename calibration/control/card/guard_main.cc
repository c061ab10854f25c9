// gpueta-card-guard: restores settings of a card when the process that made
// them is gone. Started by GuardedCard, never by hand: standard input is a pipe
// that the process holds open, standard output one on which the guard says that
// it watches, descriptor 3 the locked journal.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "calibration/control/card/guarded_card.h"
#include "core/base/errors.h"

int main(int argc, char** /*argv*/) {
  constexpr int kJournal = 3;
  constexpr int kUsage = 2;
  if (argc != 1 || fcntl(kJournal, F_GETFD) < 0) {
    std::fputs("gpueta-card-guard is started by gpueta and gpueta-calibrate; it does nothing by itself\n", stderr);
    return kUsage;
  }
  const absl::Status status = gpueta::GuardCard(STDIN_FILENO, STDOUT_FILENO, kJournal);
  if (!status.ok()) fmt::print(stderr, "gpueta-card-guard: {}\n", gpueta::MessageOf(status));
  return status.ok() ? 0 : 1;
}
