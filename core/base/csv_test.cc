#include "core/base/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <sstream>

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All rows of a file, or the message of its first error.
struct File {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::string error;
};

File ReadAll(const std::string& text) {
  std::istringstream in(text);
  File file;
  auto csv = CsvReader::Open(in, "f.csv");
  if (!csv.ok()) {
    file.error = std::string(csv.status().message());
    return file;
  }
  file.columns = csv->columns();
  while (csv->Next()) file.rows.emplace_back(csv->cells().begin(), csv->cells().end());
  file.error = std::string(csv->status().message());
  return file;
}

TEST(CsvReader, ReadsRowsWithAnyLineEnd) {
  for (const char* text : {"a,b\n1,2\n,\n", "a,b\r\n1,2\r\n,\r\n",
                           "\xEF\xBB\xBF"
                           "a,b\n1,2\n,"}) {
    const File file = ReadAll(text);
    EXPECT_EQ(file.error, "");
    EXPECT_THAT(file.columns, ElementsAre("a", "b"));
    EXPECT_THAT(file.rows, ElementsAre(ElementsAre("1", "2"), ElementsAre("", "")));
  }
}

TEST(CsvReader, UnquotesCells) {
  const File file = ReadAll("a,b,c\n\"x, \"\"y\"\"\",2,\"\"\n\"\"\"\",é,\"z\"\n");
  EXPECT_EQ(file.error, "");
  EXPECT_THAT(file.rows, ElementsAre(ElementsAre("x, \"y\"", "2", ""), ElementsAre("\"", "é", "z")));
}

TEST(CsvReader, NamesTheLineAndCellOfWhatItRefuses) {
  struct Case {
    std::string text;
    std::string error;
  };
  const Case cases[] = {
      {"", "f.csv: is empty"},
      {"\n", "f.csv:1: is blank"},
      {"a\n1\n\n2\n", "f.csv:3: is blank"},
      {"a,b\n1\n", "f.csv:2: has 1 cells, the header has 2"},
      {"a,b\n1,2,3\n", "f.csv:2: has 3 cells"},
      {"a,b\n1,\"2\n", "f.csv:2:b: the quote is not closed"},
      {"a,b\n1,\"", "f.csv:2:b: the quote is not closed"},
      {"a,b\n\"1\"x,2\n", "f.csv:2:a: text after the closing quote"},
      {"a,b\n1,2\"\n", "f.csv:2:b: a quote inside an unquoted cell"},
      {"a,\"b\n", "f.csv:1:cell 2: the quote is not closed"},
      {std::string("a,b\n1,\0\n", 8), "f.csv:2: control character 0x00"},
      {"a,b\n1\r,2\n", "f.csv:2: control character 0x0d"},
      {"a\n\xFF\n", "f.csv:2: invalid UTF-8"},
      {"a\n\xC0\x80\n", "f.csv:2: invalid UTF-8"},      // overlong
      {"a\n\xED\xA0\x80\n", "f.csv:2: invalid UTF-8"},  // surrogate
      {"a\n\xE2\x82", "f.csv:2: invalid UTF-8"},        // cut short
      {"a\n" + std::string(kMaxLineBytes + 1, 'x'), "f.csv: line 2 is longer than 65536 bytes"},
      {"a\n" + std::string(kMaxLineBytes + 1, 'x') + "\n", "f.csv: line 2 is longer than 65536 bytes"},
      {"a\n" + std::string(40 * kMaxLineBytes, 'x') + "\n", "f.csv: line 2 is longer than 65536 bytes"},
  };
  for (const Case& c : cases) EXPECT_THAT(ReadAll(c.text).error, HasSubstr(c.error)) << c.text.substr(0, 80);
}

TEST(CsvReader, ReadsLinesUpToTheLimitAcrossRefills) {
  std::string text = "a\n";
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < 40; ++i) lengths.push_back(1 + i * kMaxLineBytes / 40);
  lengths.push_back(kMaxLineBytes);
  for (const std::size_t length : lengths) text += std::string(length, 'x') + "\n";
  const File file = ReadAll(text);
  EXPECT_EQ(file.error, "");
  ASSERT_EQ(file.rows.size(), lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) EXPECT_EQ(file.rows[i][0].size(), lengths[i]);
}

