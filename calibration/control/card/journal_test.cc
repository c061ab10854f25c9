#include "calibration/control/card/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "calibration/control/card/card_settings.h"
#include "calibration/control/card/testing_simulated_card.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::SimulatedCard;

TEST(JournalTest, SaysWhatSettingsWere) {
  const SimulatedCard card;
  Journal journal = Journal::OpenOf(card.state(), card.id()).value();
  ASSERT_TRUE(journal.Append(card.id(), {"sm_clock_mhz", "1980"}).ok());
  ASSERT_TRUE(journal.Append(card.id(), {"memory_clock_mhz", "2619 MHz"}).ok());
  const JournalContent content = journal.Read().value();
  EXPECT_EQ(content.card, card.id());
  EXPECT_THAT(content.entries,
              ElementsAre(JournalEntry{"sm_clock_mhz", "1980"}, JournalEntry{"memory_clock_mhz", "2619 MHz"}));
}

TEST(JournalTest, ALineThatWasCutShortIsLeftOut) {
  const JournalContent content = ParseJournal("gpueta-card-settings 1\ncard files:/x\nwas a 1\nwas b 2").value();
  EXPECT_THAT(content.entries, ElementsAre(JournalEntry{"a", "1"}));
  for (const char* cut : {"", "gpueta-car", "gpueta-card-settings 1\n", "gpueta-card-settings 1\ncard files:"}) {
    const auto parsed = ParseJournal(cut);
    ASSERT_TRUE(parsed.ok()) << cut;
    EXPECT_THAT(parsed->entries, IsEmpty());
  }
}

TEST(JournalTest, NamesTheLineOfAnythingElse) {
  for (const auto& [text, line] : {std::pair{"no journal\n", "line 1"},
                                   {"gpueta-card-settings 2\n", "line 1"},
                                   {"gpueta-card-settings 1\nwas a 1\n", "line 2"},
                                   {"gpueta-card-settings 1\ncard \n", "line 2"},
                                   {"gpueta-card-settings 1\ncard x\nwas a\n", "line 3"},
                                   {"gpueta-card-settings 1\ncard x\nwas  1\n", "line 3"},
                                   {"gpueta-card-settings 1\ncard x\nis a 1\n", "line 3"}}) {
    EXPECT_THAT(MessageOf(ParseJournal(text).status()), HasSubstr(line)) << text;
  }
}

TEST(JournalTest, RestoresTheLastChangeFirstAndIsEmptyThen) {
  SimulatedCard card;
  Journal journal = Journal::OpenOf(card.state(), card.id()).value();
  // The same setting twice: what it was at first counts.
  ASSERT_TRUE(journal.Append(card.id(), {"sm_clock_mhz", "1980"}).ok());
  ASSERT_TRUE(journal.Append(card.id(), {"sm_clock_mhz", "1200"}).ok());
  card.Set("sm_clock_mhz", "600");
  ASSERT_TRUE(RestoreFrom(journal).ok());
  EXPECT_EQ(card.Get("sm_clock_mhz"), "1980");
  EXPECT_THAT(journal.Read()->entries, IsEmpty());
  EXPECT_EQ(std::filesystem::file_size(journal.path()), 0U);
}

TEST(JournalTest, StaysWhenTheCardCannotBeWrittenButRestoresTheRest) {
  SimulatedCard card;
  Journal journal = Journal::OpenOf(card.state(), card.id()).value();
  ASSERT_TRUE(journal.Append(card.id(), {"sm_clock_mhz", "1980"}).ok());
  ASSERT_TRUE(journal.Append(card.id(), {"gone", "1"}).ok());
  card.Set("sm_clock_mhz", "600");
  EXPECT_THAT(MessageOf(RestoreFrom(journal)), HasSubstr("gone"));
  EXPECT_EQ(card.Get("sm_clock_mhz"), "1980");
  EXPECT_EQ(journal.Read()->entries.size(), 2U);
}

TEST(JournalTest, HasOneOwnerAtATime) {
  const SimulatedCard card;
  const Journal journal = Journal::OpenOf(card.state(), card.id()).value();
  const auto second = Journal::OpenOf(card.state(), card.id());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(second.status()), HasSubstr("another process"));
}

TEST(JournalTest, RefusesWhatOthersCouldHaveWritten) {
  const SimulatedCard card;
  const std::string path = Journal::OpenOf(card.state(), card.id())->path();
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_THAT(MessageOf(Journal::Open(path).status()), HasSubstr("others than you"));
}

TEST(JournalTest, ReplaysWhatNobodyHolds) {
  SimulatedCard card;
  {
    Journal journal = Journal::OpenOf(card.state(), card.id()).value();
    ASSERT_TRUE(journal.Append(card.id(), {"sm_clock_mhz", "1980"}).ok());
    card.Set("sm_clock_mhz", "600");
    EXPECT_EQ(ReplayStaleJournals(card.state()).value(), 0);  // held
    EXPECT_EQ(card.Get("sm_clock_mhz"), "600");
  }
  EXPECT_EQ(ReplayStaleJournals(card.state()).value(), 1);
  EXPECT_EQ(card.Get("sm_clock_mhz"), "1980");
  EXPECT_EQ(ReplayStaleJournals(card.state()).value(), 0);
  EXPECT_EQ(ReplayStaleJournals(card.state() + "/none").value(), 0);
}

TEST(JournalTest, WhatCannotBeReadBackIsNotWritten) {
  const SimulatedCard card;
  Journal journal = Journal::OpenOf(card.state(), card.id()).value();
  for (const JournalEntry& entry : {JournalEntry{"two words", "1"}, {"", "1"}, {"a", "1\nwas b 2"}}) {
    EXPECT_EQ(journal.Append(card.id(), entry).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(CardSettingsTest, SettingsStayBelowTheirDirectory) {
  const SimulatedCard simulated;
  const auto card = OpenCardSettings(simulated.id()).value();
  EXPECT_EQ(card->Read("sm_clock_mhz").value(), "1980");
  for (const char* outside : {"../x", "/etc/hostname", "a/../../x", "", "."}) {
    EXPECT_EQ(card->Read(outside).status().code(), absl::StatusCode::kInvalidArgument) << outside;
    EXPECT_EQ(card->Write(outside, "1").code(), absl::StatusCode::kInvalidArgument) << outside;
  }
  EXPECT_EQ(card->Read("none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(card->Write("none", "1").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OpenCardSettings("tape:0").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpueta
