// Convolutions, attention and their gradients through cuDNN against references on the CPU.
// Runs where there are a device and cuDNN.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/cuda/ops/cudnn_library.h"
#include "calibration/backends/cuda/ops/operand_memory.h"
#include "calibration/backends/cuda/ops/testing_elements.h"

namespace gpueta {
namespace {

using Values = std::vector<double>;

std::size_t SizeOf(DType dtype) { return static_cast<std::size_t>(BitsOf(dtype).activation) / 8; }

Values ValuesIn(std::span<const std::byte> bytes, DType dtype) {
  Values values;
  for (std::size_t i = 0; i + SizeOf(dtype) <= bytes.size(); i += SizeOf(dtype)) {
    values.push_back(ValueOf(bytes.data() + i, dtype));
  }
  return values;
}

class CudnnDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = OpenCudaDriver();
    if (!driver.ok()) GTEST_SKIP() << driver.status();
    driver_ = *std::move(driver);
    device_ = driver_->Open(0).value();
    auto library = OpenCudnn(*device_);
    if (!library.ok()) GTEST_SKIP() << library.status();
    library_ = *std::move(library);
    stream_ = device_->CreateStream().value();
  }

  // Random inputs and weights, the inputs unlike each other.
  struct Memory {
    std::array<std::vector<std::byte>, kMaxCudaInputs> inputs;
    std::vector<std::byte> weights;
    std::vector<std::byte> output;
  };
  static Memory Random(const OperandBytes& bytes, DType dtype) {
    Memory memory;
    const auto fill = [&](std::vector<std::byte>& to, std::size_t size, std::size_t shift) {
      to = RandomElements(size, dtype);
      if (size > 0) {
        std::rotate(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(shift * SizeOf(dtype) % size), to.end());
      }
    };
    for (std::size_t i = 0; i < kMaxCudaInputs; ++i) fill(memory.inputs[i], bytes.inputs[i], 17 * i);
    fill(memory.weights, bytes.weights, 101);
    memory.output.resize(bytes.output);
    return memory;
  }
  void Run(Operation& operation, Memory& memory) {
    std::vector<DeviceBuffer> buffers;
    const auto place = [&](std::span<const std::byte> data, std::size_t size) -> DevicePointer {
      if (size == 0) return 0;
      buffers.push_back(DeviceBuffer::Allocate(*device_, size).value());
      if (!data.empty()) {
        EXPECT_TRUE(device_->CopyToDevice(buffers.back().pointer(), data).ok());
      }
      return buffers.back().pointer();
    };
    Operands operands;
    for (std::size_t i = 0; i < kMaxCudaInputs; ++i) {
      operands.inputs[i] = place(memory.inputs[i], memory.inputs[i].size());
    }
    operands.weights = place(memory.weights, memory.weights.size());
    operands.output = place(memory.output, memory.output.size());
    operands.workspace = place({}, operation.bytes().workspace);
    const absl::Status status = operation.Enqueue(operands, stream_);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(device_->Synchronize(stream_).ok());
    ASSERT_TRUE(device_->CopyToHost(memory.output, operands.output).ok());
  }
  // nullptr where cuDNN has no engine for it on this device.
  std::unique_ptr<Operation> Prepare(const Kernel& kernel) {
    auto operation = library_->Prepare(kernel);
    if (absl::IsUnimplemented(operation.status())) {
      std::printf("%s by %s: %s\n", Describe(kernel).c_str(), kernel.launch.kernel.c_str(),
                  operation.status().ToString().c_str());
      return nullptr;
    }
    EXPECT_TRUE(operation.ok()) << operation.status();
    return operation.ok() ? *std::move(operation) : nullptr;
  }
  void CheckConvolution(const Conv2d& conv, DType dtype, const std::string& pass);
  void CheckForward(const Attention& attention);
  void CheckBackward(const Attention& attention);

  std::unique_ptr<CudaDriver> driver_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<OperatorLibrary> library_;
  StreamHandle stream_{};
};

// Where n, c, h, w lies: NHWC in 16 bits.
std::size_t At(const std::array<std::int64_t, 4>& sizes, DType dtype, std::int64_t n, std::int64_t c, std::int64_t h,
               std::int64_t w) {
  const std::int64_t at = SizeOf(dtype) == 2 ? ((n * sizes[2] + h) * sizes[3] + w) * sizes[1] + c
                                             : ((n * sizes[1] + c) * sizes[2] + h) * sizes[3] + w;
  return static_cast<std::size_t>(at);
}

