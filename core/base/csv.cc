#include "core/base/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// Room for a line of the largest legal length and as much again, so that a
// refill moves little.
constexpr std::size_t kBufferBytes = 2 * kMaxLineBytes;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool IsControl(unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7F; }

// Bytes of the UTF-8 sequence at the start of `text`; 0 if it is not valid
// (RFC 3629: no overlong forms, surrogates or values above U+10FFFF).
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned char { return i < text.size() ? text[i] : 0; };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool out_of_range = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
                            (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
  return out_of_range ? 0 : length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// What a line or cell holds that it must not; empty if nothing.
std::string ForbiddenIn(std::string_view text) {
  bool ascii = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (IsControl(byte)) return fmt::format("control character 0x{:02x}; is this a text file?", byte);
    ascii &= byte < 0x80;
  }
  if (!ascii && !IsUtf8(text)) return "invalid UTF-8; save the file as UTF-8";
  return "";
}

// from_chars over the whole of `text`; the problem if that fails.
template <class T>
std::string ParseAll(std::string_view text, std::string_view what, T& value) {
  if (text.empty()) return "is empty";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return fmt::format("{} is out of range", Excerpt(text));
  if (error != std::errc() || end != text.data() + text.size()) {
    return fmt::format("{} is not a {}", Excerpt(text), what);
  }
  return "";
}

}  // namespace

LineReader::LineReader(std::istream& in) : in_(&in), buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

bool LineReader::Refill() {
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  in_->read(buffer_.get() + end_, static_cast<std::streamsize>(kBufferBytes - end_));
  const auto bytes = static_cast<std::size_t>(in_->gcount());
  end_ += bytes;
  if (in_->bad()) status_ = Unavailable("cannot be read");
  return bytes > 0 && status_.ok();
}

std::optional<std::string_view> LineReader::Next() {
  if (!status_.ok()) return std::nullopt;
  std::size_t searched = 0;
  while (true) {
    const std::string_view rest(buffer_.get() + begin_, end_ - begin_);
    std::size_t length = rest.find('\n', searched);
    const bool ended = length == std::string_view::npos;
    if (ended && rest.size() <= kMaxLineBytes) {
      searched = rest.size();
      if (Refill()) continue;
      if (rest.empty() || !status_.ok()) return std::nullopt;
      length = rest.size();
    }
    ++line_;
    if (length > kMaxLineBytes) {
      status_ = InvalidArgument("line {} is longer than {} bytes", line_, kMaxLineBytes);
      return std::nullopt;
    }
    const std::string_view line(buffer_.get() + begin_, length);
    begin_ += std::min(length + 1, end_ - begin_);
    return line;
  }
}

absl::StatusOr<CsvReader> CsvReader::Open(std::istream& in, std::string_view file_name) {
  CsvReader csv(in, file_name);
  if (!csv.NextLine()) {
    if (!csv.status_.ok()) return csv.status_;
    return InvalidArgument("{}: is empty; the first line must name the columns", csv.file_name_);
  }
  csv.columns_.assign(csv.cells_.begin(), csv.cells_.end());
  return csv;
}

bool CsvReader::Fail(absl::Status status) {
  status_ = std::move(status);
  return false;
}

bool CsvReader::Next() {
  if (!NextLine()) return false;
  if (cells_.size() == columns_.size()) return true;
  return Fail(ErrorInRow(fmt::format("has {} cells, the header has {}", cells_.size(), columns_.size())));
}

// Reads and splits one line.
bool CsvReader::NextLine() {
  if (!status_.ok()) return false;
  std::optional<std::string_view> line = lines_.Next();
  if (!line) {
    if (!lines_.status().ok()) status_ = Prefixed(lines_.status(), file_name_);
    return false;
  }
  if (lines_.line() == 1 && line->starts_with(kByteOrderMark)) line->remove_prefix(kByteOrderMark.size());
  if (line->ends_with('\r')) line->remove_suffix(1);
  if (line->empty()) return Fail(ErrorInRow("is blank; remove the line"));
  if (const std::string problem = ForbiddenIn(*line); !problem.empty()) return Fail(ErrorInRow(problem));

  cells_.clear();
  if (line->find('"') != std::string_view::npos) return SplitQuoted(*line);
  std::size_t begin = 0;
  for (std::size_t comma; (comma = line->find(',', begin)) != std::string_view::npos; begin = comma + 1) {
    cells_.push_back(line->substr(begin, comma - begin));
  }
  cells_.push_back(line->substr(begin));
  return true;
}

