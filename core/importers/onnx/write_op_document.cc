// Prints docs/onnx-ops.md.
#include <fmt/core.h>

#include <exception>

#include "core/importers/onnx/op_samples.h"

int main() {
  try {
    fmt::print("{}", gpueta::onnx_import::OpDocument());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