void CudnnDeviceTest::CheckConvolution(const Conv2d& conv, DType dtype, const std::string& pass) {
  const auto operation = Prepare({.dtype = dtype, .work = conv, .launch = {.kernel = pass}});
  if (operation == nullptr) return;
  EXPECT_EQ(operation->launch().kernel.substr(0, pass.size() + 4), pass + "_eng");
  Memory memory = Random(operation->bytes(), dtype);
  Run(*operation, memory);
  const bool data = pass == "cudnn_dgrad";
  const bool weight = pass == "cudnn_wgrad";
  const std::array<std::int64_t, 4> x_sizes = {conv.batch, conv.in_channels, conv.height, conv.width};
  const std::array<std::int64_t, 4> w_sizes = {conv.out_channels, conv.in_channels / conv.groups, conv.kernel_h,
                                               conv.kernel_w};
  const std::array<std::int64_t, 4> y_sizes = {conv.batch, conv.out_channels, OutHeight(conv), OutWidth(conv)};
  const Values output = ValuesIn(memory.output, dtype);
  Values expected(output.size());
  const Values x = data ? Values() : ValuesIn(memory.inputs[0], dtype);
  const Values w = weight ? Values() : ValuesIn(memory.weights, dtype);
  const Values y = data ? ValuesIn(memory.inputs[0], dtype) : weight ? ValuesIn(memory.inputs[1], dtype) : Values();
  const std::int64_t out_per_group = conv.out_channels / conv.groups;
  for (std::int64_t n = 0; n < conv.batch; ++n) {
    for (std::int64_t oc = 0; oc < conv.out_channels; ++oc) {
      for (std::int64_t oh = 0; oh < y_sizes[2]; ++oh) {
        for (std::int64_t ow = 0; ow < y_sizes[3]; ++ow) {
          for (std::int64_t ic = 0; ic < w_sizes[1]; ++ic) {
            for (std::int64_t kh = 0; kh < conv.kernel_h; ++kh) {
              for (std::int64_t kw = 0; kw < conv.kernel_w; ++kw) {
                const std::int64_t ih = oh * conv.stride_h + kh * conv.dilation_h - conv.pad_h;
                const std::int64_t iw = ow * conv.stride_w + kw * conv.dilation_w - conv.pad_w;
                if (ih < 0 || ih >= conv.height || iw < 0 || iw >= conv.width) continue;
                const std::int64_t channel = oc / out_per_group * w_sizes[1] + ic;
                const std::size_t at_x = At(x_sizes, dtype, n, channel, ih, iw);
                const std::size_t at_w = At(w_sizes, dtype, oc, ic, kh, kw);
                const std::size_t at_y = At(y_sizes, dtype, n, oc, oh, ow);
                if (data) {
                  expected[at_x] += y[at_y] * w[at_w];
                } else if (weight) {
                  expected[at_w] += y[at_y] * x[at_x];
                } else {
                  expected[at_y] += x[at_x] * w[at_w];
                }
              }
            }
          }
        }
      }
    }
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    // Engines may transform tiles (Winograd), which costs some bits.
    ASSERT_NEAR(output[i], expected[i], 20 * ToleranceOf(dtype) * (1 + std::abs(expected[i])))
        << operation->launch().kernel << " element " << i;
  }
}

