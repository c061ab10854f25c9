#include "core/graph/passes/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/graph/passes/parallel.h"
#include "core/graph/passes/rewriter.h"
#include "core/graph/passes/training.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kParameters = kLayers * kWidth * kWidth;

// Square products, one a layer, whose weights are all there is.
Graph Forward(std::int64_t bytes_each = 4) {
  Graph graph;
  graph.symbols = {{"batch", 0}};
  graph.parameters = kParameters;
  graph.parameter_bytes = bytes_each * kParameters;
  for (int layer = 0; layer < kLayers; ++layer) {
    GraphNode node;
    node.kernel.name = "n";
    node.kernel.dtype = bytes_each == 4 ? DType::kFp32 : DType::kBf16;
    node.kernel.work = Gemm{.layer = Gemm::Layer::kLinear, .m = 1, .n = kWidth, .k = kWidth};
    SetDimOf(node, "m", SymInt::Symbol("batch") * 8);
    node.parameters = kWidth * kWidth;
    node.layer = layer;
    if (layer > 0) node.inputs = {layer - 1};
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

Graph Step(std::int64_t bytes_each = 4, std::int64_t stages = 1) {
  Graph graph = Forward(bytes_each);
  EXPECT_TRUE(SplitStages(graph, stages).ok());
  AddBackward(graph);
  AddOptimiserStep(graph, Optimiser::kAdamW);
  return graph;
}

Graph Shared(const DataParallelism& data, std::int64_t bytes_each = 4, std::int64_t stages = 1) {
  Graph graph = Step(bytes_each, stages);
  const absl::Status status = ShareOverRanks(graph, data);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Validate(graph).ok());
  return graph;
}

struct Exchanged {
  std::vector<Collective> collectives;
  double bus_bytes = 0;
};
Exchanged ExchangedIn(const Graph& graph) {
  Exchanged out;
  for (const GraphNode& node : graph.nodes) {
    if (node.stream != DeviceStream::kCommunication) continue;
    out.collectives.push_back(std::get<Collective>(node.kernel.work));
    out.bus_bytes += BusBytes(out.collectives.back());
  }
  return out;
}

TEST(ShareOverRanksTest, GradientsAreReducedByBucketsBehindWhatCompletesThem) {
  // Two layers of 16 KiB fill a bucket.
  const Graph graph = Shared({.ranks = 8, .bucket_bytes = 2 * 4 * kWidth * kWidth});
  const Exchanged exchanged = ExchangedIn(graph);
  ASSERT_EQ(exchanged.collectives.size(), 2U);
  for (const Collective& collective : exchanged.collectives) {
    EXPECT_EQ(collective.op, "all_reduce");
    EXPECT_EQ(collective.bytes, 2 * 4 * kWidth * kWidth);
    EXPECT_EQ(collective.ranks, 8);
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.stream != DeviceStream::kCommunication) continue;
    EXPECT_EQ(node.turn, Turn::kStep);
    ASSERT_EQ(node.inputs.size(), 2U);
    for (const int input : node.inputs) EXPECT_GT(graph.nodes[static_cast<std::size_t>(input)].gradients, 0);
  }
  // The update waits for all of them.
  EXPECT_EQ(graph.nodes.back().source_op, kOptimiserOp);
  EXPECT_EQ(graph.nodes.back().inputs.size(), 3U);
}

TEST(ShareOverRanksTest, StagesOneAndTwoMoveAsMuchAsReducingAndThreeHalfAsMuchAgain) {
  const double reduced = ExchangedIn(Shared({.ranks = 8})).bus_bytes;
  EXPECT_DOUBLE_EQ(reduced, 2.0 * 7 / 8 * 4 * kParameters);
  for (const int stage : {1, 2})
    EXPECT_DOUBLE_EQ(ExchangedIn(Shared({.ranks = 8, .zero_stage = stage})).bus_bytes, reduced);
  EXPECT_DOUBLE_EQ(ExchangedIn(Shared({.ranks = 8, .zero_stage = 3})).bus_bytes, 1.5 * reduced);
}

