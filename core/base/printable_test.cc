#include "core/base/printable.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

TEST(PrintableTest, LeavesTextAlone) {
  EXPECT_EQ(Printable("ResNet-50 µs ∑ 🙂"), "ResNet-50 µs ∑ 🙂");
  EXPECT_EQ(Printable(""), "");
}

TEST(PrintableTest, SpellsOutWhatWouldSteerATerminal) {
  EXPECT_EQ(Printable("a\x1b[31mb\r\n\x7f"), "a\\x1b[31mb\\x0d\\x0a\\x7f");
  EXPECT_EQ(Printable("a\nb\tc\x01", "\n\t"), "a\nb\tc\\x01");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "31m"),
            "\\x9b31m");  // CSI as one character
}

TEST(PrintableTest, ReplacesWhatIsNoUtf8) {
  for (const char* bad : {"\xff", "\x80", "\xC0", "\xED", "\xF5"}) EXPECT_EQ(Printable(bad), "\uFFFD");
  EXPECT_EQ(Printable("a\xE2\x82z"), "a\uFFFD\uFFFDz");
  EXPECT_EQ(Printable("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
}

}  // namespace
}  // namespace gpueta