bool CsvReader::SplitQuoted(std::string_view line) {
  unquoted_.clear();
  unquoted_.reserve(line.size());  // cells_ point into it: it must not move
  std::size_t at = 0;
  while (true) {
    if (at < line.size() && line[at] == '"') {
      const std::size_t start = unquoted_.size();
      for (++at;; ++at) {
        if (at >= line.size()) return Fail(ErrorInCell(cells_.size(), "the quote is not closed on this line"));
        if (line[at] == '"') {
          ++at;
          if (at >= line.size() || line[at] != '"') break;
        }
        unquoted_.push_back(line[at]);
      }
      cells_.push_back(std::string_view(unquoted_).substr(start));
      if (at < line.size() && line[at] != ',') {
        return Fail(ErrorInCell(cells_.size() - 1, "text after the closing quote; double quotes inside a cell"));
      }
    } else {
      const std::size_t end = std::min(line.find(',', at), line.size());
      const std::string_view cell = line.substr(at, end - at);
      if (cell.find('"') != std::string_view::npos) {
        return Fail(
            ErrorInCell(cells_.size(), "a quote inside an unquoted cell; put the cell in quotes and double it"));
      }
      cells_.push_back(cell);
      at = end;
    }
    if (at >= line.size()) return true;
    ++at;  // the comma
  }
}

absl::StatusOr<std::int64_t> CsvReader::Integer(std::size_t cell) const {
  std::int64_t value = 0;
  const std::string problem = ParseAll(cells_[cell], "whole number", value);
  if (!problem.empty()) return ErrorInCell(cell, problem);
  return value;
}

absl::StatusOr<double> CsvReader::Number(std::size_t cell) const {
  double value = 0;
  std::string problem = ParseAll(cells_[cell], "number", value);
  if (problem.empty() && !std::isfinite(value)) problem = fmt::format("{} is not finite", Excerpt(cells_[cell]));
  if (!problem.empty()) return ErrorInCell(cell, problem);
  return value;
}

absl::Status CsvReader::ErrorInRow(std::string_view problem) const {
  return InvalidArgument("{}:{}: {}", file_name_, line(), problem);
}

absl::Status CsvReader::ErrorInColumn(std::string_view column, std::string_view problem) const {
  return InvalidArgument("{}:{}:{}: {}", file_name_, line(), column, problem);
}

absl::Status CsvReader::ErrorInCell(std::size_t cell, std::string_view problem) const {
  return ErrorInColumn(cell < columns_.size() ? columns_[cell] : fmt::format("cell {}", cell + 1), problem);
}

absl::StatusOr<std::vector<std::size_t>> MatchColumns(const CsvReader& csv, std::span<const CsvColumn> known) {
  std::vector<std::size_t> indices;
  std::vector<bool> given(known.size(), false);
  for (const std::string& name : csv.columns()) {
    const auto match = std::ranges::find(known, name, &CsvColumn::name);
    if (match == known.end()) {
      std::string names;
      for (const CsvColumn& column : known) names += (names.empty() ? "" : ", ") + std::string(column.name);
      return csv.ErrorInRow(fmt::format("unknown column {}; known columns are {}", Excerpt(name), names));
    }
    const auto index = static_cast<std::size_t>(match - known.begin());
    if (given[index]) return csv.ErrorInColumn(name, "the column is given twice");
    given[index] = true;
    indices.push_back(index);
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i].required && !given[i]) return csv.ErrorInColumn(known[i].name, "the column is missing");
  }
  return indices;
}

std::string Excerpt(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  if (text.size() <= kLongest) return fmt::format("\"{}\"", text);
  std::size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // between characters
  return fmt::format("\"{}…\"", text.substr(0, cut));
}

absl::Status AppendCsvCell(std::string_view text, std::string& line) {
  if (const std::string problem = ForbiddenIn(text); !problem.empty()) {
    return InvalidArgument("a cell cannot hold {}", problem);
  }
  if (text.find_first_of(",\"") == std::string_view::npos) {
    line += text;
    return absl::OkStatus();
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
  return absl::OkStatus();
}

void AppendDecimal(double value, std::string& line) {
  constexpr int kDigits = 6;
  std::array<char, 32> shortest{};  // a sign, 6 digits, a point and an exponent
  const auto end =
      std::to_chars(shortest.data(), shortest.data() + shortest.size(), value, std::chars_format::general, kDigits).ptr;
  const std::string_view text(shortest.data(), static_cast<std::size_t>(end - shortest.data()));
  const std::size_t e = text.find('e');
  if (e == std::string_view::npos) {
    line += text;
    return;
  }
  int exponent = 0;
  const char* first = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(first, end, exponent);
  double rounded = 0;
  std::from_chars(text.data(), end, rounded);
  std::string plain = fmt::format("{:.{}f}", rounded, std::max(kDigits - 1 - exponent, 0));
  if (plain.find('.') != std::string::npos) plain.erase(plain.find_last_not_of('0') + 1);
  line += plain;
}

}  // namespace gpueta
