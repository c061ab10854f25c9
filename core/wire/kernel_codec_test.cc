#include "core/wire/kernel_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta::wire {
namespace {

using ::testing::HasSubstr;

v1::Kernel Message(const std::string& text) {
  v1::Kernel message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

void ExpectEqual(const Kernel& a, const Kernel& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.work, b.work);
  EXPECT_EQ(a.launch, b.launch);
}

TEST(KernelCodecTest, EveryKindRoundTripsForEveryDType) {
  const std::vector<Work> works = {
      Gemm{Gemm::Layer::kBmm, 2, 3, 5, 7},
      Conv2d{2, 6, 30, 31, 9, 3, 5, 2, 1, 1, 2, 3, 1, 2, -1, 1},
      Attention{Attention::Phase::kPrefill, 2, 16, 32, 8, 4, 64, 1, DType::kFp8},
      Attention{Attention::Phase::kDecode, 2, 1, 32, 8, 8, 64, 0, DType::kBf16},
      Moe{10, 64, 128, 2, 8, 2, 4, "balanced"},
      Vector{"softmax", 11, 13, 2},
      Collective{"all_reduce", "nccl-tests", 1 << 20, 8},
      Collective{"all_reduce", "nccl-tests", 1 << 20, 8, 4},
      Custom{"scan", 5, 9},
  };
  for (DType dtype : kAllDTypes) {
    for (const Work& work : works) {
      Kernel kernel;
      kernel.name = "layer.0";
      kernel.dtype = dtype;
      kernel.work = work;
      kernel.launch = {"ampere_sgemm", 4, 2, 1, 256};
      const absl::StatusOr<Kernel> decoded = Decode(Encode(kernel));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      ExpectEqual(*decoded, kernel);
    }
  }
}

TEST(KernelCodecTest, UnsetDimsTakeTheirDefaults) {
  const absl::StatusOr<Kernel> gemm = Decode(Message("dtype: DTYPE_FP16 gemm { m: 1 n: 2 k: 3 }"));
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  EXPECT_EQ(gemm->work, Work(Gemm{Gemm::Layer::kGemm, 1, 1, 2, 3}));
  EXPECT_EQ(gemm->launch, Launch{});

  const absl::StatusOr<Kernel> conv =
      Decode(Message("dtype: DTYPE_FP16 conv2d { batch: 1 in_channels: 3 height: 8 width: 8 out_channels: 4 kernel_h: "
                     "3 kernel_w: 3 }"));
  ASSERT_TRUE(conv.ok()) << conv.status();
  EXPECT_EQ(conv->work, Work(Conv2d{1, 3, 8, 8, 4, 3, 3}));

  const absl::StatusOr<Kernel> attention = Decode(
      Message("dtype: DTYPE_FP16 attention { phase: PHASE_DECODE batch: 1 query_len: 1 kv_len: 9 heads: 2 kv_heads: 1 "
              "head_dim: 64 }"));
  ASSERT_TRUE(attention.ok()) << attention.status();
  EXPECT_EQ(std::get<Attention>(attention->work).kv_dtype, DType::kFp16);
}

struct BadKernel {
  std::string text;
  std::string problem;
};

class BadKernelTest : public ::testing::TestWithParam<BadKernel> {};

TEST_P(BadKernelTest, ErrorsNameTheField) {
  const absl::Status status = Decode(Message(GetParam().text)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().problem));
  EXPECT_FALSE(FieldOf(status).empty());
}

INSTANTIATE_TEST_SUITE_P(
    Errors, BadKernelTest,
    ::testing::Values(
        BadKernel{"gemm { m: 1 n: 2 k: 3 }", "dtype: is not set"},
        BadKernel{"dtype: 99 gemm { m: 1 n: 2 k: 3 }", "dtype: has the unknown value 99"},
        BadKernel{"dtype: DTYPE_FP16", "work: is not set"},
        BadKernel{"dtype: DTYPE_FP16 gemm { m: 1 n: 2 }", "gemm.k: is 0"},
        BadKernel{"dtype: DTYPE_FP16 gemm { layer: 7 m: 1 n: 2 k: 3 }", "gemm.layer: has the unknown value 7"},
        BadKernel{"dtype: DTYPE_FP16 attention { batch: 1 }", "attention.phase: is not set"},
        BadKernel{"dtype: DTYPE_FP16 attention { phase: PHASE_DECODE kv_dtype: 50 }", "attention.kv_dtype"},
        BadKernel{"dtype: DTYPE_FP16 vector { rows: 1 cols: 2 }", "vector.op: is empty"},
        BadKernel{"dtype: DTYPE_FP16 gemm { m: 9223372036854775807 n: 2 k: 3 }", "gemm.dims: more than 2^62"},
        BadKernel{"dtype: DTYPE_FP16 launch { grid_x: -1 } gemm { m: 1 n: 2 k: 3 }", "gemm.launch"}));

}  // namespace
}  // namespace gpueta::wire
