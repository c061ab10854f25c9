// What tests of the command line share: files of the repository, running the
// program, what an error looks like.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/server_process.h"

namespace gpueta::testing_util {

using nlohmann::json;

inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

inline const std::string kResnet = GPUETA_SOURCE_DIR "/examples/resnet50.onnx";
inline const std::string kBert = GPUETA_SOURCE_DIR "/examples/bert_base.onnx";
inline const std::string kDecoder = GPUETA_SOURCE_DIR "/tests/data/configs/llama-3.2-1b/config.json";
inline const std::string kMixture = GPUETA_SOURCE_DIR "/tests/data/configs/mixtral-8x7b/config_min.json";
inline const std::string kGemms = GPUETA_SOURCE_DIR "/core/measurements/testdata/gemm.csv";
inline const std::string kVectorHeader =
    "device,source,timing,dtype,name,rows,cols,operands,kernel,grid_x,grid_y,grid_z,block_x,kernels,latency_us\n";

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CliTest : public ::testing::Test {
 protected:
  static Outcome Run(std::vector<std::string> arguments) { return RunProgram(GPUETA_BINARY, arguments); }
  static json RunJson(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--json");
    const Outcome outcome = Run(std::move(arguments));
    EXPECT_EQ(outcome.status, 0) << outcome.standard_error;
    json parsed = json::parse(outcome.standard_output, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << outcome.standard_output;
    return parsed;
  }
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }
  // After the lines of progress exactly one line on stderr, nothing on stdout,
  // exit status 1.
  static void ExpectOneLine(const Outcome& outcome, const ::testing::Matcher<const std::string&>& says) {
    EXPECT_EQ(outcome.status, kFailed);
    EXPECT_EQ(outcome.standard_output, "");
    const std::size_t start = outcome.standard_error.find("gpueta: ");
    ASSERT_NE(start, std::string::npos) << outcome.standard_error;
    const std::string message = outcome.standard_error.substr(start);
    EXPECT_THAT(message, says);
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
  }

  TemporaryDirectory directory_;
};

}  // namespace gpueta::testing_util
