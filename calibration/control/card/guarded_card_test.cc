#include "calibration/control/card/guarded_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "calibration/control/card/testing_simulated_card.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;
using testing_util::SimulatedCard;

GuardOptions OptionsOf(const SimulatedCard& card) {
  return {.state_directory = card.state(), .program = GPUETA_CARD_GUARD_BINARY};
}

TEST(GuardedCardTest, RestoresWhatItChanged) {
  const SimulatedCard card;
  {
    const auto guarded = GuardedCard::Open(card.id(), OptionsOf(card)).value();
    ASSERT_TRUE(guarded->Set("sm_clock_mhz", "1200").ok());
    ASSERT_TRUE(guarded->Set("sm_clock_mhz", "900").ok());
    EXPECT_EQ(card.Get("sm_clock_mhz"), "900");
    ASSERT_TRUE(guarded->Restore().ok());
    EXPECT_EQ(card.Get("sm_clock_mhz"), "1980");
    ASSERT_TRUE(guarded->Set("memory_clock_mhz", "405").ok());
  }
  EXPECT_EQ(card.Get("memory_clock_mhz"), "2619");
  EXPECT_EQ(ReplayStaleJournals(card.state()).value(), 0);
}

TEST(GuardedCardTest, ASettingIsJournalledBeforeItIsChanged) {
  const SimulatedCard card;
  const auto guarded = GuardedCard::Open(card.id(), OptionsOf(card)).value();
  // Cannot be changed: journalled all the same, since that came first.
  ASSERT_TRUE(guarded->Set("sm_clock_mhz", "1200").ok());
  std::ifstream journal(card.state() + "/" +
                        std::filesystem::directory_iterator(card.state())->path().filename().string());
  const std::string text((std::istreambuf_iterator<char>(journal)), {});
  EXPECT_THAT(text, HasSubstr("was sm_clock_mhz 1980\n"));
}

// The child is killed while it holds changed settings; its guard must put them
// back. A fork of this process, which has no threads.
TEST(GuardedCardTest, TheGuardRestoresWhenItsProcessIsKilled) {
  const SimulatedCard card;
  int changed[2];
  ASSERT_EQ(pipe(changed), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto guarded = GuardedCard::Open(card.id(), OptionsOf(card));
    const bool ok =
        guarded.ok() && (*guarded)->Set("memory_clock_mhz", "405").ok() && (*guarded)->Set("sm_clock_mhz", "600").ok();
    if (write(changed[1], ok ? "y" : "n", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char ok = 'n';
  ASSERT_EQ(read(changed[0], &ok, 1), 1);
  ASSERT_EQ(ok, 'y');
  ASSERT_EQ(card.Get("sm_clock_mhz"), "600");
  ASSERT_EQ(card.Get("memory_clock_mhz"), "405");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(changed[1]);
  // The guard holds the journal's lock until it is done: then it can be had.
  absl::StatusOr<SettingsJournal> journal = SettingsJournal::OpenOf(card.state(), card.id());
  for (int tries = 0; !journal.ok() && tries < 1'000'000; ++tries) {
    sched_yield();
    journal = SettingsJournal::OpenOf(card.state(), card.id());
  }
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ(card.Get("sm_clock_mhz"), "1980");
  EXPECT_EQ(card.Get("memory_clock_mhz"), "2619");
  EXPECT_TRUE(journal->Read()->entries.empty());
  close(changed[0]);
}

TEST(GuardedCardTest, OpeningRestoresWhatAnEarlierProcessLeft) {
  SimulatedCard card;
  {
    SettingsJournal left = SettingsJournal::OpenOf(card.state(), card.id()).value();
    ASSERT_TRUE(left.Append(card.id(), {"sm_clock_mhz", "1980"}).ok());
    card.Set("sm_clock_mhz", "600");
  }
  const auto guarded = GuardedCard::Open(card.id(), OptionsOf(card));
  ASSERT_TRUE(guarded.ok()) << guarded.status();
  EXPECT_EQ(card.Get("sm_clock_mhz"), "1980");
}

TEST(GuardedCardTest, WithoutAGuardNothingIsSet) {
  const SimulatedCard card;
  const auto guarded = GuardedCard::Open(card.id(), {.state_directory = card.state(), .program = "/does/not/exist"});
  EXPECT_EQ(guarded.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(guarded.status()), HasSubstr("/does/not/exist"));
}

TEST(GuardedCardTest, OneProcessControlsACard) {
  const SimulatedCard card;
  const auto first = GuardedCard::Open(card.id(), OptionsOf(card));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(GuardedCard::Open(card.id(), OptionsOf(card)).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace gpueta
