#include "core/ops/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/errors.h"
#include "core/ops/table_key.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

Kernel Make(Work work, DType dtype = DType::kBf16) {
  return {.name = "", .dtype = dtype, .work = std::move(work), .launch = {}};
}

TEST(CountsTest, GemmByHand) {
  const Counts c = CountsOf(Make(Gemm{.batch = 2, .m = 3, .n = 5, .k = 7}));
  EXPECT_EQ(c.macs.value(), 210);
  EXPECT_EQ(c.flops.value(), 420);
  EXPECT_EQ(c.bytes_read.value(), 2 * 2 * (3 * 7 + 7 * 5));
  EXPECT_EQ(c.bytes_written.value(), 2 * 2 * 15);
}

TEST(CountsTest, QuantisedWeightsAreSmallerThanActivations) {
  const Counts c = CountsOf(Make(Gemm{.m = 16, .n = 64, .k = 32}, DType::kInt4));
  EXPECT_EQ(c.bytes_read.value(), 16 * 32 * 2 + 32 * 64 / 2);
  EXPECT_EQ(c.bytes_written.value(), 16 * 64 * 2);
}

TEST(CountsTest, ConvolutionByHand) {
  // The first layer of ResNet-50: 112 × 112 outputs, 118,013,952 MACs.
  const Conv2d stem{.batch = 1,
                    .in_channels = 3,
                    .height = 224,
                    .width = 224,
                    .out_channels = 64,
                    .kernel_h = 7,
                    .kernel_w = 7,
                    .stride_h = 2,
                    .stride_w = 2,
                    .pad_h = 3,
                    .pad_w = 3};
  EXPECT_EQ(OutHeight(stem), 112);
  EXPECT_EQ(CountsOf(Make(stem)).macs.value(), 118013952);
}

TEST(CountsTest, DepthwiseConvolutionHasOneInputChannelAGroup) {
  const Conv2d depthwise{.batch = 1,
                         .in_channels = 32,
                         .height = 8,
                         .width = 8,
                         .out_channels = 32,
                         .kernel_h = 3,
                         .kernel_w = 3,
                         .pad_h = 1,
                         .pad_w = 1,
                         .groups = 32};
  EXPECT_EQ(CountsOf(Make(depthwise)).macs.value(), 32 * 64 * 9);
}

TEST(CountsTest, UnevenPaddingAndDilationSetTheOutput) {
  const Conv2d conv{.batch = 1,
                    .in_channels = 1,
                    .height = 8,
                    .width = 8,
                    .out_channels = 1,
                    .kernel_h = 3,
                    .kernel_w = 3,
                    .stride_h = 2,
                    .stride_w = 2,
                    .dilation_w = 2,
                    .extra_pad_h = 1};
  EXPECT_EQ(OutHeight(conv), 4);  // (8 + 1 − 2 − 1)/2 + 1
  EXPECT_EQ(OutWidth(conv), 2);   // (8 − 4 − 1)/2 + 1
}

TEST(CountsTest, CausalAttentionSkipsTheUpperTriangle) {
  Attention a{.phase = Attention::Phase::kPrefill,
              .batch = 1,
              .query_len = 4,
              .kv_len = 4,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 8};
  EXPECT_EQ(CountsOf(Make(a)).flops.value(), 4 * 2 * 8 * 16);
  a.causal = 1;
  EXPECT_EQ(CountsOf(Make(a)).flops.value(), 4 * 2 * 8 * 10);
  a.query_len = 2;  // two queries behind a cached prefix see 3 and 4 keys
  EXPECT_EQ(CountsOf(Make(a)).flops.value(), 4 * 2 * 8 * 7);
}

TEST(CountsTest, KeysAndValuesHaveTheirOwnType) {
  const Attention a{.phase = Attention::Phase::kDecode,
                    .batch = 1,
                    .query_len = 1,
                    .kv_len = 10,
                    .heads = 4,
                    .kv_heads = 2,
                    .head_dim = 16,
                    .kv_dtype = DType::kFp8};
  EXPECT_EQ(CountsOf(Make(a)).bytes_read.value(), 2 * 4 * 16 + 2 * 10 * 2 * 16);
}

