#include "core/base/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpueta {
namespace {

using testing::HasSubstr;

absl::Status ReadOne(const std::string& text, std::int64_t& count, double& us) {
  GPUETA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, 1000));
  JsonFields fields(json);
  fields.Read("count", count);
  fields.Read("ms", us, 1e3);
  fields.Each("list", 2, [](const nlohmann::json& each) {
    JsonFields own(each);
    own.Require("name");
    return own.Finish();
  });
  return fields.Finish();
}

TEST(JsonFieldsTest, ReadsWhatIsThereAndLeavesTheRest) {
  std::int64_t count = 7;
  double us = 3;
  EXPECT_EQ(ReadOne(R"({"ms": 1.5, "count": null, "list": [{"name": 1}]})", count, us), absl::OkStatus());
  EXPECT_EQ(count, 7);
  EXPECT_EQ(us, 1500);
}

TEST(JsonFieldsTest, NamesTheFieldThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"count": 1.5})", "count"},        {R"({"count": "3"})", "count"},
      {R"({"count": 1e300})", "count"},      {R"({"ms": true})", "ms"},
      {R"({"counts": 3})", "counts"},        {R"({"list": {}})", "list"},
      {R"({"list": [{}]})", "list[0].name"}, {R"({"list": [1, 2, 3]})", "list"},
  };
  for (const auto& [text, field] : cases) {
    std::int64_t count = 0;
    double us = 0;
    EXPECT_EQ(FieldOf(ReadOne(text, count, us)), field) << text;
  }
}

TEST(JsonFieldsTest, WhatIsNoJsonSaysWhere) {
  EXPECT_THAT(MessageOf(ParseJson("{\"a\": 1,\n]", 100).status()), HasSubstr("line 2"));
  EXPECT_TRUE(absl::IsResourceExhausted(ParseJson(std::string(101, ' '), 100).status()));
  EXPECT_TRUE(ParseJson(std::string(40'000, '['), 100'000).status().code() == absl::StatusCode::kInvalidArgument);
  const nlohmann::json list = nlohmann::json::array();
  EXPECT_THAT(MessageOf(JsonFields(list).Finish()), HasSubstr("JSON object"));
}

}  // namespace
}  // namespace gpueta
