// A mixture of experts against a reference on the CPU. Runs where there are a device and
// cuBLASLt.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
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

TEST(MoeDeviceTest, TokensComeBackFromTheirExperts) {
  auto driver = OpenCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status();
  const auto device = (*driver)->Open(0).value();
  const auto products = OpenCublasLt(*device);
  if (!products.ok()) GTEST_SKIP() << products.status();
  const auto library = LoadMoeLibrary(*device, **products, MoeKernelsPtx());
  ASSERT_TRUE(library.ok()) << library.status();
  const Moe moe{.num_tokens = 24,
                .hidden_size = 128,
                .inter_size = 64,
                .top_k = 2,
                .num_experts = 8,
                .ep = 2,
                .distribution = "power_law_1.2"};
  const auto operation = (*library)->Prepare({.dtype = DType::kFp32, .work = moe});
  ASSERT_TRUE(operation.ok()) << operation.status();
  const OperandBytes& bytes = (*operation)->bytes();
  std::vector<std::byte> tokens = RandomElements(bytes.inputs[0], DType::kFp32);
  std::vector<std::byte> weights = RandomElements(bytes.weights, DType::kFp32);
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
  const auto at = [](const std::vector<std::byte>& data, std::int64_t i) {
    return ValueOf(data.data() + 4 * i, DType::kFp32);
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
        return sum;
      };
      std::vector<double> gated;
      for (std::int64_t j = 0; j < inter; ++j) {
        const double x = project(gate, j);
        gated.push_back(x / (1 + std::exp(-x)) * project(gate, inter + j));
      }
      for (std::int64_t d = 0; d < hidden; ++d) {
        double sum = 0;
        for (std::int64_t j = 0; j < inter; ++j) sum += gated[Index(j)] * at(weights, down + d * inter + j);
        expected[Index(token * hidden + d)] += sum / static_cast<double>(moe.top_k);
      }
    }
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(at(result, static_cast<std::int64_t>(i)), expected[i], 1e-3 * (1 + std::abs(expected[i]))) << i;
  }
}

}  // namespace
}  // namespace gpueta