TEST_F(CudnnDeviceTest, ConvolutionsAndTheirGradients) {
  const Conv2d kConvolutions[] = {
      {.batch = 2,
       .in_channels = 16,
       .height = 9,
       .width = 7,
       .out_channels = 24,
       .kernel_h = 3,
       .kernel_w = 3,
       .pad_h = 1,
       .pad_w = 1},
      {.batch = 1,
       .in_channels = 8,
       .height = 12,
       .width = 12,
       .out_channels = 16,
       .kernel_h = 5,
       .kernel_w = 3,
       .stride_h = 2,
       .stride_w = 2,
       .pad_h = 2,
       .pad_w = 1},
      {.batch = 2, .in_channels = 32, .height = 8, .width = 8, .out_channels = 16, .kernel_h = 1, .kernel_w = 1},
      {.batch = 2,
       .in_channels = 16,
       .height = 8,
       .width = 8,
       .out_channels = 16,
       .kernel_h = 3,
       .kernel_w = 3,
       .pad_h = 1,
       .pad_w = 1,
       .groups = 16}};
  for (const Conv2d& conv : kConvolutions) {
    for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
      for (const char* pass : {"cudnn", "cudnn_dgrad", "cudnn_wgrad"}) {
        CheckConvolution(conv, dtype, pass);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Rows by batch, row, head.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  std::size_t operator()(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t d) const {
    return static_cast<std::size_t>(((b * rows + r) * heads + h) * dim + d);
  }
};

// The reference: output, the logarithm of each row's sum, and the gradients for one of the
// output.
struct Reference {
  Values output, statistics, dq, dk, dv;
};
Reference ReferenceOf(const Attention& a, const Values& q, const Values& k, const Values& v, const Values& gradient) {
  const Rows queries{a.query_len, a.heads, a.head_dim};
  const Rows keys{a.kv_len, a.kv_heads, a.head_dim};
  Reference r{.output = Values(q.size()),
              .statistics = Values(static_cast<std::size_t>(a.batch * a.heads * a.query_len)),
              .dq = Values(q.size()),
              .dk = Values(k.size()),
              .dv = Values(v.size())};
  const double scale = 1 / std::sqrt(static_cast<double>(a.head_dim));
  const auto dot = [&](const Values& x, std::size_t i, const Values& y, std::size_t j) {
    double sum = 0;
    for (std::int64_t d = 0; d < a.head_dim; ++d)
      sum += x[i + static_cast<std::size_t>(d)] * y[j + static_cast<std::size_t>(d)];
    return sum;
  };
  for (std::int64_t b = 0; b < a.batch; ++b) {
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const std::int64_t kv_h = h / (a.heads / a.kv_heads);
      for (std::int64_t i = 0; i < a.query_len; ++i) {
        const std::size_t at_q = queries(b, h, i, 0);
        const std::int64_t seen = a.causal != 0 && a.query_len > 1 ? a.kv_len - a.query_len + i + 1 : a.kv_len;
        Values shares;
        double sum = 0;
        for (std::int64_t j = 0; j < seen; ++j) {
          shares.push_back(std::exp(scale * dot(q, at_q, k, keys(b, kv_h, j, 0))));
          sum += shares.back();
        }
        r.statistics[static_cast<std::size_t>((b * a.heads + h) * a.query_len + i)] = std::log(sum);
        for (std::int64_t j = 0; j < seen; ++j) {
          shares[static_cast<std::size_t>(j)] /= sum;
          for (std::int64_t d = 0; d < a.head_dim; ++d) {
            r.output[queries(b, h, i, d)] += shares[static_cast<std::size_t>(j)] * v[keys(b, kv_h, j, d)];
          }
        }
        if (gradient.empty()) continue;
        const double centre = dot(gradient, at_q, r.output, at_q);
        for (std::int64_t j = 0; j < seen; ++j) {
          const double share = shares[static_cast<std::size_t>(j)];
          const std::size_t at_k = keys(b, kv_h, j, 0);
          const double d_score = share * (dot(gradient, at_q, v, at_k) - centre) * scale;
          for (std::int64_t d = 0; d < a.head_dim; ++d) {
            const auto offset = static_cast<std::size_t>(d);
            r.dv[at_k + offset] += share * gradient[at_q + offset];
            r.dk[at_k + offset] += d_score * q[at_q + offset];
            r.dq[at_q + offset] += d_score * k[at_k + offset];
          }
        }
      }
    }
  }
  return r;
}

constexpr std::size_t Placed(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

void ExpectNear(const Values& values, std::size_t offset, const Values& expected, const char* what) {
  ASSERT_GE(values.size(), offset + expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(values[offset + i], expected[i], 2 * ToleranceOf(DType::kBf16) * (1 + std::abs(expected[i])))
        << what << " element " << i;
  }
}

void CudnnDeviceTest::CheckForward(const Attention& attention) {
  const auto operation = Prepare({.dtype = DType::kBf16, .work = attention});
  if (operation == nullptr) return;
  Memory memory = Random(operation->bytes(), DType::kBf16);
  Run(*operation, memory);
  const Values q = ValuesIn(memory.inputs[0], DType::kBf16);
  Values k = ValuesIn(memory.inputs[1], DType::kBf16);
  Values v = ValuesIn(memory.inputs[2], DType::kBf16);
  if (attention.phase == Attention::Phase::kDecode || attention.kv_len > attention.query_len) {
    const Values cache = ValuesIn(memory.weights, DType::kBf16);
    const auto count =
        static_cast<std::ptrdiff_t>(attention.batch * attention.kv_len * attention.kv_heads * attention.head_dim);
    const auto second = static_cast<std::ptrdiff_t>(Placed(2 * static_cast<std::size_t>(count)) / 2);
    k.assign(cache.begin(), cache.begin() + count);
    v.assign(cache.begin() + second, cache.begin() + second + count);
  }
  ExpectNear(ValuesIn(memory.output, DType::kBf16), 0, ReferenceOf(attention, q, k, v, {}).output, "output");
}

void CudnnDeviceTest::CheckBackward(const Attention& attention) {
  const auto operation = Prepare({.dtype = DType::kBf16, .work = attention, .launch = {.kernel = "cudnn_bwd"}});
  if (operation == nullptr) return;
  Memory memory = Random(operation->bytes(), DType::kBf16);
  const Values q = ValuesIn(memory.inputs[0], DType::kBf16);
  const Values k = ValuesIn(memory.inputs[1], DType::kBf16);
  const Values v = ValuesIn(memory.inputs[2], DType::kBf16);
  // Output, its gradient, statistics.
  std::vector<std::byte>& saved = memory.inputs[3];
  const std::size_t rows_bytes = q.size() * 2;
  const Values gradient = ValuesIn(std::span(saved).subspan(Placed(rows_bytes), rows_bytes), DType::kBf16);
  const Reference reference = ReferenceOf(attention, q, k, v, gradient);
  for (std::size_t i = 0; i < q.size(); ++i) {
    const std::uint16_t bits = Bf16Of(reference.output[i]);
    std::memcpy(saved.data() + 2 * i, &bits, 2);
  }
  for (std::size_t i = 0; i < reference.statistics.size(); ++i) {
    const auto value = static_cast<float>(reference.statistics[i]);
    std::memcpy(saved.data() + 2 * Placed(rows_bytes) + 4 * i, &value, 4);
  }
  Run(*operation, memory);
  const Values output = ValuesIn(memory.output, DType::kBf16);
  const std::size_t second = Placed(rows_bytes) / 2;
  ExpectNear(output, 0, reference.dq, "gradient of queries");
  ExpectNear(output, second, reference.dk, "gradient of keys");
  ExpectNear(output, second + Placed(2 * k.size()) / 2, reference.dv, "gradient of values");
}

TEST_F(CudnnDeviceTest, AttentionAndItsGradients) {
  for (const std::int64_t causal : {0, 1}) {
    for (const std::int64_t kv_heads : {4, 2}) {
      const Attention attention{.batch = 2,
                                .query_len = 128,
                                .kv_len = 128,
                                .heads = 4,
                                .kv_heads = kv_heads,
                                .head_dim = 64,
                                .causal = causal};
      CheckForward(attention);
      CheckBackward(attention);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudnnDeviceTest, AttentionOfOneQueryOverACache) {
  CheckForward({.phase = Attention::Phase::kDecode,
                .batch = 3,
                .query_len = 1,
                .kv_len = 192,
                .heads = 8,
                .kv_heads = 2,
                .head_dim = 64,
                .causal = 1});
}

// Chunks of a prompt: each query sees the prefix and the chunk up to itself.
TEST_F(CudnnDeviceTest, CausalAttentionBehindACachedPrefix) {
  for (const std::int64_t query_len : {128, 64, 40}) {
    for (const std::int64_t kv_heads : {4, 2}) {
      CheckForward({.batch = 2,
                    .query_len = query_len,
                    .kv_len = 256,
                    .heads = 4,
                    .kv_heads = kv_heads,
                    .head_dim = 64,
                    .causal = 1});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudnnDeviceTest, EveryEngineOfAPassIsNamedByIt) {
  const Kernel kernel{.dtype = DType::kFp16,
                      .work = Conv2d{.batch = 8,
                                     .in_channels = 64,
                                     .height = 28,
                                     .width = 28,
                                     .out_channels = 64,
                                     .kernel_h = 3,
                                     .kernel_w = 3,
                                     .pad_h = 1,
                                     .pad_w = 1},
                      .launch = {.kernel = "cudnn_wgrad"}};
  const auto names = library_->Algorithms(kernel);
  ASSERT_TRUE(names.ok()) << names.status();
  ASSERT_FALSE(names->empty());
  for (const std::string& name : *names) {
    Kernel by = kernel;
    by.launch.kernel = name;
    const auto operation = library_->Prepare(by);
    ASSERT_TRUE(operation.ok()) << name << ": " << operation.status();
    EXPECT_EQ((*operation)->launch().kernel, name);
  }
}

}  // namespace
}  // namespace gpueta
