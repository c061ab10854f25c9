#include "core/measurements/copy_lines.h"

#include <algorithm>
#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/csv.h"
#include "core/base/errors.h"

namespace gpueta {

absl::Status CopyLines(std::istream& in, std::span<const std::int64_t> lines, std::ostream& out) {
  std::vector<std::int64_t> wanted(lines.begin(), lines.end());
  std::ranges::sort(wanted);
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  if (!wanted.empty() && wanted.front() < 2) return InvalidArgument("line {} is not a row", wanted.front());

  LineReader reader(in);
  std::vector<std::string> texts;  // of `wanted`
  while (const auto line = reader.Next()) {
    if (reader.line() == 1) out << *line << '\n';
    if (texts.size() == wanted.size()) break;
    if (reader.line() == wanted[texts.size()]) texts.emplace_back(*line);
  }
  GPUETA_RETURN_IF_ERROR(reader.status());
  if (texts.size() < wanted.size()) {
    return InvalidArgument("line {} is past the end of the file ({} lines)", wanted[texts.size()], reader.line());
  }
  for (const std::int64_t line : lines) {
    const auto at = std::ranges::lower_bound(wanted, line) - wanted.begin();
    out << texts[static_cast<std::size_t>(at)] << '\n';
  }
  return out.flush() ? absl::OkStatus() : Unavailable("the chosen lines cannot be written; is the disk full?");
}

}  // namespace gpueta
