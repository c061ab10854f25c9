// Our vector kernels against references on the CPU. Runs where there is a device, made for
// compute-sanitizer too; and everywhere with the kernels' source run on the CPU
// (tests/kernels).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>

#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/ops/operand_memory.h"
#include "calibration/backends/cuda/ops/testing_elements.h"
#include "calibration/backends/cuda/ops/testing_kernel_device.h"
#include "calibration/backends/cuda/ops/vector_library.h"

namespace gpueta {
namespace {

using Row = std::vector<double>;

constexpr double kScalar = 0.5;  // of binary operators with one operand
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Hard(double x) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; }

using Elementwise = std::function<double(double, double, double)>;
const std::map<std::string, Elementwise> kUnary = {
    {"copy", [](double x, double, double) { return x; }},
    {"cast", [](double x, double, double) { return x; }},
    {"where", [](double x, double, double) { return x != 0 ? x : kScalar; }},
    {"clear_gradient", [](double, double, double) { return 0.0; }},
    {"relu", [](double x, double, double) { return std::max(x, 0.0); }},
    {"clip", [](double x, double, double) { return std::min(std::max(x, 0.0), 6.0); }},
    {"abs", [](double x, double, double) { return std::abs(x); }},
    {"neg", [](double x, double, double) { return -x; }},
    {"sqrt", [](double x, double, double) { return std::sqrt(x); }},
    {"gelu", [](double x, double, double) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }},
    {"erf", [](double x, double, double) { return std::erf(x); }},
    {"tanh", [](double x, double, double) { return std::tanh(x); }},
    {"sigmoid", [](double x, double, double) { return Sigmoid(x); }},
    {"exp", [](double x, double, double) { return std::exp(x); }},
    {"log", [](double x, double, double) { return std::log(x); }},
    {"sin", [](double x, double, double) { return std::sin(x); }},
    {"cos", [](double x, double, double) { return std::cos(x); }},
    {"silu", [](double x, double, double) { return x * Sigmoid(x); }},
    {"hardsigmoid", [](double x, double, double) { return Hard(x); }},
    {"hardswish", [](double x, double, double) { return x * Hard(x); }},
    {"reciprocal", [](double x, double, double) { return 1 / x; }}};
const std::map<std::string, Elementwise> kBinary = {
    {"add", [](double x, double y, double) { return x + y; }},
    {"sub", [](double x, double y, double) { return x - y; }},
    {"mul", [](double x, double y, double) { return x * y; }},
    {"div", [](double x, double y, double) { return x / y; }},
    {"pow", [](double x, double y, double) { return std::pow(x, y); }},
    {"max", [](double x, double y, double) { return std::max(x, y); }},
    {"min", [](double x, double y, double) { return std::min(x, y); }},
    {"mod", [](double x, double y, double) { return std::fmod(x, y); }},
    {"compare", [](double x, double y, double) { return x < y ? 1.0 : 0.0; }},
    {"logical", [](double x, double y, double) { return x != 0 && y != 0 ? 1.0 : 0.0; }}};
const std::map<std::string, Elementwise> kBinaryOnly = {
    {"silu_mul", [](double x, double y, double) { return x * Sigmoid(x) * y; }},
    {"accumulate_gradient", [](double x, double y, double) { return x + y; }},
    {"where", [](double x, double y, double) { return x != 0 ? y : kScalar; }}};
const std::map<std::string, Elementwise> kTernary = {
    {"add", [](double x, double y, double z) { return x + y + z; }},
    {"where", [](double x, double y, double z) { return x != 0 ? y : z; }}};

Row Softmax(const Row& x) {
  const double greatest = *std::max_element(x.begin(), x.end());
  Row y;
  for (double v : x) y.push_back(std::exp(v - greatest));
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  for (double& v : y) v /= sum;
  return y;
}
Row Norm(const Row& x, const Row& weights, bool centred) {
  const auto n = static_cast<double>(x.size());
  const double mean = centred ? std::accumulate(x.begin(), x.end(), 0.0) / n : 0;
  double squares = 0;
  for (double v : x) squares += (v - mean) * (v - mean);
  const double scale = 1 / std::sqrt(squares / n + 1e-5);
  Row y;
  for (std::size_t j = 0; j < x.size(); ++j)
    y.push_back((x[j] - mean) * scale * weights[j] + (centred ? weights[x.size() + j] : 0));
  return y;
}
Row Rope(const Row& x, double row) {
  Row y = x;
  const std::size_t half = x.size() / 2;
  for (std::size_t j = 0; j < half; ++j) {
    const double angle = row * std::exp2(-13.3 * static_cast<double>(j) / static_cast<double>(half));
    y[j] = x[j] * std::cos(angle) - x[half + j] * std::sin(angle);
    y[half + j] = x[j] * std::sin(angle) + x[half + j] * std::cos(angle);
  }
  return y;
}

