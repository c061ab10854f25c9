#include "core/importers/traces/aten_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpueta {
namespace {

using ::testing::ElementsAreArray;

using Dims = std::vector<std::int64_t>;

TraceArgument Tensor(Dims dims, std::string type = "float") {
  TraceArgument argument;
  if (!dims.empty()) argument.tensors = {std::move(dims)};
  argument.type = std::move(type);
  return argument;
}

TraceArgument Tensors(std::vector<Dims> dims) {
  TraceArgument argument;
  argument.tensors = std::move(dims);
  argument.type = "float";
  return argument;
}

TraceArgument Value(std::string value) {
  TraceArgument argument;
  argument.type = "Scalar";
  argument.concrete = std::move(value);
  return argument;
}

TraceArgument None() { return {}; }

struct AtenCase {
  std::string name;
  std::vector<TraceArgument> arguments;
  std::vector<std::string> kernels;
  bool linear = false;

  friend void PrintTo(const AtenCase& aten_case, std::ostream* out) { *out << aten_case.name; }
};

class AtenTest : public ::testing::TestWithParam<AtenCase> {};

TEST_P(AtenTest, BecomesTheseKernels) {
  const OpSignature signature = {"aten::" + GetParam().name, GetParam().arguments, 0};
  const auto kernels = KernelsOf(signature, GetParam().linear);
  ASSERT_TRUE(kernels.has_value());
  std::vector<std::string> texts;
  for (const Kernel& kernel : *kernels) texts.push_back(Describe(kernel));
  EXPECT_THAT(texts, ElementsAreArray(GetParam().kernels));
}

INSTANTIATE_TEST_SUITE_P(
    Operators, AtenTest,
    ::testing::Values(
        AtenCase{"addmm",
                 {Tensor({1000}), Tensor({2, 1280}), Tensor({1280, 1000}), Value("1"), Value("1")},
                 {"gemm fp32 linear m=2 n=1000 k=1280"}},
        AtenCase{"mm", {Tensor({2, 8}, "c10::Half"), Tensor({8, 3}, "c10::Half")}, {"gemm fp16 gemm m=2 n=3 k=8"}},
        AtenCase{"mm", {Tensor({2, 8}), Tensor({8, 3})}, {"gemm fp32 linear m=2 n=3 k=8"}, true},
        AtenCase{"baddbmm",
                 {Tensor({4, 2, 3}), Tensor({4, 2, 8}), Tensor({4, 8, 3})},
                 {"gemm fp32 bmm batch=4 m=2 n=3 k=8"}},
        AtenCase{"convolution",
                 {Tensor({2, 3, 32, 32}), Tensor({32, 3, 3, 3}), None(), Value("[2, 2]"), Value("[1, 1]"),
                  Value("[1, 1]"), Value("False"), Value("[0, 0]"), Value("1")},
                 {"conv2d fp32 batch=2 in_channels=3 height=32 width=32 out_channels=32 kernel_h=3 kernel_w=3 "
                  "stride_h=2 stride_w=2 pad_h=1 pad_w=1"}},
        AtenCase{"convolution_backward",
                 {Tensor({2, 8, 4, 4}), Tensor({2, 4, 4, 4}), Tensor({8, 4, 1, 1}), Value("[0]"), Value("[1, 1]"),
                  Value("[0, 0]"), Value("[1, 1]"), Value("False"), Value("[0, 0]"), Value("1"),
                  Value("[False, True, False]")},
                 {"conv2d fp32 batch=2 in_channels=4 height=4 width=4 out_channels=8 kernel_h=1 kernel_w=1"}},
        AtenCase{"_scaled_dot_product_flash_attention_for_cpu",
                 {Tensor({1, 4, 32, 64}), Tensor({1, 2, 32, 64}), Tensor({1, 2, 32, 64}), Value("0."), Value("True"),
                  None(), Value("0.125")},
                 {"attention fp32 batch=1 query_len=32 kv_len=32 heads=4 kv_heads=2 head_dim=64 "
                  "causal=1"}},
        AtenCase{"_scaled_dot_product_efficient_attention",
                 {Tensor({1, 4, 32, 64}), Tensor({1, 4, 32, 64}), Tensor({1, 4, 32, 64}), None(), Value("True"),
                  Value("0."), Value("False"), None()},
                 {"attention fp32 batch=1 query_len=32 kv_len=32 heads=4 kv_heads=4 head_dim=64"}},
        AtenCase{"native_layer_norm",
                 {Tensor({2, 16, 256}), Value("[256]"), Tensor({256}), Tensor({256}), Value("1e-05")},
                 {"vector fp32 layernorm/1 rows=32 cols=256"}},
        AtenCase{"_softmax", {Tensor({2, 4, 9}), Value("-1"), Value("False")}, {"vector fp32 softmax/1 rows=8 cols=9"}},
        AtenCase{"mean",
                 {Tensor({2, 1280, 7, 7}), Value("[-1, -2]"), Value("True"), None()},
                 {"vector fp32 reduce/1 rows=2560 cols=49"}},
        AtenCase{"add_", {Tensor({2, 8}), Tensor({2, 8}), Value("1")}, {"vector fp32 add/2 rows=2 cols=8 operands=2"}},
        AtenCase{"mul", {Tensor({2, 8}), Tensor({8})}, {"vector fp32 mul/1 rows=2 cols=8"}},
        AtenCase{"copy_", {Tensor({2, 8}), Tensor({2, 8}), Value("False")}, {"vector fp32 copy/1 rows=2 cols=8"}},
        AtenCase{"cat", {Tensors({{1, 32, 32}, {1, 32, 32}}), Value("-1")}, {"vector fp32 copy/1 rows=1 cols=2048"}},
        AtenCase{"embedding",
                 {Tensor({2000, 256}), Tensor({1, 32}, "long int"), Value("-1")},
                 {"vector fp32 embedding/1 rows=32 cols=256"}},
        AtenCase{"max_pool2d_with_indices",
                 {Tensor({1, 64, 32, 32}), Value("[3, 3]"), Value("[2, 2]"), Value("[1, 1]")},
                 {"vector fp32 pool/4 rows=1024 cols=16 operands=4"}},
        AtenCase{"zero_", {Tensor({0})}, {}}));

TEST(AtenTest, OperatorsWithoutRecordedArgumentsAreUnknown) {
  for (const char* name : {"aten::addmm", "aten::convolution", "aten::_softmax", "aten::add", "aten::cat"}) {
    EXPECT_FALSE(KernelsOf({name, {}, 0}, false).has_value()) << name;
  }
  // Two products of 2^61 multiply-adds have a forward, but no backward.
  const std::int64_t huge = std::int64_t{1} << 20;
  const TraceArgument tensor = Tensor({1, 1, huge, huge});
  EXPECT_FALSE(
      KernelsOf({"aten::_scaled_dot_product_flash_attention_backward", {tensor, tensor, tensor, tensor}, 0}, false)
          .has_value());
  EXPECT_FALSE(KernelsOf({"aten::mystery", {Tensor({2})}, 0}, false).has_value());
}

}  // namespace
}  // namespace gpueta