TEST(ShareOverRanksTest, ParametersAreGatheredOneLayerAhead) {
  const Graph graph = Shared({.ranks = 8, .zero_stage = 3});
  std::vector<std::size_t> gathers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto* collective = std::get_if<Collective>(&graph.nodes[i].kernel.work);
    if (collective == nullptr || collective->op != "all_gather") continue;
    EXPECT_EQ(collective->bytes, 4 * kWidth * kWidth);
    gathers.push_back(i);
    // The kernels behind it read what was gathered.
    EXPECT_EQ(graph.nodes[i + 1].inputs.back(), static_cast<int>(i));
  }
  ASSERT_EQ(gathers.size(), 2U * kLayers);
  EXPECT_TRUE(graph.nodes[gathers[1]].inputs.empty());
  EXPECT_EQ(graph.nodes[gathers[2]].inputs, std::vector<int>{static_cast<int>(gathers[0]) + 1});
}

TEST(ShareOverRanksTest, EachStageOfAPipelineExchangesItsOwn) {
  const Graph graph = Shared({.ranks = 4}, 4, 2);
  std::map<int, std::int64_t> bytes;
  for (const GraphNode& node : graph.nodes) {
    if (node.stream == DeviceStream::kCommunication) bytes[node.stage] += std::get<Collective>(node.kernel.work).bytes;
  }
  EXPECT_EQ(bytes, (std::map<int, std::int64_t>{{0, 2 * kParameters}, {1, 2 * kParameters}}));
}

TEST(ShareOverRanksTest, AWeightThatTwoNodesReadIsExchangedOnce) {
  Graph graph = Forward();
  graph.parameters -= kWidth * kWidth;  // the last layer reads the first one's
  graph.parameter_bytes = 4 * graph.parameters;
  AddBackward(graph);
  AddOptimiserStep(graph, Optimiser::kAdamW);
  const std::int64_t parameters = graph.parameters;
  ASSERT_TRUE(ShareOverRanks(graph, {.ranks = 2}).ok());
  const Exchanged exchanged = ExchangedIn(graph);
  ASSERT_EQ(exchanged.collectives.size(), 1U);
  EXPECT_EQ(exchanged.collectives[0].bytes, 4 * parameters);
}

struct MemoryCase {
  std::int64_t bytes_each;
  int zero_stage;
  double parameters, gradients, optimiser;  // bytes for each parameter on one of 8 ranks
};

// Adam: two moments of 4 bytes; of 16-bit parameters a copy of 4 bytes, too.
TEST(ShareOverRanksTest, KeepsWhatEachStageOfZeroLeavesOnARank) {
  for (const MemoryCase& c : {MemoryCase{4, 0, 4, 4, 8}, MemoryCase{4, 1, 4, 4, 1}, MemoryCase{4, 2, 4, 0.5, 1},
                              MemoryCase{4, 3, 0.5, 0.5, 1}, MemoryCase{2, 0, 2, 2, 12}, MemoryCase{2, 1, 2, 2, 1.5},
                              MemoryCase{2, 2, 2, 0.25, 1.5}, MemoryCase{2, 3, 0.25, 0.25, 1.5}}) {
    const Graph graph = Shared({.ranks = 8, .zero_stage = c.zero_stage}, c.bytes_each);
    EXPECT_EQ(static_cast<double>(graph.parameter_bytes), c.parameters * kParameters) << c.bytes_each << c.zero_stage;
    EXPECT_EQ(static_cast<double>(graph.gradient_bytes), c.gradients * kParameters) << c.bytes_each << c.zero_stage;
    EXPECT_EQ(static_cast<double>(graph.optimiser_bytes), c.optimiser * kParameters) << c.bytes_each << c.zero_stage;
  }
}

TEST(ShareOverRanksTest, OneRankChangesNothingAndForwardPassesAreRefused) {
  Graph graph = Step();
  ASSERT_TRUE(ShareOverRanks(graph, {}).ok());
  EXPECT_EQ(HashOf(graph), HashOf(Step()));
  graph = Forward();
  EXPECT_THAT(MessageOf(ShareOverRanks(graph, {.ranks = 2})), HasSubstr("--dp"));
  EXPECT_THAT(MessageOf(ShareOverRanks(graph, {.ranks = 2, .zero_stage = 4})), HasSubstr("--zero"));
}

TEST(DivideBatchTest, EachPartHasItsShareOfTheRows) {
  Graph graph = Step();
  const std::int64_t macs = CountsOf(graph, {{"batch", 4}})->macs;
  ASSERT_TRUE(DivideBatch(graph, 8).ok());
  EXPECT_EQ(CountsOf(graph, {{"batch", 32}})->macs, macs);
  graph.symbols.clear();
  EXPECT_THAT(MessageOf(DivideBatch(graph, 8)), HasSubstr("batch is fixed"));
}

}  // namespace
}  // namespace gpueta
