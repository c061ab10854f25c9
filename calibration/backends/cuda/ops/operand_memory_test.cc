#include "calibration/backends/cuda/ops/operand_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "calibration/backends/cuda/simulated/simulated_driver.h"

namespace gpueta {
namespace {

TEST(RandomElementsTest, FloatsAreOfOrdinaryMagnitude) {
  const std::vector<std::byte> bytes = RandomElements(4'000, DType::kFp32);
  ASSERT_EQ(bytes.size(), 4'000U);
  int negative = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i, 4);
    EXPECT_GE(std::abs(value), 1.0F / 16);
    EXPECT_LT(std::abs(value), 1.0F);
    negative += value < 0 ? 1 : 0;
  }
  EXPECT_NEAR(negative, 500, 100);
}

TEST(RandomElementsTest, NoTypeHasInfinitiesOrZeros) {
  for (const auto& [dtype, exponent, mantissa] :
       {std::tuple{DType::kFp16, 5, 10}, {DType::kBf16, 8, 7}, {DType::kFp8, 4, 3}}) {
    const std::size_t size = dtype == DType::kFp8 ? 1 : 2;
    const std::vector<std::byte> bytes = RandomElements(2'000, dtype);
    for (std::size_t i = 0; i < bytes.size(); i += size) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + i, size);
      const std::uint32_t all = (1U << exponent) - 1;
      const std::uint32_t found = bits >> mantissa & all;
      EXPECT_NE(found, 0U);
      EXPECT_NE(found, all);
    }
  }
  for (std::byte value : RandomElements(1'000, DType::kInt8)) EXPECT_NE(value, std::byte{0});
}

class OperandMemoryTest : public testing::Test {
 protected:
  SimulatedDriver driver_{{}};
  std::unique_ptr<SimulatedDevice> device_ = driver_.OpenSimulated();
  OperandMemory memory_{*device_, device_->CreateStream().value()};
};

TEST_F(OperandMemoryTest, ColdWeightsExceedTheCacheTwice) {
  OperandBytes bytes{.weights = 1'000'000, .output = 64};
  bytes.inputs[0] = 128;
  const KernelOperands operands = memory_.ForKernel(bytes, DType::kFp16, true).value();
  EXPECT_GE(operands.copies() * bytes.weights, 2 * device_->properties().l2_bytes);
  std::set<DevicePointer> pointers;
  for (std::size_t run = 0; run < operands.copies(); ++run) pointers.insert(operands.OfRun(run).weights);
  EXPECT_EQ(pointers.size(), operands.copies());
  EXPECT_EQ(operands.OfRun(operands.copies()).weights, operands.OfRun(0).weights);
  EXPECT_EQ(operands.OfRun(1).inputs[0], operands.OfRun(0).inputs[0]);
  EXPECT_EQ(memory_.ForKernel(bytes, DType::kFp16, false)->copies(), 1U);
}

TEST_F(OperandMemoryTest, SaysWhatDoesNotFit) {
  OperandBytes bytes;
  bytes.output = 2 * device_->properties().memory_bytes;
  EXPECT_EQ(memory_.ForKernel(bytes, DType::kFp16, true).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(OperandMemoryTest, FreesWhatItHandedOut) {
  const std::size_t before = device_->FreeMemory().value();
  OperandBytes bytes;
  bytes.output = 1 << 20;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(memory_.ForKernel(bytes, DType::kFp32, true).ok());
  EXPECT_EQ(device_->FreeMemory().value(), before);
}

TEST_F(OperandMemoryTest, KernelsOfAModelHandOnActivationsAndKeepTheirWeights) {
  const std::vector<OperandBytes> bytes(9, {.inputs = {4'096}, .weights = 1'024, .output = 4'096, .workspace = 512});
  const std::vector<Operands> operands = memory_.ForModel(bytes, DType::kBf16).value();
  for (std::size_t i = 1; i < operands.size(); ++i) {
    EXPECT_EQ(operands[i].inputs[0], operands[i - 1].output);
    EXPECT_NE(operands[i].output, operands[i].inputs[0]);
    EXPECT_GE(operands[i].weights, operands[i - 1].weights + 1'024);
  }
}

}  // namespace
}  // namespace gpueta
