#include "core/measurements/copy_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace gpueta {
namespace {

using ::testing::HasSubstr;

struct Copy {
  absl::Status status;
  std::string text;
};

Copy CopyOf(const std::string& text, const std::vector<std::int64_t>& lines) {
  std::istringstream in(text);
  std::ostringstream out;
  absl::Status status = CopyLines(in, lines, out);
  return {status, out.str()};
}

TEST(CopyLines, CopiesByteForByteInTheOrderGiven) {
  struct Case {
    std::string text;
    std::vector<std::int64_t> lines;
    std::string copy;
  };
  const Case cases[] = {
      {"h\n1\n2\n3\n", {4, 2}, "h\n3\n1\n"},
      {"h\n1\n2\n3\n", {2, 2}, "h\n1\n1\n"},
      {"h\n1\n2\n3\n", {}, "h\n"},
      {"\xEF\xBB\xBFh\r\n\"a,b\" ,nan\r\n2\r\n", {2}, "\xEF\xBB\xBFh\r\n\"a,b\" ,nan\r\n"},
      {"h\n1\n2", {3, 2}, "h\n2\n1\n"},  // the last line lacks its LF
  };
  for (const Case& c : cases) {
    const Copy copy = CopyOf(c.text, c.lines);
    EXPECT_TRUE(copy.status.ok()) << copy.status;
    EXPECT_EQ(copy.text, c.copy);
  }
}

TEST(CopyLines, RefusesLinesThatAreNotRows) {
  for (const std::int64_t line : {-1, 0, 1, 5}) {
    const absl::Status status = CopyOf("h\n1\n2\n3\n", {2, line}).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("line " + std::to_string(line)));
  }
}

TEST(CopyLines, ReportsAStreamThatCannotBeWritten) {
  std::istringstream in("h\n1\n");
  std::ostream broken(nullptr);
  const std::int64_t lines[] = {2};
  EXPECT_EQ(CopyLines(in, lines, broken).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gpueta
