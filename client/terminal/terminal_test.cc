#include "client/terminal/terminal.h"

#include <gtest/gtest.h>

namespace gpueta::terminal {
namespace {

TEST(FormatUsTest, HasThreeDigitsInTheUnitThatFits) {
  EXPECT_EQ(FormatUs(0.0123), "0.0123 µs");
  EXPECT_EQ(FormatUs(12.34), "12.3 µs");
  EXPECT_EQ(FormatUs(999.4), "999 µs");
  EXPECT_EQ(FormatUs(999.6), "1 ms");
  EXPECT_EQ(FormatUs(4560), "4.56 ms");
  EXPECT_EQ(FormatUs(999700), "1 s");
  EXPECT_EQ(FormatUs(1.25e6), "1.25 s");
}

TEST(FormatBytesTest, HasThreeDigitsInBinaryUnits) {
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(1.5 * 1024 * 1024), "1.5 MiB");
  EXPECT_EQ(FormatBytes(80.0 * 1024 * 1024 * 1024), "80 GiB");
  EXPECT_EQ(FormatBytes(3e18), "2.73e+06 TiB");
}

TEST(TextTableTest, CellsCannotSteerTheTerminal) {
  TextTable table({"name"});
  table.Add({"a\x1b[2J"});
  EXPECT_EQ(table.Render(), "name\na\\x1b[2J\n");
}

}  // namespace
}  // namespace gpueta::terminal
