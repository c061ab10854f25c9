// Strict CSV: what every table file of gpueta is read and written with.
//
// A cell that holds a comma or a quote stands in quotes, its own quotes
// doubled; no cell holds a line end. Files may have CRLF line ends and a
// UTF-8 byte-order mark. Control characters, invalid UTF-8, blank lines and
// lines of more than kMaxLineBytes are errors.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta {

// Far above any real row; a limit so that a file without line ends is refused
// before it fills the memory.
inline constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;

// "text" in quotes for messages, cut when long.
std::string Excerpt(std::string_view text);

// Lines of a stream.
class LineReader {
 public:
  // `in` must outlive the reader.
  explicit LineReader(std::istream& in);

  // The next line as it stands in the file, without its LF; valid until the
  // next call. nullopt at the end and after an error.
  std::optional<std::string_view> Next();
  // Number of the line that Next returned last; the first is 1.
  std::int64_t line() const { return line_; }
  // INVALID_ARGUMENT for a line that is too long, UNAVAILABLE for a stream
  // that cannot be read.
  const absl::Status& status() const { return status_; }

 private:
  bool Refill();

  std::istream* in_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::int64_t line_ = 0;
  absl::Status status_;
};

// Rows of a CSV with a header. Errors read "file:line:column: problem".
class CsvReader {
 public:
  // Reads the header. INVALID_ARGUMENT for an empty file. `in` must outlive
  // the reader; `file_name` is for messages.
  static absl::StatusOr<CsvReader> Open(std::istream& in, std::string_view file_name);

  const std::vector<std::string>& columns() const { return columns_; }

  // Moves to the next row; false at the end and after an error, see status().
  bool Next();
  const absl::Status& status() const { return status_; }
  std::int64_t line() const { return lines_.line(); }

  // Cells of the row, one for each column; valid until the next call of Next.
  std::span<const std::string_view> cells() const { return cells_; }

  // A cell as a number; INVALID_ARGUMENT unless all of it is one that is
  // finite and in range.
  absl::StatusOr<std::int64_t> Integer(std::size_t cell) const;
  absl::StatusOr<double> Number(std::size_t cell) const;

  // Sets `value` to the one of `values` whose Name is in the cell;
  // INVALID_ARGUMENT listing the names if there is none.
  template <class Values, class Value>
  absl::Status Named(std::size_t cell, const Values& values, Value& value) const {
    for (const Value known : values) {
      if (Name(known) != cells_[cell]) continue;
      value = known;
      return absl::OkStatus();
    }
    std::string names;
    for (const Value known : values) names += (names.empty() ? "" : ", ") + std::string(Name(known));
    return ErrorInCell(cell, Excerpt(cells_[cell]) + " is unknown; use one of " + names);
  }

  // INVALID_ARGUMENT about the row, or one of its cells.
  absl::Status ErrorInRow(std::string_view problem) const;
  absl::Status ErrorInCell(std::size_t cell, std::string_view problem) const;
  absl::Status ErrorInColumn(std::string_view column, std::string_view problem) const;

 private:
  CsvReader(std::istream& in, std::string_view file_name) : lines_(in), file_name_(file_name) {}
  bool NextLine();
  bool SplitQuoted(std::string_view line);
  bool Fail(absl::Status status);

  LineReader lines_;
  std::string file_name_;
  std::vector<std::string> columns_;
  std::vector<std::string_view> cells_;
  std::string unquoted_;  // text of cells that had doubled quotes
  absl::Status status_;
};

struct CsvColumn {
  std::string_view name;
  bool required = false;
};

// For each column of the file its index in `known`. INVALID_ARGUMENT for a
// column that is unknown (listing `known`), given twice, or required and
// missing.
absl::StatusOr<std::vector<std::size_t>> MatchColumns(const CsvReader& csv, std::span<const CsvColumn> known);

// Appends `text` to a line of CSV, quoted if need be. INVALID_ARGUMENT for text
// that CsvReader would refuse.
absl::Status AppendCsvCell(std::string_view text, std::string& line);

// Appends a finite value with 6 significant digits, never with an exponent.
void AppendDecimal(double value, std::string& line);

}  // namespace gpueta
