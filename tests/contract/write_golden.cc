// Prints the contract as a text-format FileDescriptorSet.

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>

#include <cstdio>
#include <string>

#include "tests/contract/contract_files.h"

int main() {
  std::string text;
  google::protobuf::TextFormat::PrintToString(gpueta::ContractFiles(), &text);
  std::fputs(text.c_str(), stdout);
}
