#include "calibration/backends/cpu/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "calibration/backends/cpu/buffers.h"
#include "calibration/backends/cpu/loops.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using testing::HasSubstr;

Kernel VectorKernel(const std::string& op, std::int64_t operands = 1, DType dtype = DType::kFp32) {
  return {.dtype = dtype, .work = Vector{.op = op, .rows = 5, .cols = 70, .operands = operands}};
}

// Every vector operator of core/ops/vector with the operands it occurs with.
const std::vector<std::pair<const char*, std::int64_t>> kVectorOps = {
    {"add", 1},       {"add", 2},         {"sub", 1},       {"sub", 2},        {"mul", 1},       {"mul", 2},
    {"div", 1},       {"div", 2},         {"pow", 1},       {"pow", 2},        {"sqrt", 1},      {"relu", 1},
    {"clip", 1},      {"abs", 1},         {"neg", 1},       {"gelu", 1},       {"erf", 1},       {"tanh", 1},
    {"sigmoid", 1},   {"exp", 1},         {"log", 1},       {"sin", 1},        {"cos", 1},       {"silu", 1},
    {"hardswish", 1}, {"hardsigmoid", 1}, {"silu_mul", 2},  {"reciprocal", 1}, {"max", 1},       {"max", 2},
    {"min", 1},       {"min", 2},         {"where", 1},     {"where", 2},      {"where", 3},     {"compare", 1},
    {"compare", 2},   {"logical", 1},     {"logical", 2},   {"mod", 1},        {"mod", 2},       {"cast", 1},
    {"copy", 1},      {"rope", 1},        {"embedding", 1}, {"softmax", 1},    {"layernorm", 1}, {"rmsnorm", 1},
    {"batchnorm", 1}, {"groupnorm", 1},   {"reduce", 1},    {"cumsum", 1},     {"pool", 1},      {"pool", 4},
    {"resize", 1},
};

// The buffers of an operator, with what they hold.
class Tensors {
 public:
  explicit Tensors(const BufferSizes& sizes) {
    for (std::size_t i = 0; i < kMaxInputs; ++i) buffers_.inputs[i] = Add(sizes.inputs[i]);
    buffers_.weights = Add(sizes.weights);
    buffers_.output = Add(sizes.output);
    buffers_.scratch = Add(sizes.scratch);
  }
  const Buffers& buffers() const { return buffers_; }

 private:
  std::byte* Add(std::size_t bytes) {
    owned_.push_back(*Buffer::Random(bytes, DType::kFp32, 1, "test"));
    return owned_.back().data();
  }
  std::vector<Buffer> owned_;
  Buffers buffers_;
};

std::vector<float> ReadFloats(const std::byte* data, std::size_t count) {
  std::vector<float> values(count);
  std::memcpy(values.data(), data, count * sizeof(float));
  return values;
}

absl::Status RunOnceOn(const Kernel& kernel) {
  GPUETA_ASSIGN_OR_RETURN(const CpuOperator op, MakeCpuOperator(kernel, OneDnn()));
  const Tensors tensors(op.sizes);
  op.bind(tensors.buffers())();
  return absl::OkStatus();
}

TEST(CpuOperatorTest, IndicesAndMasksMoveTheirBytes) {
  for (DType dtype : {DType::kFp64, DType::kInt8}) {
    for (const char* op : {"copy", "add", "compare", "logical", "cast", "mul", "max"})
      EXPECT_EQ(RunOnceOn(VectorKernel(op, 1, dtype)), absl::OkStatus()) << op;
  }
}

TEST(CpuOperatorTest, RunsEveryVectorOperator) {
  for (const auto& [name, operands] : kVectorOps) {
    EXPECT_EQ(RunOnceOn(VectorKernel(name, operands)), absl::OkStatus()) << name << "/" << operands;
    if (!IsNativeOnCpu(DType::kBf16)) continue;
    EXPECT_EQ(RunOnceOn(VectorKernel(name, operands, DType::kBf16)), absl::OkStatus()) << name << "/" << operands;
  }
}

TEST(CpuOperatorTest, VectorOperatorsReadAndWriteWhatTheyCount) {
  for (const auto& [name, operands] : kVectorOps) {
    const std::string op = name;
    // These read or write less than the count of a vector operator says.
    if (op == "embedding" || op == "reduce") continue;
    const Kernel kernel = VectorKernel(name, operands);
    const auto made = MakeCpuOperator(kernel, OneDnn());
    ASSERT_TRUE(made.ok()) << made.status();
    const BufferSizes& sizes = made->sizes;
    const std::size_t read = sizes.inputs[0] + sizes.inputs[1] + sizes.inputs[2];
    EXPECT_EQ(static_cast<std::int64_t>(read), CountsOf(kernel).bytes_read.value()) << op;
    EXPECT_EQ(static_cast<std::int64_t>(sizes.output), CountsOf(kernel).bytes_written.value()) << op;
  }
}