TEST(CountsTest, MixtureOfExpertsCountsRoutedTokens) {
  const Moe moe{.num_tokens = 10, .hidden_size = 64, .inter_size = 128, .top_k = 2, .num_experts = 8, .tp = 2, .ep = 1};
  EXPECT_EQ(CountsOf(Make(moe)).flops.value(), 6 * 10 * 2 * 64 * 128 / 2);
}

TEST(CountsTest, VectorOpsMoveEachOperandOnce) {
  const Counts c = CountsOf(Make(Vector{.op = "add", .rows = 4, .cols = 8, .operands = 2}, DType::kFp32));
  EXPECT_EQ(c.bytes_read.value(), 4 * 4 * 8 * 2);
  EXPECT_EQ(c.bytes_written.value(), 4 * 4 * 8);
  EXPECT_EQ(c.macs.value(), 0);
}

TEST(CountsTest, AllReduceSendsTwiceLessOneShare) {
  EXPECT_DOUBLE_EQ(BusBytes({.op = "all_reduce", .bytes = 1000, .ranks = 4}), 1500);
  EXPECT_DOUBLE_EQ(BusBytes({.op = "all_gather", .bytes = 1000, .ranks = 4}), 750);
  EXPECT_DOUBLE_EQ(BusBytes({.op = "send_recv", .bytes = 1000, .ranks = 4}), 1000);
}

struct BadKernel {
  const char* name;
  Work work;
  const char* says;
};

class RejectsBadKernel : public ::testing::TestWithParam<BadKernel> {};

TEST_P(RejectsBadKernel, NamingTheField) {
  const absl::Status status = Validate(Make(GetParam().work));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().says));
  EXPECT_THAT(FieldOf(status), HasSubstr("."));
}

constexpr std::int64_t kHuge = std::int64_t{1} << 40;

INSTANTIATE_TEST_SUITE_P(
    Kernels, RejectsBadKernel,
    ::testing::Values(
        BadKernel{"MissingDim", Gemm{.m = 1, .n = 1}, "gemm.k: is 0, must be at least 1"},
        BadKernel{"NegativeDim", Gemm{.m = -1, .n = 1, .k = 1}, "gemm.m: is -1"},
        BadKernel{"Overflow", Gemm{.m = kHuge, .n = kHuge, .k = 2}, "more than 2^62"},
        BadKernel{"GroupsDoNotDivide",
                  Conv2d{.in_channels = 6,
                         .height = 8,
                         .width = 8,
                         .out_channels = 8,
                         .kernel_h = 1,
                         .kernel_w = 1,
                         .groups = 4},
                  "conv2d.groups: 4 does not divide in_channels 6"},
        BadKernel{"KernelTooLarge",
                  Conv2d{.in_channels = 1, .height = 2, .width = 8, .out_channels = 1, .kernel_h = 3, .kernel_w = 3},
                  "larger than the padded input"},
        BadKernel{"KvHeadsDoNotDivide",
                  Attention{.query_len = 1, .kv_len = 1, .heads = 8, .kv_heads = 3, .head_dim = 64},
                  "attention.kv_heads: 3 does not divide heads 8"},
        BadKernel{"CausalWithTooManyQueries",
                  Attention{.query_len = 9, .kv_len = 8, .heads = 8, .kv_heads = 8, .head_dim = 64, .causal = 1},
                  "exceeds kv_len"},
        BadKernel{"DecodeWithQueries",
                  Attention{.phase = Attention::Phase::kDecode,
                            .query_len = 2,
                            .kv_len = 8,
                            .heads = 8,
                            .kv_heads = 8,
                            .head_dim = 64},
                  "must be 1 in phase decode"},
        BadKernel{"TopKAboveExperts",
                  Moe{.num_tokens = 1, .hidden_size = 8, .inter_size = 8, .top_k = 9, .num_experts = 8},
                  "moe.top_k: 9 exceeds num_experts 8"},
        BadKernel{"NamelessVector", Vector{.rows = 1, .cols = 1}, "vector.op: is empty"},
        BadKernel{"OneRank", Collective{.op = "all_reduce", .bytes = 8, .ranks = 1},
                  "collective.ranks: is 1, must be at least 2"},
        BadKernel{"CustomWithoutCost", Custom{.op = "x"}, "declare at least one"}),
    [](const auto& instance) { return instance.param.name; });

