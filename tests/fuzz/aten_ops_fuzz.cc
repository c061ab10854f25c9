// Calls of PyTorch's operators with arbitrary arguments: unknown, or kernels
// that are valid.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/importers/traces/aten_ops.h"
#include "core/importers/traces/aten_table.h"

namespace {

constexpr std::int64_t kSizes[] = {-1, 0, 1, 2, 3, 4, 7, 64, 224, 4096, INT32_MAX, INT64_MAX, INT64_MIN};
constexpr const char* kTypes[] = {"float", "c10::Half", "c10::BFloat16", "double", "long int",  "int",
                                  "bool",  "Scalar",    "ScalarList",    "",       "TensorList"};
constexpr const char* kValues[] = {"",
                                   "1",
                                   "0",
                                   "-1",
                                   "True",
                                   "False",
                                   "[2, 2]",
                                   "[1, 1]",
                                   "[3]",
                                   "[0, 0]",
                                   "[-1, -2]",
                                   "[False, True, True]",
                                   "[256]",
                                   "[1, 2, 3]",
                                   "1e-05",
                                   "[]",
                                   "[9223372036854775807, 2]",
                                   "2147483648"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const std::vector<std::string_view> ops = gpueta::aten::KnownOps();
  FuzzedDataProvider data(bytes, size);
  gpueta::OpSignature signature;
  signature.name = "aten::" + std::string(ops[data.ConsumeIntegralInRange<std::size_t>(0, ops.size() - 1)]);
  for (int i = data.ConsumeIntegralInRange<int>(0, 12); i > 0; --i) {
    gpueta::TraceArgument& argument = signature.arguments.emplace_back();
    argument.type = data.PickValueInArray(kTypes);
    argument.concrete = data.PickValueInArray(kValues);
    for (int j = data.ConsumeIntegralInRange<int>(0, 2); j > 0; --j) {
      auto& dims = argument.tensors.emplace_back();
      for (int k = data.ConsumeIntegralInRange<int>(0, 5); k > 0; --k) dims.push_back(data.PickValueInArray(kSizes));
    }
  }
  const auto kernels = gpueta::KernelsOf(signature, data.ConsumeBool());
  if (!kernels.has_value()) return 0;
  for (const gpueta::Kernel& kernel : *kernels) {
    if (!gpueta::Validate(kernel).ok()) std::abort();
  }
  return 0;
}
