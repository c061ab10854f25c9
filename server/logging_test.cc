#include "server/logging.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpueta {
namespace {

TEST(LoggingTest, WritesKeyValuePairs) {
  EXPECT_EQ(FormatEvent(LogFormat::kText, "profile published", {{"device", "h100-sxm"}, {"rows", 12}, {"ms", 0.5}}),
            "profile published device=h100-sxm rows=12 ms=0.5");
}

TEST(LoggingTest, QuotesTextThatWouldBreakALine) {
  EXPECT_EQ(FormatEvent(LogFormat::kText, "x", {{"a", "two words"}, {"b", ""}, {"c", "q\"\n"}}),
            R"(x a="two words" b="" c="q\"\n")");
}

TEST(LoggingTest, WritesJsonThatParsersRead) {
  const std::string text =
      "{" + FormatEvent(LogFormat::kJson, "started", {{"path", "C:\\x\t\"y\"\n"}, {"port", 7410}, {"ok", true}}) + "}";
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["event"], "started");
  EXPECT_EQ(json["path"], "C:\\x\t\"y\"\n");
  EXPECT_EQ(json["port"], 7410);
  EXPECT_EQ(json["ok"], true);
}

}  // namespace
}  // namespace gpueta
