// What a card's settings were, as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta {

struct SavedSetting {
  std::string setting;
  std::string value;  // before it was first changed

  friend bool operator==(const SavedSetting&, const SavedSetting&) = default;
};

struct SavedSettings {
  std::string card;  // as OpenCardSettings takes it; empty: an empty journal
  std::vector<SavedSetting> entries;
};

// Text lines: "gpueta-card-settings 1", "card ID", then "was SETTING VALUE" for
// each. A last line without its end is left out: its setting was not changed
// yet. INVALID_ARGUMENT naming the line for anything else.
absl::StatusOr<SavedSettings> ParseSettingsJournal(std::string_view text);

// The lines of a journal, each with its end: those a new one begins with, and that
// of a setting. INVALID_ARGUMENT for what could not be read back.
absl::StatusOr<std::string> JournalHeader(std::string_view card);
absl::StatusOr<std::string> JournalLine(const SavedSetting& setting);

}  // namespace gpueta
