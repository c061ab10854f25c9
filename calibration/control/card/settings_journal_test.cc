#include "calibration/control/card/settings_journal.h"

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

TEST(SettingsJournalTest, SaysWhatSettingsWere) {
  const SimulatedCard card;
  SettingsJournal journal = SettingsJournal::OpenOf(card.state(), card.id()).value();
  ASSERT_TRUE(journal.Append(card.id(), {"sm_clock_mhz", "1980"}).ok());
  ASSERT_TRUE(journal.Append(card.id(), {"memory_clock_mhz", "2619 MHz"}).ok());
  const SavedSettings content = journal.Read().value();
  EXPECT_EQ(content.card, card.id());
  EXPECT_THAT(content.entries,
              ElementsAre(SavedSetting{"sm_clock_mhz", "1980"}, SavedSetting{"memory_clock_mhz", "2619 MHz"}));
}

TEST(SettingsJournalTest, ALineThatWasCutShortIsLeftOut) {
  const SavedSettings content = ParseSettingsJournal("gpueta-card-settings 1\ncard files:/x\nwas a 1\nwas b 2").value();
  EXPECT_THAT(content.entries, ElementsAre(SavedSetting{"a", "1"}));
  for (const char* cut : {"", "gpueta-car", "gpueta-card-settings 1\n", "gpueta-card-settings 1\ncard files:"}) {
    const auto parsed = ParseSettingsJournal(cut);
    ASSERT_TRUE(parsed.ok()) << cut;
    EXPECT_THAT(parsed->entries, IsEmpty());
  }
}

TEST(SettingsJournalTest, NamesTheLineOfAnythingElse) {
  for (const auto& [text, line] : {std::pair{"no journal\n", "line 1"},
                                   {"gpueta-card-settings 2\n", "line 1"},
                                   {"gpueta-card-settings 1\nwas a 1\n", "line 2"},
                                   {"gpueta-card-settings 1\ncard \n", "line 2"},
                                   {"gpueta-card-settings 1\ncard x\nwas a\n", "line 3"},
                                   {"gpueta-card-settings 1\ncard x\nwas  1\n", "line 3"},
                                   {"gpueta-card-settings 1\ncard x\nis a 1\n", "line 3"}}) {
    EXPECT_THAT(MessageOf(ParseSettingsJournal(text).status()), HasSubstr(line)) << text;
  }
}

TEST(SettingsJournalTest, RestoresTheLastChangeFirstAndIsEmptyThen) {
  SimulatedCard card;
  SettingsJournal journal = SettingsJournal::OpenOf(card.state(), card.id()).value();
  // The same setting twice: what it was at first counts.
  ASSERT_TRUE(journal.Append(card.id(), {"sm_clock_mhz", "1980"}).ok());
  ASSERT_TRUE(journal.Append(card.id(), {"sm_clock_mhz", "1200"}).ok());
  card.Set("sm_clock_mhz", "600");
  ASSERT_TRUE(RestoreFrom(journal).ok());
  EXPECT_EQ(card.Get("sm_clock_mhz"), "1980");
  EXPECT_THAT(journal.Read()->entries, IsEmpty());
  EXPECT_EQ(std::filesystem::file_size(journal.path()), 0U);
}

TEST(SettingsJournalTest, StaysWhenTheCardCannotBeWrittenButRestoresTheRest) {
  SimulatedCard card;
  SettingsJournal journal = SettingsJournal::OpenOf(card.state(), card.id()).value();
  ASSERT_TRUE(journal.Append(card.id(), {"sm_clock_mhz", "1980"}).ok());
  ASSERT_TRUE(journal.Append(card.id(), {"gone", "1"}).ok());
  card.Set("sm_clock_mhz", "600");
  EXPECT_THAT(MessageOf(RestoreFrom(journal)), HasSubstr("gone"));
  EXPECT_EQ(card.Get("sm_clock_mhz"), "1980");
  EXPECT_EQ(journal.Read()->entries.size(), 2U);
}

TEST(SettingsJournalTest, HasOneOwnerAtATime) {
  const SimulatedCard card;
  const SettingsJournal journal = SettingsJournal::OpenOf(card.state(), card.id()).value();
  const auto second = SettingsJournal::OpenOf(card.state(), card.id());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(second.status()), HasSubstr("another process"));
}

TEST(SettingsJournalTest, RefusesWhatOthersCouldHaveWritten) {
  const SimulatedCard card;
  const std::string path = SettingsJournal::OpenOf(card.state(), card.id())->path();
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_THAT(MessageOf(SettingsJournal::Open(path).status()), HasSubstr("others than you"));
}

TEST(SettingsJournalTest, ReplaysWhatNobodyHolds) {
  SimulatedCard card;
  {
    SettingsJournal journal = SettingsJournal::OpenOf(card.state(), card.id()).value();
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

TEST(SettingsJournalTest, WhatCannotBeReadBackIsNotWritten) {
  const SimulatedCard card;
  SettingsJournal journal = SettingsJournal::OpenOf(card.state(), card.id()).value();
  for (const SavedSetting& entry : {SavedSetting{"two words", "1"}, {"", "1"}, {"a", "1\nwas b 2"}}) {
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
