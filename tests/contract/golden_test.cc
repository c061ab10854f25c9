// The contract as compiled in against the one that was released, which is kept
// in golden.textproto. After a change that adds something, regenerate it with
//
//   cmake --build BUILD --target update_golden_contract

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/contract/compatibility.h"
#include "tests/contract/contract_files.h"

namespace gpueta {
namespace {

google::protobuf::FileDescriptorSet Golden() {
  std::ostringstream text;
  text << std::ifstream("tests/contract/golden.textproto").rdbuf();
  google::protobuf::FileDescriptorSet golden;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text.str(), &golden));
  return golden;
}

TEST(ContractTest, KeepsEverythingThatWasReleased) {
  const auto golden = Golden();
  EXPECT_GT(golden.file_size(), 0);
  for (const std::string& problem : IncompatibilitiesOf(golden, ContractFiles())) ADD_FAILURE() << problem;
  // What is new here is allowed, but protected only once the file knows it.
  const std::size_t additions = IncompatibilitiesOf(ContractFiles(), golden).size();
  if (additions > 0)
    std::printf("%zu additions are not yet in golden.textproto; build update_golden_contract\n", additions);
}

}  // namespace
}  // namespace gpueta