Row RunningSum(const Row& x) {
  Row y;
  std::partial_sum(x.begin(), x.end(), std::back_inserter(y));
  return y;
}
Row MeanOfNeighbours(const Row& x) {
  Row y = x;
  for (std::size_t j = 0; j + 1 < x.size(); ++j) y[j] = (x[j] + x[j + 1]) / 2;
  return y;
}

// Word `i % 4` of Philox-4x32-10 with counter i / 4 and key 0 (Salmon et al. 2011, section 3).
std::uint32_t RandomWord(std::uint64_t i) {
  std::array<std::uint32_t, 4> c = {static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(i / 4 >> 32), 0, 0};
  std::array<std::uint32_t, 2> key = {0, 0};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return c[i % 4];
}

class VectorKernelsDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<KernelDevice> opened = OpenKernelDevice();
    if (!opened.ok()) GTEST_SKIP() << opened.status();
    driver_ = std::move(opened->driver);
    device_ = std::move(opened->device);
    floats_ = std::move(opened->floats);
    library_ = LoadVectorLibrary(*device_, VectorKernelsPtx()).value();
    stream_ = device_->CreateStream().value();
  }

  struct Ran {
    std::vector<Row> inputs;  // of all elements
    Row weights;
    Row output;
  };
  Ran Run(const Vector& vector, DType dtype) {
    const auto operation = library_->Prepare({.dtype = dtype, .work = vector}).value();
    const OperandBytes& bytes = operation->bytes();
    const std::size_t size = static_cast<std::size_t>(BitsOf(dtype).activation) / 8;
    Ran ran;
    Operands operands;
    std::vector<DeviceBuffer> buffers;
    const auto place = [&](std::size_t count, Row& values) {
      std::vector<std::byte> data = RandomElements(count, dtype);
      // Inputs differ: one is the other, shifted.
      std::rotate(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(buffers.size() * size % count), data.end());
      buffers.push_back(DeviceBuffer::Allocate(*device_, count).value());
      EXPECT_TRUE(device_->CopyToDevice(buffers.back().pointer(), data).ok());
      for (std::size_t i = 0; i < count; i += size) values.push_back(ValueOf(data.data() + i, dtype));
      return buffers.back().pointer();
    };
    for (std::size_t i = 0; i < bytes.inputs.size() && bytes.inputs[i] > 0; ++i)
      operands.inputs[i] = place(bytes.inputs[i], ran.inputs.emplace_back());
    if (bytes.weights > 0) operands.weights = place(bytes.weights, ran.weights);
    Row ignored;
    operands.output = place(bytes.output, ignored);
    EXPECT_TRUE(operation->Enqueue(operands, stream_).ok());
    EXPECT_TRUE(device_->Synchronize(stream_).ok());
    std::vector<std::byte> output(bytes.output);
    EXPECT_TRUE(device_->CopyToHost(output, operands.output).ok());
    for (std::size_t i = 0; i < output.size(); i += size) ran.output.push_back(ValueOf(output.data() + i, dtype));
    return ran;
  }

  void CheckElementwise(const std::string& op, int operands, const Elementwise& reference, DType dtype) {
    // Whole packs, and some elements more.
    for (std::int64_t cols : {1, 7, 1'024, 5'003}) {
      const Ran ran = Run({.op = op, .rows = 3, .cols = cols, .operands = operands}, dtype);
      for (std::size_t i = 0; i < ran.output.size(); ++i) {
        const double x = ran.inputs[0][i];
        const double y = operands > 1 ? ran.inputs[1][i] : dtype == DType::kInt8 ? 0.5 : kScalar;
        const double expected = reference(x, y, operands > 2 ? ran.inputs[2][i] : 0);
        if (dtype == DType::kInt8) {
          EXPECT_EQ(ran.output[i], static_cast<double>(static_cast<std::int8_t>(expected))) << op;
        } else if (std::isfinite(expected)) {
          EXPECT_NEAR(ran.output[i], expected, ToleranceOf(dtype) * (1 + std::abs(expected))) << op;
        }
      }
    }
  }
  void CheckRows(const std::string& op, DType dtype,
                 const std::function<Row(const Row&, const Row&, double)>& reference) {
    for (std::int64_t cols : {2, 64, 1'000, 4'098}) {
      constexpr std::int64_t kRows = 5;
      const Ran ran = Run({.op = op, .rows = kRows, .cols = cols}, dtype);
      const auto per_row = ran.output.size() / kRows;
      for (std::size_t row = 0; row < kRows; ++row) {
        const auto begin = ran.inputs[0].begin() + static_cast<std::ptrdiff_t>(row) * cols;
        const Row expected = reference(Row(begin, begin + cols), ran.weights, static_cast<double>(row));
        for (std::size_t j = 0; j < per_row; ++j) {
          EXPECT_NEAR(ran.output[row * per_row + j], expected[j], 4 * ToleranceOf(dtype) * (1 + std::abs(expected[j])))
              << op << " row " << row << " column " << j;
        }
      }
    }
  }

  std::shared_ptr<void> driver_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<OperatorLibrary> library_;
  StreamHandle stream_{};
  std::vector<DType> floats_;
};