TEST(CpuOperatorTest, RunsProductsAndConvolutions) {
  const auto conv = [](auto change) {
    Conv2d c{.batch = 2, .in_channels = 8, .height = 9, .width = 7, .out_channels = 12, .kernel_h = 3, .kernel_w = 3};
    change(c);
    return Work(c);
  };
  const Work kWork[] = {
      Gemm{.layer = Gemm::Layer::kLinear, .m = 3, .n = 20, .k = 17},
      Gemm{.layer = Gemm::Layer::kGemm, .batch = 2, .m = 3, .n = 20, .k = 17},
      Gemm{.layer = Gemm::Layer::kBmm, .batch = 4, .m = 3, .n = 20, .k = 17},
      conv([](Conv2d&) {}),
      conv([](Conv2d& c) { c.in_channels = 3; }),
      conv([](Conv2d& c) { c.groups = 4; }),
      conv([](Conv2d& c) { c.groups = c.out_channels = 8; }),
      conv([](Conv2d& c) { c.pad_h = c.pad_w = 1, c.stride_h = c.stride_w = 2; }),
      conv([](Conv2d& c) { c.dilation_h = c.dilation_w = 2; }),
      conv([](Conv2d& c) { c.extra_pad_h = c.extra_pad_w = 1; }),
      conv([](Conv2d& c) { c.height = c.kernel_h = 1; }),
  };
  for (const Work& work : kWork) {
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      const Kernel kernel{.dtype = dtype, .work = work};
      if (!IsNativeOnCpu(dtype)) continue;
      EXPECT_EQ(RunOnceOn(kernel), absl::OkStatus()) << Describe(kernel);
    }
  }
}

TEST(CpuOperatorTest, MultipliesBytesWhereTheProcessorCan) {
  const Kernel kernel{.dtype = DType::kInt8, .work = Gemm{.layer = Gemm::Layer::kLinear, .m = 3, .n = 20, .k = 17}};
  EXPECT_EQ(RunOnceOn(kernel).code(),
            IsNativeOnCpu(DType::kInt8) ? absl::StatusCode::kOk : absl::StatusCode::kUnimplemented);
}

TEST(CpuOperatorTest, BatchedProductTakesBothOperandsAsActivations) {
  const Gemm g{.layer = Gemm::Layer::kBmm, .batch = 2, .m = 3, .n = 4, .k = 5};
  const auto op = MakeCpuOperator({.work = g}, OneDnn());
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(op->sizes.weights, 0U);
  const Tensors tensors(op->sizes);
  op->bind(tensors.buffers())();
  const std::vector<float> a = ReadFloats(tensors.buffers().inputs[0], 2 * 3 * 5);
  const std::vector<float> b = ReadFloats(tensors.buffers().inputs[1], 2 * 5 * 4);
  const std::vector<float> c = ReadFloats(tensors.buffers().output, 2 * 3 * 4);
  for (std::size_t batch = 0; batch < 2; ++batch) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        float sum = 0;
        for (std::size_t l = 0; l < 5; ++l) sum += a[(batch * 3 + i) * 5 + l] * b[(batch * 5 + l) * 4 + j];
        EXPECT_NEAR(c[(batch * 3 + i) * 4 + j], sum, 1e-4);
      }
    }
  }
}

// softmax(q · kᵀ / sqrt(dim)) · v, head by head, keys and values of a
// key-value head stored one after another.
std::vector<float> ReferenceAttention(const Attention& a, const std::vector<float>& q, const std::vector<float>& k,
                                      const std::vector<float>& v) {
  std::vector<float> out(q.size());
  const auto dim = static_cast<std::size_t>(a.head_dim);
  const auto keys = static_cast<std::size_t>(a.kv_len);
  const auto queries = static_cast<std::size_t>(a.query_len);
  const auto group = static_cast<std::size_t>(a.heads / a.kv_heads);
  for (std::size_t row = 0; row < q.size() / dim; ++row) {
    const std::size_t kv = row / (group * queries) * keys;  // first key of its key-value head
    const std::size_t visible = a.causal != 0 ? keys - queries + row % queries + 1 : keys;
    std::vector<double> weights;
    double total = 0;
    for (std::size_t key = 0; key < visible; ++key) {
      double score = 0;
      for (std::size_t i = 0; i < dim; ++i) score += q[row * dim + i] * k[(kv + key) * dim + i];
      weights.push_back(std::exp(score / std::sqrt(dim)));
      total += weights.back();
    }
    for (std::size_t i = 0; i < dim; ++i) {
      double sum = 0;
      for (std::size_t key = 0; key < visible; ++key) sum += weights[key] * v[(kv + key) * dim + i];
      out[row * dim + i] = static_cast<float>(sum / total);
    }
  }
  return out;
}

