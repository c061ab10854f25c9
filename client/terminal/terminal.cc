#include "client/terminal/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "core/base/printable.h"

namespace gpueta::terminal {
namespace {

constexpr int kBarWidth = 30;
constexpr std::size_t kDefaultWidth = 200;  // of output that is no terminal

std::size_t TerminalWidth() {
  winsize size{};
  if (isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kDefaultWidth;
}

// Code points, which is what columns count for the text we print.
std::size_t WidthOf(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool StartsLikeNumber(const std::string& cell) {
  return !cell.empty() &&
         (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 || (cell[0] == '-' && cell.size() > 1));
}

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::Update(double share, std::string_view what) {
  if (terminal_) {
    const int full = static_cast<int>(share * kBarWidth);
    fmt::print(stderr, "\r\033[K[{}{}] {:3.0f}% {}", std::string(static_cast<std::size_t>(full), '#'),
               std::string(static_cast<std::size_t>(kBarWidth - full), ' '), share * 100, what);
    std::fflush(stderr);
    drawn_ = true;
  } else if (const int tenth = static_cast<int>(share * 10); tenth != last_tenth_) {
    fmt::print(stderr, "{:3.0f}% {}\n", share * 100, what);
    last_tenth_ = tenth;
  }
}

void TextTable::Add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = Printable(cell);
  rows_.push_back(std::move(row));
}

std::string TextTable::Render() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  std::vector<bool> numeric(rows_.front().size(), true);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      widths[c] = std::max(widths[c], WidthOf(rows_[r][c]));
      if (r > 0 && !rows_[r][c].empty() && !StartsLikeNumber(rows_[r][c])) numeric[c] = false;
    }
  }
  const std::size_t limit = TerminalWidth();
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - WidthOf(row[c]), ' ');
      line += numeric[c] ? padding + row[c] : row[c] + padding;
      if (c + 1 < row.size()) line += "  ";
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    std::size_t end = 0;
    for (std::size_t shown = 0; end < line.size() && shown < limit; ++end) {
      if ((line[end] & 0xC0) != 0x80) ++shown;
    }
    while (end < line.size() && (line[end] & 0xC0) == 0x80) ++end;
    out += line.substr(0, end) + "\n";
  }
  return out;
}

std::string FormatUs(double us) {
  // From where three digits would round to 1000 of the smaller unit.
  if (us >= 999.5e3) return fmt::format("{:.3g} s", us / 1e6);
  if (us >= 999.5) return fmt::format("{:.3g} ms", us / 1e3);
  return fmt::format("{:.3g} µs", us);
}

std::string FormatBytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string FormatPercent(double fraction) { return fmt::format("{:.1f}%", fraction * 100); }

}  // namespace gpueta::terminal