TEST_F(VectorKernelsDeviceTest, ElementwiseOperators) {
  for (DType dtype : floats_) {
    for (const auto& [op, reference] : kUnary) CheckElementwise(op, 1, reference, dtype);
    for (const auto& [op, reference] : kBinary) {
      CheckElementwise(op, 1, reference, dtype);
      CheckElementwise(op, 2, reference, dtype);
    }
    for (const auto& [op, reference] : kBinaryOnly) CheckElementwise(op, 2, reference, dtype);
    for (const auto& [op, reference] : kTernary) CheckElementwise(op, 3, reference, dtype);
  }
}

TEST_F(VectorKernelsDeviceTest, ElementwiseOperatorsOfIndicesAndMasks) {
  for (DType dtype : {DType::kFp64, DType::kInt8}) {
    for (const char* op : {"add", "sub", "max", "min", "compare", "logical"})
      CheckElementwise(op, 2, kBinary.at(op), dtype);
    for (const char* op : {"copy", "cast"}) CheckElementwise(op, 1, kUnary.at(op), dtype);
    CheckElementwise("where", 3, kTernary.at("where"), dtype);
  }
  // A product of two masks' numbers would not fit a byte.
  for (int operands : {1, 2}) CheckElementwise("mul", operands, kBinary.at("mul"), DType::kFp64);
}

TEST_F(VectorKernelsDeviceTest, BatchnormScalesChannels) {
  for (DType dtype : floats_) {
    for (std::int64_t operands : {1, 2}) {
      constexpr std::int64_t kRows = 6;
      constexpr std::int64_t kCols = 1'003;
      const Ran ran = Run({.op = "batchnorm", .rows = kRows, .cols = kCols, .operands = operands}, dtype);
      for (std::size_t i = 0; i < ran.output.size(); ++i) {
        const std::size_t row = i / kCols;
        const double shift = ran.weights[2 * row + 1];
        const double expected =
            ran.inputs[0][i] * ran.weights[2 * row] + (operands > 1 ? ran.inputs[1][i] * shift : shift);
        EXPECT_NEAR(ran.output[i], expected, ToleranceOf(dtype) * (1 + std::abs(expected))) << i;
      }
    }
  }
}

TEST_F(VectorKernelsDeviceTest, PoolingTakesTheGreatestOfAWindow) {
  for (DType dtype : floats_) {
    for (std::int64_t stride : {1, 4, 9}) {
      constexpr std::int64_t kCols = 77;
      const Ran ran = Run({.op = "pool", .rows = 5, .cols = kCols, .operands = stride}, dtype);
      for (std::int64_t i = 0; i < 5 * kCols; ++i) {
        const std::int64_t row = i / kCols * kCols * stride;
        const std::int64_t begin = std::max<std::int64_t>(i % kCols * stride - 1, 0);
        const std::int64_t end = std::min((i % kCols + 1) * stride + 1, kCols * stride);
        EXPECT_EQ(ran.output[static_cast<std::size_t>(i)],
                  *std::max_element(ran.inputs[0].begin() + row + begin, ran.inputs[0].begin() + row + end));
      }
    }
  }
}