TEST(CpuOperatorTest, AttentionIsSoftmaxOfScoresTimesValues) {
  const Attention kCases[] = {
      {.batch = 2, .query_len = 3, .kv_len = 3, .heads = 4, .kv_heads = 4, .head_dim = 8, .kv_dtype = DType::kFp32},
      {.batch = 1,
       .query_len = 3,
       .kv_len = 5,
       .heads = 4,
       .kv_heads = 2,
       .head_dim = 8,
       .causal = 1,
       .kv_dtype = DType::kFp32},
      {.phase = Attention::Phase::kDecode,
       .batch = 2,
       .query_len = 1,
       .kv_len = 6,
       .heads = 4,
       .kv_heads = 1,
       .head_dim = 8,
       .kv_dtype = DType::kFp32},
  };
  for (const Attention& a : kCases) {
    const auto op = MakeCpuOperator({.work = a}, OneDnn());
    ASSERT_TRUE(op.ok()) << op.status();
    const Tensors tensors(op->sizes);
    op->bind(tensors.buffers())();
    const auto queries = static_cast<std::size_t>(a.batch * a.heads * a.query_len * a.head_dim);
    const auto values = static_cast<std::size_t>(a.batch * a.kv_heads * a.kv_len * a.head_dim);
    const bool decode = a.phase == Attention::Phase::kDecode;
    const std::byte* keys_at = decode ? tensors.buffers().weights : tensors.buffers().inputs[1];
    const std::byte* values_at =
        decode ? tensors.buffers().weights + values * sizeof(float) : tensors.buffers().inputs[2];
    EXPECT_THAT(ReadFloats(tensors.buffers().output, queries),
                testing::Pointwise(testing::FloatNear(1e-4F),
                                   ReferenceAttention(a, ReadFloats(tensors.buffers().inputs[0], queries),
                                                      ReadFloats(keys_at, values), ReadFloats(values_at, values))));
  }
}

TEST(CpuOperatorTest, SaysWhatItDoesNotSupport) {
  const Attention mixed{.query_len = 2, .kv_len = 2, .heads = 1, .kv_heads = 1, .head_dim = 8, .kv_dtype = DType::kFp8};
  const struct {
    Kernel kernel;
    absl::StatusCode code;
    const char* message;
  } kCases[] = {
      {{.dtype = DType::kFp16, .work = Gemm{.m = 1, .n = 1, .k = 1}}, absl::StatusCode::kUnimplemented, "not fp16"},
      {{.dtype = DType::kFp16, .work = Vector{.op = "add", .rows = 1, .cols = 1}},
       absl::StatusCode::kUnimplemented,
       "int8 for gemm"},
      {VectorKernel("scatter"), absl::StatusCode::kUnimplemented, "\"scatter\""},
      {VectorKernel("softmax", 2), absl::StatusCode::kUnimplemented, "2 operands"},
      {{.work = mixed}, absl::StatusCode::kUnimplemented, "fp8 cache"},
      {{.work = Collective{.op = "all_reduce", .bytes = 8, .ranks = 2}},
       absl::StatusCode::kUnimplemented,
       "collective"},
      {{.work = Custom{.op = "fft", .flops = 8, .bytes = 8}}, absl::StatusCode::kUnimplemented, "custom"},
      {{.work = Gemm{.m = 0, .n = 1, .k = 1}}, absl::StatusCode::kInvalidArgument, "m"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = SupportsOnCpu(c.kernel);
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr(c.message));
    EXPECT_EQ(MakeCpuOperator(c.kernel, OneDnn()).status(), status);
  }
}

TEST(BufferTest, RefusesMoreThanTheMemory) {
  const absl::Status status = Buffer::Allocate(std::size_t{1} << 50, "weights").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(status), HasSubstr("weights"));
}

TEST(BufferTest, RandomValuesAreNeitherZeroNorDenormal) {
  const Buffer buffer = *Buffer::Random(4'000, DType::kFp32, 1, "test");
  for (const float value : ReadFloats(buffer.data(), 1'000)) EXPECT_TRUE(std::isnormal(value)) << value;
}

}  // namespace
}  // namespace gpueta
