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

// A card whose settings fail in a chosen way, with effect or without.
class Stubborn : public CardSettings {
 public:
  std::string id() const override { return "files:/nowhere"; }
  absl::StatusOr<std::string> Read(std::string_view) const override { return value; }
  absl::Status Write(std::string_view, std::string_view wanted) override {
    if (takes_effect) value = wanted;
    return absl::Status(code, "stubborn");
  }

  std::string value = "1980";
  absl::StatusCode code = absl::StatusCode::kPermissionDenied;
  bool takes_effect = false;
};

absl::StatusOr<SavedSettings> JournalIn(const SimulatedCard& place) {
  std::ifstream file(std::filesystem::directory_iterator(place.state())->path());
  return ParseSettingsJournal(std::string((std::istreambuf_iterator<char>(file)), {}));
}

TEST(GuardedCardTest, OnlyARefusalWithoutEffectLeavesNothingToRestore) {
  struct Case {
    absl::StatusCode code;
    bool takes_effect;
    std::size_t left;
  };
  for (const auto& [code, takes_effect, left] : {Case{absl::StatusCode::kPermissionDenied, false, 0},
                                                 {absl::StatusCode::kUnimplemented, false, 0},
                                                 {absl::StatusCode::kFailedPrecondition, false, 0},
                                                 {absl::StatusCode::kPermissionDenied, true, 1},
                                                 {absl::StatusCode::kInternal, false, 1}}) {
    const SimulatedCard place;
    auto card = std::make_unique<Stubborn>();
    Stubborn& stubborn = *card;
    const auto guarded = GuardedCard::Open(std::move(card), OptionsOf(place)).value();
    stubborn.code = code;
    stubborn.takes_effect = takes_effect;
    EXPECT_EQ(guarded->Set("sm_clock_mhz", "900").code(), code);
    EXPECT_EQ(JournalIn(place)->entries.size(), left) << absl::StatusCodeToString(code);
    stubborn.code = absl::StatusCode::kOk;
    EXPECT_EQ(guarded->Restore(), absl::OkStatus());
  }
}

TEST(GuardedCardTest, ARefusedSettingLeavesTheEntriesOfOthers) {
  const SimulatedCard place;
  auto card = std::make_unique<Stubborn>();
  Stubborn& stubborn = *card;
  const auto guarded = GuardedCard::Open(std::move(card), OptionsOf(place)).value();
  stubborn.code = absl::StatusCode::kOk;
  ASSERT_TRUE(guarded->Set("sm_clock_mhz", "900").ok());
  stubborn.code = absl::StatusCode::kUnimplemented;
  EXPECT_FALSE(guarded->Set("memory_clock_mhz", "405").ok());
  EXPECT_THAT(JournalIn(place)->entries, ::testing::ElementsAre(SavedSetting{"sm_clock_mhz", "1980"}));
  stubborn.code = absl::StatusCode::kOk;
  EXPECT_EQ(guarded->Restore(), absl::OkStatus());
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
