// What people see: progress, tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpueta::terminal {

// A progress bar on stderr where that is a terminal, a line for every tenth of
// the work elsewhere.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void Update(double share, std::string_view what);

 private:
  bool terminal_;
  bool drawn_ = false;
  int last_tenth_ = -1;
};

// Columns of text; those whose cells are numbers are right-aligned.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  // Control characters in cells are spelt out (core/base/printable.h).
  void Add(std::vector<std::string> row);
  // Cut at the terminal's width.
  std::string Render() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A latency for people: "12.3 µs", "4.56 ms", "1.20 s".
std::string FormatUs(double us);
// "112 MiB".
std::string FormatBytes(double bytes);

std::string FormatPercent(double fraction);

}  // namespace gpueta::terminal
