// For tests: which kernels an operator becomes, and the shape of its output, seen
// from the kernels of its readers. `…_test.cc` beside each ops_….cc has its cases.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace gpueta::onnx_import {

struct OpCase {
  std::string name;
  std::string inputs;
  std::string nodes;
  std::vector<std::string> kernels;
  int opset = 17;

  friend void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.nodes; }
};

class OpTest : public ::testing::TestWithParam<OpCase> {};

inline std::string CaseName(const ::testing::TestParamInfo<OpCase>& param) { return param.param.name; }

}  // namespace gpueta::onnx_import
