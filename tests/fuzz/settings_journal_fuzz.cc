// Journals of card settings: any bytes give entries or one clear error, and what
// is read can be written again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "calibration/control/card/settings_journal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto content = gpueta::ParseSettingsJournal(text);
  if (!content.ok()) {
    if (content.status().message().find("line ") == std::string_view::npos) std::abort();
    return 0;
  }
  if (!content->entries.empty() && content->card.empty()) std::abort();
  std::string written = "gpueta-card-settings 1\ncard " + content->card + "\n";
  for (const gpueta::SavedSetting& entry : content->entries) {
    if (entry.setting.empty() || entry.setting.find(' ') != std::string::npos) std::abort();
    written += "was " + entry.setting + " " + entry.value + "\n";
  }
  if (content->card.empty()) return 0;
  const auto again = gpueta::ParseSettingsJournal(written);
  if (!again.ok() || again->entries != content->entries || again->card != content->card) std::abort();
  return 0;
}
