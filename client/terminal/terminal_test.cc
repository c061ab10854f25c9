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

}  // namespace
}  // namespace gpueta::terminal
