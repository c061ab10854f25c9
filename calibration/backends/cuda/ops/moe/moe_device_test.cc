// A mixture of experts against a reference on the CPU. Runs where there are a device and
// cuBLASLt.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/cuda/ops/cublaslt_library.h"
#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/ops/moe/moe_library.h"
#include "calibration/backends/cuda/ops/moe/routing.h"
#include "calibration/backends/cuda/ops/operand_memory.h"
#include "calibration/backends/cuda/ops/testing_elements.h"

namespace gpueta {
namespace {

std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Of a result of about 1, of two products and what is between them.
double MoeToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kFp16: return 4e-3;
    case DType::kBf16: return 3e-2;
    case DType::kFp8: return 5e-2;
    default: return 1e-3;
  }
}

class MoeDeviceTest : public testing::TestWithParam<DType> {};

TEST_P(MoeDeviceTest, TokensComeBackFromTheirExperts) {
  const DType dtype = GetParam();
  const bool fp8 = dtype == DType::kFp8;
  auto driver = OpenCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status();
  const auto device = (*driver)->Open(0).value();
  const auto products = OpenCublasLt(*device);
  if (!products.ok()) GTEST_SKIP() << products.status();
  const auto library = LoadMoeLibrary(*device, **products, MoeKernelsPtx(), MoeFp8KernelsPtx());
  ASSERT_TRUE(library.ok()) << library.status();
  const Moe moe{.num_tokens = 24,
                .hidden_size = 128,
                .inter_size = 64,
                .top_k = 2,
                .num_experts = 8,
                .ep = 2,
                .distribution = "power_law_1.2"};
  const auto operation = (*library)->Prepare({.dtype = dtype, .work = moe});
  if (absl::IsUnimplemented(operation.status())) GTEST_SKIP() << operation.status();
  ASSERT_TRUE(operation.ok()) << operation.status();
  const OperandBytes& bytes = (*operation)->bytes();
  std::vector<std::byte> tokens = RandomElements(bytes.inputs[0], dtype);
  std::vector<std::byte> weights = RandomElements(bytes.weights, dtype);
  const auto place = [&](std::span<const std::byte> data) {
    DeviceBuffer buffer = DeviceBuffer::Allocate(*device, data.size()).value();
    EXPECT_TRUE(device->CopyToDevice(buffer.pointer(), data).ok());
    return buffer;
  };
  const DeviceBuffer input = place(tokens);
  const DeviceBuffer weight = place(weights);
  const DeviceBuffer output = DeviceBuffer::Allocate(*device, bytes.output).value();
  const DeviceBuffer workspace = DeviceBuffer::Allocate(*device, bytes.workspace).value();
  Operands operands;
  operands.inputs[0] = input.pointer();
  operands.weights = weight.pointer();
  operands.output = output.pointer();
  operands.workspace = workspace.pointer();
  const StreamHandle stream = device->CreateStream().value();
  const absl::Status status = (*operation)->Enqueue(operands, stream);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(device->Synchronize(stream).ok());
  std::vector<std::byte> result(bytes.output);
  ASSERT_TRUE(device->CopyToHost(result, output.pointer()).ok());

  const std::int64_t hidden = moe.hidden_size;
  const std::int64_t inter = moe.inter_size;
  const DType output_dtype = fp8 ? DType::kBf16 : dtype;
  const auto element = [](const std::vector<std::byte>& data, std::int64_t i, DType type, int bits) {
    return ValueOf(data.data() + bits / 8 * i, type);
  };
  const auto at = [&](const std::vector<std::byte>& data, std::int64_t i) {
    return element(data, i, dtype, BitsOf(dtype).activation);
  };
  const Routing routing = RouteTokens(moe, 1).value();
  std::vector<double> expected(Index(moe.num_tokens * hidden));
  std::size_t choice = 0;
  for (const Routing::Expert& expert : routing.experts) {
    const std::int64_t gate = expert.index * 3 * inter * hidden;
    const std::int64_t down = gate + 2 * inter * hidden;
    for (std::int64_t row = 0; row < expert.rows; ++row, ++choice) {
      const std::int64_t token = routing.tokens[choice];
      const auto project = [&](std::int64_t first, std::int64_t j) {
        double sum = 0;
        for (std::int64_t d = 0; d < hidden; ++d) {
          sum += at(tokens, token * hidden + d) * at(weights, first + j * hidden + d);
        }
        return Nearest(sum, output_dtype);
      };
      std::vector<double> gated;
      for (std::int64_t j = 0; j < inter; ++j) {
        const double x = project(gate, j);
        const double value = x / (1 + std::exp(-x)) * project(gate, inter + j);
        gated.push_back(Nearest(value, dtype));
      }
      for (std::int64_t d = 0; d < hidden; ++d) {
        double sum = 0;
        for (std::int64_t j = 0; j < inter; ++j) sum += gated[Index(j)] * at(weights, down + d * inter + j);
        expected[Index(token * hidden + d)] += Nearest(sum, output_dtype) / static_cast<double>(moe.top_k);
      }
    }
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    // What is next to the middle of two values may be rounded to either.
    ASSERT_NEAR(element(result, static_cast<std::int64_t>(i), output_dtype, BitsOf(dtype).output), expected[i],
                MoeToleranceOf(dtype) * (1 + std::abs(expected[i])))
        << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Types, MoeDeviceTest, testing::Values(DType::kFp32, DType::kFp16, DType::kBf16, DType::kFp8),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace gpueta