TEST_F(VectorKernelsDeviceTest, TransposeMovesEveryElement) {
  for (DType dtype : floats_) {
    for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{1, 1}, {32, 32}, {65, 33}, {7, 1'000}}) {
      const Ran ran = Run(
          {.op = "transpose", .rows = static_cast<std::int64_t>(rows), .cols = static_cast<std::int64_t>(cols)}, dtype);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) EXPECT_EQ(ran.output[c * rows + r], ran.inputs[0][r * cols + c]);
      }
    }
  }
}

TEST_F(VectorKernelsDeviceTest, DropoutDropsATenthAndScalesTheRest) {
  // The answer that the authors publish for counter and key 0.
  const std::uint32_t known[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(RandomWord(i), known[i]);
  for (DType dtype : floats_) {
    const Ran ran = Run({.op = "dropout", .rows = 3, .cols = 10'001}, dtype);
    double dropped = 0;
    for (std::size_t i = 0; i < ran.output.size(); ++i) {
      const bool drops = RandomWord(i) < 429'496'730U;
      dropped += drops ? 1 : 0;
      const double expected = drops ? 0 : ran.inputs[0][i] / 0.9;
      EXPECT_NEAR(ran.output[i], expected, ToleranceOf(dtype) * (1 + std::abs(expected))) << i;
    }
    EXPECT_NEAR(dropped / static_cast<double>(ran.output.size()), 0.1, 0.01);
  }
}

TEST_F(VectorKernelsDeviceTest, AnOptimisersStepMovesAgainstTheGradient) {
  const Ran ran = Run({.op = "adam", .rows = 3, .cols = 1'001, .operands = 6}, DType::kFp32);
  for (std::size_t i = 0; i < ran.output.size(); ++i) {
    const double g = ran.inputs[1][i];
    const double m = 0.9 * ran.inputs[2][i] + 0.1 * g;
    const double v = 0.999 * ran.inputs[3][i] + 0.001 * g * g;
    if (v < 1e-4) continue;  // of numbers that may be negative here
    const double expected = ran.inputs[0][i] - 1e-3 * m / (std::sqrt(v) + 1e-8);
    EXPECT_NEAR(ran.output[i], expected, 1e-4 * (1 + std::abs(expected))) << i;
  }
}

TEST_F(VectorKernelsDeviceTest, RowOperators) {
  for (DType dtype : floats_) {
    CheckRows("softmax", dtype, [](const Row& x, const Row&, double) { return Softmax(x); });
    CheckRows("layernorm", dtype, [](const Row& x, const Row& w, double) { return Norm(x, w, true); });
    CheckRows("groupnorm", dtype, [](const Row& x, const Row& w, double) { return Norm(x, w, true); });
    CheckRows("resize", dtype, [](const Row& x, const Row&, double) { return MeanOfNeighbours(x); });
    CheckRows("rmsnorm", dtype, [](const Row& x, const Row& w, double) { return Norm(x, w, false); });
    CheckRows("rope", dtype, [](const Row& x, const Row&, double row) { return Rope(x, row); });
    CheckRows("reduce", dtype,
              [](const Row& x, const Row&, double) { return Row{std::accumulate(x.begin(), x.end(), 0.0)}; });
    CheckRows("cumsum", dtype, [](const Row& x, const Row&, double) { return RunningSum(x); });
  }
}

TEST_F(VectorKernelsDeviceTest, EmbeddingGathersRowsOfTheTable) {
  constexpr std::int64_t kRows = 17;
  constexpr std::int64_t kCols = 96;
  for (DType dtype : floats_) {
    const Ran ran = Run({.op = "embedding", .rows = kRows, .cols = kCols}, dtype);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const std::int64_t token = row * 2654435761LL % kRows;
      for (std::int64_t j = 0; j < kCols; ++j) {
        EXPECT_EQ(ran.output[static_cast<std::size_t>(row * kCols + j)],
                  ran.inputs[0][static_cast<std::size_t>(token * kCols + j)]);
      }
    }
  }
}

}  // namespace
}  // namespace gpueta