TEST(CsvReader, ReadsNumbersStrictly) {
  std::istringstream in("a,b\n9223372036854775807,1.5e3\n");
  auto csv = CsvReader::Open(in, "f.csv");
  ASSERT_TRUE(csv.ok() && csv->Next());
  EXPECT_EQ(csv->Integer(0).value(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(csv->Number(1).value(), 1500);
  for (const char* bad : {"", " 1", "1 ", "+1", "1x", "0x10", "nan", "inf", "-inf", "1e999", "1,5", "--1"}) {
    std::istringstream bad_in("a\n\"" + std::string(bad) + "\"\n");
    auto bad_csv = CsvReader::Open(bad_in, "f.csv");
    ASSERT_TRUE(bad_csv.ok() && bad_csv->Next());
    EXPECT_THAT(std::string(bad_csv->Integer(0).status().message()), HasSubstr("f.csv:2:a: ")) << bad;
    EXPECT_THAT(std::string(bad_csv->Number(0).status().message()), HasSubstr("f.csv:2:a: ")) << bad;
  }
  for (const char* bad : {"9223372036854775808", "1.0", "1e3"}) {
    std::istringstream bad_in("a\n" + std::string(bad) + "\n");
    auto bad_csv = CsvReader::Open(bad_in, "f.csv");
    ASSERT_TRUE(bad_csv.ok() && bad_csv->Next());
    EXPECT_FALSE(bad_csv->Integer(0).ok()) << bad;
  }
}

TEST(CsvReader, ReportsAStreamThatCannotBeRead) {
  struct Broken : std::streambuf {
    int_type underflow() override { throw std::runtime_error("disk error"); }
  } broken;
  std::istream in(&broken);
  const auto csv = CsvReader::Open(in, "f.csv");
  EXPECT_EQ(csv.status().code(), absl::StatusCode::kUnavailable);
}

TEST(MatchColumns, FindsColumnsInAnyOrder) {
  std::istringstream in("c,a\n");
  const auto csv = CsvReader::Open(in, "f.csv");
  ASSERT_TRUE(csv.ok());
  const CsvColumn known[] = {{"a", true}, {"b", false}, {"c", false}};
  EXPECT_THAT(MatchColumns(*csv, known).value(), ElementsAre(2, 0));
}

TEST(MatchColumns, RefusesUnknownRepeatedAndMissingColumns) {
  const CsvColumn known[] = {{"a", true}, {"b", false}};
  const std::pair<const char*, const char*> cases[] = {
      {"a,x\n", "f.csv:1: unknown column \"x\"; known columns are a, b"},
      {"a,b,a\n", "f.csv:1:a: the column is given twice"},
      {"b\n", "f.csv:1:a: the column is missing"},
  };
  for (const auto& [text, error] : cases) {
    std::istringstream in(text);
    const auto csv = CsvReader::Open(in, "f.csv");
    ASSERT_TRUE(csv.ok());
    EXPECT_EQ(MatchColumns(*csv, known).status().message(), error);
  }
}

TEST(Excerpt, CutsBetweenCharacters) {
  EXPECT_EQ(Excerpt("short"), "\"short\"");
  std::string accents;
  for (int i = 0; i < 40; ++i) accents += "é";
  EXPECT_EQ(Excerpt("x" + accents).size(), std::string("\"x…\"").size() + 38);
}

TEST(AppendCsvCell, WritesWhatTheReaderReads) {
  const std::vector<std::string> cells = {"plain", "", "a,b", "say \"hi\"", "\"", ",", " é\t"};
  std::string line;
  for (const std::string& cell : cells) {
    if (!line.empty()) line += ',';
    ASSERT_TRUE(AppendCsvCell(cell, line).ok());
  }
  const File file = ReadAll("a,b,c,d,e,f,g\n" + line + "\n");
  EXPECT_EQ(file.error, "");
  EXPECT_THAT(file.rows, ElementsAre(cells));
}

TEST(AppendCsvCell, RefusesWhatTheReaderWould) {
  std::string line;
  for (const char* text : {"two\nlines", "\x01", "\xFF"}) EXPECT_FALSE(AppendCsvCell(text, line).ok());
  EXPECT_EQ(line, "");
}

TEST(AppendDecimal, KeepsSixDigitsWithoutExponent) {
  const std::pair<double, const char*> cases[] = {
      {0, "0"},
      {7, "7"},
      {10.66667, "10.6667"},
      {12296523, "12296500"},
      {999999.5, "1000000"},
      {123456, "123456"},
      {1e12, "1000000000000"},
      {0.00012345678, "0.000123457"},
      {1.2e-7, "0.00000012"},
      {9.999999e-6, "0.00001"},
      {-1234567.0, "-1234570"},
  };
  for (const auto& [value, text] : cases) {
    std::string line;
    AppendDecimal(value, line);
    EXPECT_EQ(line, text);
  }
}

}  // namespace
}  // namespace gpueta