TEST(ValidateTest, AcceptsTheLargestCountsThatFit) {
  EXPECT_TRUE(
      Validate(Make(Gemm{.m = std::int64_t{1} << 20, .n = std::int64_t{1} << 20, .k = std::int64_t{1} << 20})).ok());
}

TEST(DimsTest, NamesAndValuesFollowTheList) {
  Kernel kernel = Make(Gemm{.batch = 2, .m = 3, .n = 5, .k = 7});
  EXPECT_EQ(GetDim(kernel, *FindDim(Op::kGemm, "k")), 7);
  SetDim(kernel, *FindDim(Op::kGemm, "m"), 11);
  EXPECT_EQ(std::get<Gemm>(kernel.work).m, 11);
  EXPECT_FALSE(FindDim(Op::kGemm, "rows").has_value());
  EXPECT_EQ(DefaultDim(Op::kGemm, 0), 1);
  EXPECT_EQ(DefaultDim(Op::kGemm, 1), std::nullopt);
}

// Hashes are stored in profiles: a change here orphans every measured kernel.
TEST(HashTest, IsStableAcrossVersions) {
  EXPECT_EQ(HashOf(Make(Gemm{.batch = 1, .m = 128, .n = 256, .k = 512})),
            HashOf(Make(Gemm{.batch = 1, .m = 128, .n = 256, .k = 512}, DType::kFp8)));
  EXPECT_EQ(HashOf(Make(Gemm{.batch = 1, .m = 128, .n = 256, .k = 512})), 1991625592u);
  EXPECT_EQ(HashOf(Make(Vector{.op = "add", .rows = 64, .cols = 32, .operands = 2})), 3859896080u);
}

TEST(HashTest, DiffersByDimAndLabel) {
  std::set<std::uint32_t> hashes;
  for (std::int64_t m = 1; m <= 40; ++m) {
    for (std::int64_t n = 1; n <= 40; ++n) hashes.insert(HashOf(Make(Gemm{.m = m, .n = n, .k = 64})));
  }
  hashes.insert(HashOf(Make(Gemm{.layer = Gemm::Layer::kLinear, .m = 1, .n = 1, .k = 64})));
  EXPECT_EQ(hashes.size(), 1601u);
}

TEST(HashTest, LabelHashMatchesItsText) {
  const std::vector<Kernel> kernels = {Make(Gemm{.layer = Gemm::Layer::kBmm, .m = 1, .n = 1, .k = 1}),
                                       Make(Vector{.op = "softmax", .rows = 1, .cols = 1, .operands = 12}),
                                       Make(Collective{.op = "all_reduce", .bytes = 1, .ranks = 16}),
                                       Make(Moe{.distribution = "balanced"}),
                                       Make(Custom{.op = "mine", .flops = 1}),
                                       Make(Conv2d{})};
  for (const Kernel& kernel : kernels) EXPECT_EQ(LabelHash(kernel), LabelHash(LabelOf(kernel))) << LabelOf(kernel);
}

TEST(NamesTest, ParseIsTheInverseOfName) {
  for (DType dtype : kAllDTypes) EXPECT_EQ(ParseDType(Name(dtype)), dtype);
  for (Timing timing : kAllTimings) EXPECT_EQ(ParseTiming(Name(timing)), timing);
  for (Op op : kAllOps) EXPECT_EQ(ParseOp(Name(op)), op);
  EXPECT_EQ(ParseDType("float"), std::nullopt);
}

TEST(DescribeTest, NamesWhatMatters) {
  EXPECT_EQ(Describe(Make(Gemm{.m = 512, .n = 4096, .k = 4096})), "gemm bf16 gemm m=512 n=4096 k=4096");
  EXPECT_EQ(Describe(KeyOf(Make(Gemm{}), Timing::kGraph)), "gemm bf16 graph");
}

}  // namespace
}  // namespace gpueta
