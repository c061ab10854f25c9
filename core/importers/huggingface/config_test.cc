#include "core/importers/huggingface/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpueta::huggingface {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kWidth[] = {"hidden_size", "n_embd"};

TEST(ConfigTest, ReadsAFieldByAnyOfItsNames) {
  absl::StatusOr<Config> config = Config::Parse(R"({"n_embd": 768})");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->Int(kWidth, 1), 768);
  EXPECT_TRUE(config->status().ok());
}

TEST(ConfigTest, MissingFieldsTakeTheDefaultAndNullMeansNone) {
  absl::StatusOr<Config> config = Config::Parse(R"({"n_embd": null})");
  ASSERT_TRUE(config.ok());
  constexpr std::string_view kOther[] = {"other"};
  EXPECT_EQ(config->Int(kOther, 5), 5);
  EXPECT_EQ(config->IntOrNone(kWidth, 5), 0);
  EXPECT_TRUE(config->status().ok());
}

TEST(ConfigTest, WrongValuesNameTheFieldAsItIsSpelt) {
  for (const std::string_view json : {R"({"n_embd": "wide"})", R"({"n_embd": -1})", R"({"n_embd": 1.5})",
                                      R"({"n_embd": 99999999999})", R"({"n_embd": [1]})"}) {
    absl::StatusOr<Config> config = Config::Parse(json);
    ASSERT_TRUE(config.ok());
    config->Int(kWidth, 1);
    EXPECT_TRUE(absl::IsInvalidArgument(config->status()));
    EXPECT_THAT(config->status().ToString(), HasSubstr("n_embd: is "));
  }
}

TEST(ConfigTest, RequiredFieldsAreAskedFor) {
  absl::StatusOr<Config> config = Config::Parse("{}");
  ASSERT_TRUE(config.ok());
  config->Int(kWidth, 0);
  EXPECT_THAT(config->status().ToString(), HasSubstr("hidden_size: is missing"));
}

TEST(ConfigTest, WhatIsNoObjectIsRefused) {
  for (const std::string_view json : {"", "[]", "{", "7", R"({"a": )"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Config::Parse(json).status())) << json;
  }
}

TEST(ConfigTest, ReadsTheNumbersThatPythonWritesAndJsonDoesNotHave) {
  absl::StatusOr<Config> config =
      Config::Parse(R"({"a": [0.0, Infinity, -Infinity], "b": NaN, "n_embd": 7, "NaN": "say \"NaN, Infinity\""})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ToText(), R"({"NaN":"say \"NaN, Infinity\"","a":[0.0,null,null],"b":null,"n_embd":7})");
  for (const std::string_view json : {R"({"a": Infinit})", R"({"a": "\)", R"({"a": +NaN})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Config::Parse(json).status())) << json;
  }
}

TEST(ConfigTest, DeepNestingDoesNotOverflowTheStack) {
  const std::string deep = R"({"a": )" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_TRUE(Config::Parse(deep).ok());
}

}  // namespace
}  // namespace gpueta::huggingface
