#include "core/base/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/errors.h"

namespace gpueta {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WholeFileTest : public ::testing::Test {
 protected:
  WholeFileTest() { fs::create_directories(directory_); }
  ~WholeFileTest() override { fs::remove_all(directory_); }
  fs::path directory_ = fs::path(testing::TempDir()) / ("whole_file_" + std::to_string(getpid()));
};

TEST_F(WholeFileTest, ReadsBackWhatWasWrittenAndLeavesNothingElse) {
  const std::string path = directory_ / "a";
  const std::string bytes("x\0\r\n\xff", 5);
  ASSERT_TRUE(WriteWholeFile(path, "before").ok());
  ASSERT_TRUE(WriteWholeFile(path, bytes).ok());
  EXPECT_EQ(ReadWholeFile(path).value(), bytes);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(WholeFileTest, KeepsALinkALink) {
  ASSERT_TRUE(WriteWholeFile(directory_ / "target", "1").ok());
  fs::create_symlink("target", directory_ / "link");
  ASSERT_TRUE(WriteWholeFile(directory_ / "link", "2").ok());
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
  EXPECT_EQ(ReadWholeFile(directory_ / "target").value(), "2");
}

TEST_F(WholeFileTest, SaysWhatCannotBeReadOrWritten) {
  EXPECT_EQ(ReadWholeFile("/no/such/file").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(ReadWholeFile(directory_).ok());
  for (const std::string path : {"/no/such/directory/file", "/proc/file", "/dev/full"}) {
    const absl::Status status = WriteWholeFile(path, "x");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << path;
    EXPECT_THAT(MessageOf(status), HasSubstr(path));
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace gpueta
