#include "core/sampling/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

Kernel Product(std::int64_t m, std::int64_t n, std::int64_t k, Gemm::Layer layer = Gemm::Layer::kLinear) {
  Kernel kernel;
  kernel.work = Gemm{.layer = layer, .m = m, .n = n, .k = k};
  return kernel;
}

Kernel Heads(Attention::Phase phase, std::int64_t heads, std::int64_t kv_heads) {
  Kernel kernel;
  kernel.work =
      Attention{.phase = phase, .query_len = 1, .kv_len = 64, .heads = heads, .kv_heads = kv_heads, .head_dim = 128};
  return kernel;
}

absl::StatusOr<std::vector<Line>> Read(const std::string& text, Op op) {
  std::istringstream in(text);
  return ReadLines(in, "lines.csv", op, "h100-sxm");
}

TEST(ReadLinesTest, ARowFixesTheDimsItNamesAndLeavesTheOthersFree) {
  const auto lines = Read("n,k\n4096,1024\n", Op::kGemm);
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 1u);
  EXPECT_TRUE(IsOn(lines->front(), Product(1, 4096, 1024)));
  EXPECT_TRUE(IsOn(lines->front(), Product(777, 4096, 1024, Gemm::Layer::kGemm)));
  EXPECT_FALSE(IsOn(lines->front(), Product(1, 1024, 4096)));
  EXPECT_FALSE(IsOn(lines->front(), Heads(Attention::Phase::kDecode, 4096, 1024)));
}

TEST(ReadLinesTest, SkipsOtherOpsAndDevicesAndReadsALineOnce) {
  const auto lines = Read(
      "op,device,phase,lines,draw,n,k,heads,kv_heads,head_dim\n"
      "gemm,h100-sxm,,8,0,4096,1024,,,\n"
      "gemm,h100-sxm,,8,1,4096,1024,,,\n"
      "gemm,l40s,,8,0,512,512,,,\n"
      "attention,h100-sxm,decode,8,0,,,32,8,128\n",
      Op::kGemm);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ(lines->size(), 1u);
}

TEST(ReadLinesTest, APhaseIsPartOfTheLineWhereItIsGiven) {
  const auto lines = Read("phase,heads,kv_heads,head_dim\ndecode,32,8,128\n,16,4,128\n", Op::kAttention);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_TRUE(IsOn(lines->at(0), Heads(Attention::Phase::kDecode, 32, 8)));
  EXPECT_FALSE(IsOn(lines->at(0), Heads(Attention::Phase::kPrefill, 32, 8)));
  EXPECT_TRUE(IsOn(lines->at(1), Heads(Attention::Phase::kPrefill, 16, 4)));
}

TEST(ReadLinesTest, MistakesNameFileLineAndColumn) {
  struct Case {
    std::string text;
    Op op;
    std::string says;
  };
  for (const Case& c :
       {Case{"n,kk\n1,2\n", Op::kGemm, "kk"}, Case{"n,k\n64,0\n", Op::kGemm, "lines.csv:2:k"},
        Case{"n,k\n64,x\n", Op::kGemm, "lines.csv:2:k"}, Case{"n,heads\n64,8\n", Op::kGemm, "lines.csv:2:heads"},
        Case{"heads,phase\n8,both\n", Op::kAttention, "lines.csv:2:phase"},
        Case{"op,n\ngemm,\n", Op::kGemm, "fixes no dim"}, Case{"op,n\ngemm,64\n", Op::kConv2d, "no line of conv2d"}}) {
    const auto lines = Read(c.text, c.op);
    EXPECT_EQ(lines.status().code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(MessageOf(lines.status()), HasSubstr(c.says));
  }
}

GraphNode Node(Kernel kernel, std::vector<GraphNode::SymbolicDim> symbolic = {}) {
  GraphNode node;
  node.kernel = std::move(kernel);
  node.symbolic_dims = std::move(symbolic);
  return node;
}

TEST(LinesOfTest, WeightsStayAndTokensVaryEvenWhereTheFileFixesThem) {
  Graph graph;
  graph.nodes = {Node(Product(128, 4096, 1024)), Node(Product(128, 4096, 1024)), Node(Product(128, 1024, 4096)),
                 Node(Heads(Attention::Phase::kPrefill, 8, 8))};
  const std::vector<Line> lines = LinesOf(graph, Op::kGemm);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(IsOn(lines[0], Product(7, 4096, 1024)));
  EXPECT_FALSE(IsOn(lines[0], Product(7, 4096, 1024, Gemm::Layer::kBmm)));
}

TEST(LinesOfTest, DimsThatOneSymbolDecidesVaryTogether) {
  const int m = *FindDim(Op::kGemm, "m"), n = *FindDim(Op::kGemm, "n");
  const SymInt sequence = SymInt::Symbol("sequence");
  Graph graph;
  graph.nodes = {Node(Product(1, 1, 64, Gemm::Layer::kBmm), {{m, sequence}, {n, sequence}})};
  const std::vector<Line> lines = LinesOf(graph, Op::kGemm);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(IsOn(lines[0], Product(96, 96, 64, Gemm::Layer::kBmm)));
  EXPECT_FALSE(IsOn(lines[0], Product(96, 97, 64, Gemm::Layer::kBmm)));
  EXPECT_FALSE(IsOn(lines[0], Product(96, 96, 32, Gemm::Layer::kBmm)));
}

TEST(LinesOfTest, ViewsAreNoKernels) {
  Graph graph;
  graph.nodes = {Node(Product(1, 2, 3))};
  graph.nodes.front().costing = Costing::kFree;
  EXPECT_TRUE(LinesOf(graph, Op::kGemm).empty());
}

}  // namespace
}  // namespace gpueta
