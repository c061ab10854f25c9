#include "calibration/control/card/saved_settings.h"

#include "core/base/csv.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::string_view kHeader = "gpueta-card-settings 1";
constexpr std::string_view kCard = "card ";
constexpr std::string_view kWas = "was ";

bool IsOneLine(std::string_view text) { return text.find_first_of("\n\r", 0) == std::string_view::npos; }

}  // namespace

absl::StatusOr<SavedSettings> ParseSettingsJournal(std::string_view text) {
  SavedSettings content;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    std::string_view what = text.substr(0, end);
    text.remove_prefix(end + 1);
    const auto error = [&](std::string_view problem) {
      return InvalidArgument("journal of card settings: line {}: {} {}", line, Excerpt(what), problem);
    };
    if (line == 1) {
      if (what != kHeader) return error("is no header that this version knows");
    } else if (line == 2) {
      if (!what.starts_with(kCard) || what.size() == kCard.size()) return error("should name the card");
      content.card = what.substr(kCard.size());
    } else {
      if (!what.starts_with(kWas)) return error("should say what a setting was");
      const std::string_view rest = what.substr(kWas.size());
      const std::size_t space = rest.find(' ');
      if (space == std::string_view::npos || space == 0) return error("has no value");
      content.entries.push_back({std::string(rest.substr(0, space)), std::string(rest.substr(space + 1))});
    }
  }
  return content;
}

absl::StatusOr<std::string> JournalHeader(std::string_view card) {
  if (card.empty() || !IsOneLine(card)) return InvalidArgument("card {}: cannot be journalled", Excerpt(card));
  return fmt::format("{}\n{}{}\n", kHeader, kCard, card);
}

absl::StatusOr<std::string> JournalLine(const SavedSetting& setting) {
  if (setting.setting.empty() || setting.setting.find(' ') != std::string::npos || !IsOneLine(setting.setting) ||
      !IsOneLine(setting.value)) {
    return InvalidArgument("setting {}: its name or value cannot be journalled", Excerpt(setting.setting));
  }
  return fmt::format("{}{} {}\n", kWas, setting.setting, setting.value);
}

}  // namespace gpueta
