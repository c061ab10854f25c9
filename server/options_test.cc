#include "server/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/errors.h"
#include "server/config.pb.h"

namespace gpueta {
namespace {

using testing::HasSubstr;

class OptionsTest : public testing::Test {
 protected:
  ~OptionsTest() override { std::filesystem::remove(path_); }

  absl::Status Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadConfigFile(path_, options_);
  }

  std::string path_ = fmt::format("{}/options_{}_{}.textproto", testing::TempDir(), getpid(),
                                  testing::UnitTest::GetInstance()->current_test_info()->name());
  ServerOptions options_;
};

TEST_F(OptionsTest, ReadsWhatIsSetAndKeepsTheRest) {
  ASSERT_EQ(Read(R"(
    # a comment
    listen: "0.0.0.0:1"
    drain_seconds: 2.5
    log_format: "json"
    log_level: "warning"
    corrections: "off"
    limits { devices: 128 column_rows: 5 }
  )"),
            absl::OkStatus());
  EXPECT_EQ(options_.listen, "0.0.0.0:1");
  EXPECT_EQ(options_.drain_seconds, 2.5);
  EXPECT_EQ(options_.log_format, LogFormat::kJson);
  EXPECT_EQ(options_.log_level, LogLevel::kWarning);
  EXPECT_FALSE(options_.corrections);
  EXPECT_EQ(options_.limits.devices, 128);
  EXPECT_EQ(options_.limits.column_rows, 5);
  EXPECT_EQ(options_.limits.kernels, Limits().kernels);
  EXPECT_EQ(options_.store, ServerOptions().store);
}

TEST_F(OptionsTest, RefusesAMisspeltFieldAndNamesTheLine) {
  const absl::Status status = Read("store: \"sqlite::memory:\"\nlisten_on: \"x\"\n");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr(path_), HasSubstr("line 2"), HasSubstr("listen_on")));
}

TEST_F(OptionsTest, RefusesBadValues) {
  for (const auto& [text, word] :
       std::vector<std::pair<const char*, const char*>>{{"drain_seconds: -1", "drain_seconds"},
                                                        {"corrections: \"yes\"", "corrections"},
                                                        {"finish_seconds: 1e9", "finish_seconds"},
                                                        {"finish_seconds: nan", "finish_seconds"},
                                                        {"log_format: \"xml\"", "xml"},
                                                        {"log_level: \"loud\"", "loud"},
                                                        {"listen: \"127.0.0.1\"", "HOST:PORT"},
                                                        {"listen: \"127.0.0.1:99999\"", "65535"},
                                                        {"listen: \"::\"", "HOST:PORT"},
                                                        {"metrics_listen: \"localhost:x\"", "metrics_listen"},
                                                        {"listen: \"\"", "listen"},
                                                        {"limits { devices: 0 }", "devices"},
                                                        {"limits { message_bytes: 3000000000 }", "message_bytes"},
                                                        {"limits { profile_bytes: 9000000 }", "profile_bytes"}}) {
    options_ = {};
    const absl::Status status = Read(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(MessageOf(status), HasSubstr(word));
  }
}

TEST_F(OptionsTest, NamesAFileThatIsNotThere) {
  EXPECT_THAT(MessageOf(ReadConfigFile("/nowhere/x", options_)), HasSubstr("/nowhere/x"));
}

TEST(LimitsTest, HaveTheSameNamesInTheConfigurationFile) {
  const auto* descriptor = server::ServerConfig::Limits::descriptor();
  EXPECT_EQ(descriptor->field_count(), static_cast<int>(std::size(kLimits)));
  for (const LimitInfo& info : kLimits)
    EXPECT_NE(descriptor->FindFieldByName(std::string(info.name)), nullptr) << info.name;
}

TEST(LimitsTest, AnUnknownNameListsTheKnownOnes) {
  Limits limits;
  EXPECT_THAT(MessageOf(SetLimit(limits, "widgets", 1)), AllOf(HasSubstr("widgets"), HasSubstr("column_rows")));
  EXPECT_TRUE(SetLimit(limits, "streams", 2).ok());
  EXPECT_EQ(limits.streams, 2);
}

}  // namespace
}  // namespace gpueta
