// Journals of card settings: any bytes give entries or one clear error, and what
// is read can be written again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "calibration/control/card/saved_settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto content = gpueta::ParseSettingsJournal(text);
  if (!content.ok()) {
    if (content.status().message().find("line ") == std::string_view::npos) std::abort();
    return 0;
  }
  if (!content->entries.empty() && content->card.empty()) std::abort();
  if (content->card.empty()) return 0;
  // Carriage returns are the one thing that is read and never written.
  if (text.find('\r') != std::string_view::npos) return 0;
  auto header = gpueta::JournalHeader(content->card);
  if (!header.ok()) std::abort();
  std::string written = *std::move(header);
  for (const gpueta::SavedSetting& entry : content->entries) {
    const auto line = gpueta::JournalLine(entry);
    if (!line.ok()) std::abort();
    written += *line;
  }
  const auto again = gpueta::ParseSettingsJournal(written);
  if (!again.ok() || again->entries != content->entries || again->card != content->card) std::abort();
  return 0;
}
