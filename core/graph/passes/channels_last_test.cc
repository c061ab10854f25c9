#include "core/graph/passes/channels_last.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpueta {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kBatch = 2, kChannels = 8, kSide = 6;

class ChannelsLastTest : public ::testing::Test {
 protected:
  int Add(Work work, std::vector<int> inputs, const char* source_op, Costing costing = Costing::kKernel) {
    GraphNode node;
    node.kernel.work = std::move(work);
    node.inputs = std::move(inputs);
    node.source_op = source_op;
    node.costing = costing;
    graph_.nodes.push_back(std::move(node));
    return static_cast<int>(graph_.nodes.size()) - 1;
  }
  int Conv(std::vector<int> inputs, std::int64_t side = kSide) {
    return Add(Conv2d{.batch = kBatch,
                      .in_channels = kChannels,
                      .height = side,
                      .width = side,
                      .out_channels = kChannels,
                      .kernel_h = 1,
                      .kernel_w = 1},
               std::move(inputs), "Conv");
  }
  int OnImage(const char* op, std::vector<int> inputs, const char* source_op = "Relu") {
    return Add(Vector{.op = op, .rows = kBatch * kChannels * kSide, .cols = kSide}, std::move(inputs), source_op);
  }
  int Tokens(const char* op, std::vector<int> inputs, const char* source_op) {
    return Add(Vector{.op = op, .rows = kBatch * kSide * kSide, .cols = kChannels}, std::move(inputs), source_op);
  }
  int View(std::vector<int> inputs, std::int64_t cols, const char* source_op = "Reshape") {
    return Add(Vector{.op = "view", .rows = kBatch * kChannels * kSide * kSide / cols, .cols = cols}, std::move(inputs),
               source_op, Costing::kFree);
  }

  // What runs, in order.
  std::vector<std::string> Run() {
    ChannelsLast(graph_);
    EXPECT_EQ(Validate(graph_), absl::OkStatus());
    std::vector<std::string> kernels;
    for (const GraphNode& node : graph_.nodes) {
      const auto* vector = std::get_if<Vector>(&node.kernel.work);
      if (node.costing != Costing::kFree) kernels.emplace_back(vector != nullptr ? vector->op : Name(node.kernel.op()));
    }
    return kernels;
  }

  Graph graph_;
};

TEST_F(ChannelsLastTest, TheModelsInputIsCopiedOnceAndHandedOn) {
  const int first = Conv({});
  const int relu = OnImage("relu", {OnImage("batchnorm", {first}, "BatchNormalization")});
  OnImage("add", {Conv({relu}), relu}, "Add");
  EXPECT_THAT(Run(), ElementsAre("copy", "conv2d", "batchnorm", "relu", "conv2d", "add"));
  EXPECT_EQ(CountsOf(graph_.nodes[0].kernel).bytes_read.value(), 4 * kBatch * kChannels * kSide * kSide);
}

TEST_F(ChannelsLastTest, TransposesOfChannelsMoveNothing) {
  // As ConvNeXt has it: norm and products on pixels, then back to an image.
  const int first = Conv({});
  const int tokens = Tokens("copy", {first}, "Transpose");
  const int norm = Tokens("layernorm", {tokens}, "LayerNormalization");
  const int back = OnImage("copy", {norm}, "Transpose");
  OnImage("add", {first, OnImage("mul", {back}, "Mul")}, "Add");
  EXPECT_THAT(Run(), ElementsAre("copy", "conv2d", "layernorm", "mul", "add"));
}

TEST_F(ChannelsLastTest, PatchesBecomeTokensWithoutACopy) {
  const int flat = View({Conv({})}, kSide * kSide);
  Tokens("layernorm", {Tokens("copy", {flat}, "Transpose")}, "LayerNormalization");
  EXPECT_THAT(Run(), ElementsAre("copy", "conv2d", "layernorm"));
}

TEST_F(ChannelsLastTest, FlatteningAnImageIsACopyAndOfOnePixelIsNone) {
  const int first = Conv({});
  Add(Gemm{.m = kBatch, .n = 3, .k = kChannels * kSide * kSide}, {View({first}, kChannels * kSide * kSide)}, "Gemm");
  const int pooled =
      Add(Vector{.op = "reduce", .rows = kBatch * kChannels, .cols = kSide * kSide}, {first}, "GlobalAveragePool");
  const int pixel =
      Add(Vector{.op = "view", .rows = kBatch, .cols = kChannels}, {Conv({pooled}, 1)}, "Flatten", Costing::kFree);
  Add(Gemm{.m = kBatch, .n = 3, .k = kChannels}, {pixel}, "Gemm");
  EXPECT_THAT(Run(), ElementsAre("copy", "conv2d", "copy", "gemm", "reduce", "conv2d", "gemm"));
}

TEST_F(ChannelsLastTest, AShuffleOfChannelsStaysACopyAndItsResultIsCopiedBack) {
  const int groups = View({Conv({})}, kSide);
  const int shuffled = OnImage("copy", {groups}, "Transpose");
  Conv({View({shuffled}, kSide)});
  EXPECT_THAT(Run(), ElementsAre("copy", "conv2d", "copy", "copy", "conv2d"));
}

TEST_F(ChannelsLastTest, WhatHasNoImagesStaysAsItIs) {
  const int tokens = Tokens("layernorm", {}, "LayerNormalization");
  Tokens("softmax", {Tokens("copy", {View({tokens}, 4)}, "Transpose")}, "Softmax");
  EXPECT_THAT(Run(), ElementsAre("layernorm", "copy", "softmax"));
}

}  // namespace
}  // namespace gpueta
