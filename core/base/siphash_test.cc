#include "core/base/siphash.h"

#include <gtest/gtest.h>

#include <string>

namespace gpueta {
namespace {

TEST(SipHashTest, HasTheValueOfThePapersExample) {
  // Appendix A: key 00 01 … 0f, message 00 01 … 0e.
  const SipHashKey key{0x0706050403020100U, 0x0f0e0d0c0b0a0908U};
  std::string message;
  for (char c = 0; c < 15; ++c) message.push_back(c);
  EXPECT_EQ(SipHash(key, message), 0xa129ca6149be45e5U);
}

TEST(SipHashTest, EveryBitOfKeyAndMessageCounts) {
  const SipHashKey key{1, 2};
  const std::string message = "sixteen bytes ..and more";
  const std::uint64_t hash = SipHash(key, message);
  for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
    std::string other = message;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(SipHash(key, other), hash);
  }
  EXPECT_NE(SipHash({1, 3}, message), hash);
  EXPECT_NE(SipHash({0, 2}, message), hash);
  EXPECT_NE(SipHash(key, message + '\0'), hash);
}

}  // namespace
}  // namespace gpueta
