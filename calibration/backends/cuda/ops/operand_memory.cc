#include "calibration/backends/cuda/ops/operand_memory.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::size_t kPatternBytes = std::size_t{4} << 20;
constexpr std::size_t kAlignment = 256;
// A cache of this many bytes where the driver does not tell.
constexpr std::size_t kTypicalL2Bytes = std::size_t{64} << 20;
// More copies make the weights no colder.
constexpr std::size_t kColdCaches = 2;

std::size_t Aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct FloatFormat {
  int bytes;
  int exponent_bits;
  int mantissa_bits;
};

// Of magnitude 1/16 to 1.
std::uint64_t RandomFloat(const FloatFormat& format, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << format.mantissa_bits) - 1);
  const std::uint64_t bias = (std::uint64_t{1} << (format.exponent_bits - 1)) - 1;
  const std::uint64_t exponent = bias - 1 - (bits >> 60 & 3);
  const std::uint64_t sign = bits >> 63;
  return (sign << format.exponent_bits | exponent) << format.mantissa_bits | mantissa;
}

std::size_t L2Bytes(const CudaDevice& device) {
  return device.properties().l2_bytes > 0 ? device.properties().l2_bytes : kTypicalL2Bytes;
}

}  // namespace

std::vector<std::byte> RandomElements(std::size_t bytes, DType dtype) {
  std::mt19937_64 random(1);
  std::vector<std::byte> pattern(Aligned(bytes));
  const auto fill = [&](const FloatFormat& format) {
    for (std::size_t i = 0; i + 8 <= pattern.size(); i += static_cast<std::size_t>(format.bytes)) {
      const std::uint64_t element = RandomFloat(format, random);
      std::memcpy(pattern.data() + i, &element, static_cast<std::size_t>(format.bytes));
    }
  };
  switch (dtype) {
    case DType::kFp64: fill({8, 11, 52}); break;
    case DType::kFp32:
    case DType::kTf32: fill({4, 8, 23}); break;
    case DType::kFp16: fill({2, 5, 10}); break;
    case DType::kBf16: fill({2, 8, 7}); break;
    case DType::kFp8: fill({1, 4, 3}); break;
    case DType::kInt8:
    case DType::kInt4:
      for (std::byte& element : pattern) element = static_cast<std::byte>(1 + random() % 15);
  }
  pattern.resize(bytes);
  return pattern;
}

Operands KernelOperands::OfRun(std::size_t run) const {
  Operands operands = operands_;
  operands.weights += run % copies_ * stride_;
  return operands;
}

absl::StatusOr<DeviceBuffer> OperandMemory::Random(std::size_t bytes, DType dtype) {
  GPUETA_ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Allocate(device_, bytes));
  std::vector<std::byte>& pattern = patterns_[dtype];
  if (pattern.empty()) pattern = RandomElements(kPatternBytes, dtype);
  for (std::size_t i = 0; i < bytes; i += pattern.size()) {
    const auto part = std::span(pattern).first(std::min(pattern.size(), bytes - i));
    GPUETA_RETURN_IF_ERROR(device_.CopyToDevice(buffer.pointer() + i, part));
  }
  return buffer;
}

absl::StatusOr<DevicePointer> OperandMemory::Weights(std::size_t bytes, DType dtype) {
  if (bytes > weights_.size() || dtype != weights_dtype_) {
    weights_ = DeviceBuffer();  // before the new ones: both may not fit
    GPUETA_ASSIGN_OR_RETURN(weights_, Random(bytes, dtype));
    weights_dtype_ = dtype;
  }
  return weights_.pointer();
}

absl::StatusOr<KernelOperands> OperandMemory::ForKernel(const OperandBytes& bytes, DType dtype, bool cold_weights) {
  KernelOperands result;
  const auto activation = [&](std::size_t size) -> absl::StatusOr<DevicePointer> {
    if (size == 0) return 0;
    GPUETA_ASSIGN_OR_RETURN(DeviceBuffer buffer, Random(size, dtype));
    result.activations_.push_back(std::move(buffer));
    return result.activations_.back().pointer();
  };
  for (std::size_t i = 0; i < kMaxCudaInputs; ++i) {
    GPUETA_ASSIGN_OR_RETURN(result.operands_.inputs[i], activation(bytes.inputs[i]));
  }
  GPUETA_ASSIGN_OR_RETURN(result.operands_.output, activation(bytes.output));
  GPUETA_ASSIGN_OR_RETURN(result.operands_.workspace, activation(bytes.workspace));
  if (bytes.weights == 0) return result;
  result.stride_ = Aligned(bytes.weights);
  const std::size_t wanted = cold_weights ? kColdCaches * L2Bytes(device_) / result.stride_ + 1 : 1;
  // Memory that is not there for more copies makes them warmer, no more.
  GPUETA_ASSIGN_OR_RETURN(const std::size_t free, device_.FreeMemory());
  const std::size_t there = std::max(free / 2, weights_.size()) / result.stride_;
  result.copies_ = std::clamp<std::size_t>(there, 1, wanted);
  GPUETA_ASSIGN_OR_RETURN(result.operands_.weights, Weights(result.copies_ * result.stride_, dtype));
  return result;
}

absl::StatusOr<std::vector<Operands>> OperandMemory::ForModel(const std::vector<OperandBytes>& bytes, DType dtype) {
  std::size_t weights = 0;
  std::size_t activation = 0;
  std::size_t workspace = 0;
  for (const OperandBytes& kernel : bytes) {
    weights += Aligned(kernel.weights);
    activation = std::max({activation, kernel.output, *std::ranges::max_element(kernel.inputs)});
    workspace = std::max(workspace, kernel.workspace);
  }
  ring_.clear();
  for (std::size_t i = 0; i < kMaxCudaInputs + 2; ++i) {
    GPUETA_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                            Random(i == 0 ? std::max(workspace, kAlignment) : std::max(activation, kAlignment), dtype));
    ring_.push_back(std::move(buffer));
  }
  GPUETA_ASSIGN_OR_RETURN(DevicePointer next_weights, Weights(std::max(weights, kAlignment), dtype));
  // The output of one kernel is the first input of the next.
  constexpr std::size_t kRing = kMaxCudaInputs + 1;
  const auto at = [this](std::size_t kernel) { return ring_[1 + kernel % kRing].pointer(); };
  std::vector<Operands> operands(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    operands[i].output = at(i);
    operands[i].workspace = ring_.front().pointer();
    operands[i].weights = next_weights;
    for (std::size_t input = 0; input < kMaxCudaInputs; ++input) operands[i].inputs[input] = at(i + kRing - 1 - input);
    next_weights += Aligned(bytes[i].weights);
  }
  return operands;
}

absl::Status OperandMemory::FlushL2() {
  const std::size_t bytes = kColdCaches * L2Bytes(device_);
  if (flush_.size() == 0) {
    GPUETA_ASSIGN_OR_RETURN(flush_, DeviceBuffer::Allocate(device_, bytes));
  }
  return device_.Fill(flush_.pointer(), 0, bytes, stream_);
}

}  // namespace gpueta
