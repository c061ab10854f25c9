#include "core/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

SymInt Parsed(std::string_view text) { return SymInt::Parse(text).value(); }

// A linear layer over tokens, a softmax on it, a view and a 3-D convolution.
Graph SmallGraph() {
  Graph graph;
  graph.display_name = "small";
  graph.symbols = {{"batch", 0}, {"sequence", 128}};
  GraphNode linear;
  linear.kernel.name = "proj";
  linear.kernel.dtype = DType::kFp16;
  linear.kernel.work = Gemm{Gemm::Layer::kLinear, 1, 1, 64, 32};
  linear.symbolic_dims = {{*FindDim(Op::kGemm, "m"), Parsed("batch*sequence")}};
  linear.source_op = "MatMul";
  linear.parameters = 64 * 32;
  GraphNode softmax;
  softmax.kernel.name = "soft";
  softmax.kernel.dtype = DType::kFp16;
  softmax.kernel.work = Vector{"softmax", 1, 64, 1};
  softmax.symbolic_dims = {{*FindDim(Op::kVector, "rows"), Parsed("batch*sequence")}};
  softmax.inputs = {0};
  softmax.source_op = "Softmax";
  GraphNode view;
  view.kernel.work = Vector{"view", 1, 64, 1};
  view.symbolic_dims = {{*FindDim(Op::kVector, "rows"), Parsed("batch - sequence")}};
  view.costing = Costing::kFree;
  view.inputs = {1};
  GraphNode conv3d;
  conv3d.kernel.work = Custom{"conv3d", 1000, 10};
  conv3d.inputs = {0, 2};
  graph.nodes = {linear, softmax, view, conv3d};
  graph.parameters = 64 * 32;
  graph.parameter_bytes = 64 * 32 * 2;
  graph.source_op_counts = {{"MatMul", 1}, {"Softmax", 1}};
  graph.inputs = {"x: fp16[batch,sequence,32]"};
  return graph;
}

TEST(GraphTest, CountsSumTheKernelsThatRun) {
  const absl::StatusOr<GraphCounts> counts = CountsOf(SmallGraph(), {{"batch", 2}});
  ASSERT_TRUE(counts.ok()) << counts.status();
  const std::int64_t tokens = 2 * 128;
  EXPECT_EQ(counts->macs, tokens * 64 * 32 + 500);
  EXPECT_EQ(counts->flops, 2 * counts->macs);
  const std::int64_t linear_bytes = 2 * (tokens * 32 + 32 * 64 + tokens * 64);
  EXPECT_EQ(counts->bytes, linear_bytes + 2 * 2 * tokens * 64 + 10);
  EXPECT_THAT(counts->kernels, ElementsAre(Pair("custom", 1), Pair("gemm", 1), Pair("vector", 1)));
}

TEST(GraphTest, BindReplacesSymbolsByDefaultsAndValues) {
  const absl::StatusOr<std::vector<Kernel>> kernels = Bind(SmallGraph(), {{"batch", 3}, {"sequence", 10}});
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  ASSERT_THAT(*kernels, SizeIs(4));
  EXPECT_EQ(std::get<Gemm>((*kernels)[0].work).m, 30);
  EXPECT_EQ(std::get<Vector>((*kernels)[1].work).rows, 30);
  // Free nodes are not validated: -7 rows are of no interest.
  EXPECT_EQ(std::get<Vector>((*kernels)[2].work).rows, -7);
  EXPECT_EQ(std::get<Gemm>((*Bind(SmallGraph(), {{"batch", 3}}))[0].work).m, 384);
}

struct BindError {
  SymbolValues values;
  absl::StatusCode code;
  std::string problem;
};

class BindErrorTest : public ::testing::TestWithParam<BindError> {};

TEST_P(BindErrorTest, NamesWhatIsWrong) {
  const absl::Status status = Bind(SmallGraph(), GetParam().values).status();
  EXPECT_EQ(status.code(), GetParam().code);
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().problem));
}

INSTANTIATE_TEST_SUITE_P(
    Errors, BindErrorTest,
    ::testing::Values(
        BindError{{}, absl::StatusCode::kFailedPrecondition, "symbol \"batch\" has no value"},
        BindError{{{"batch", 1}, {"heads", 2}}, absl::StatusCode::kInvalidArgument, "heads: the graph has no symbol"},
        BindError{{{"batch", -1}}, absl::StatusCode::kInvalidArgument, "batch: is -1"},
        BindError{{{"batch", 0}},
                  absl::StatusCode::kInvalidArgument,
                  "nodes[0].kernel.gemm.m: is 0, must be at least 1 (node \"proj\", MatMul)"},
        BindError{{{"batch", std::int64_t{1} << 40}, {"sequence", std::int64_t{1} << 40}},
                  absl::StatusCode::kInvalidArgument,
                  "nodes[0].kernel.gemm.m: batch*sequence: the value is out of the range of 64 bits"},
        BindError{{{"batch", std::int64_t{1} << 60}}, absl::StatusCode::kInvalidArgument, "nodes[0].kernel.gemm"}));

TEST(GraphTest, SmallGraphIsValid) {
  const absl::Status status = Validate(SmallGraph());
  EXPECT_TRUE(status.ok()) << status;
}

struct Damage {
  void (*apply)(Graph&);
  std::string problem;
};

class DamageTest : public ::testing::TestWithParam<Damage> {};

TEST_P(DamageTest, ValidateNamesTheNodeOrSymbol) {
  Graph graph = SmallGraph();
  GetParam().apply(graph);
  const absl::Status status = Validate(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().problem));
  EXPECT_FALSE(FieldOf(status).empty());
}

INSTANTIATE_TEST_SUITE_P(
    Damages, DamageTest,
    ::testing::Values(
        Damage{[](Graph& g) { g.nodes[1].inputs = {1}; }, "nodes[1].inputs: 1 is not a node before this one"},
        Damage{[](Graph& g) { g.nodes[0].inputs = {3}; }, "nodes[0].inputs: 3"},
        Damage{[](Graph& g) { g.nodes[0].inputs = {-1}; }, "nodes[0].inputs: -1"},
        Damage{[](Graph& g) { g.nodes[0].symbolic_dims[0].dim = 4; }, "nodes[0].symbolic_dims: gemm has no dim 4"},
        Damage{[](Graph& g) { g.nodes[0].symbolic_dims[0].value = SymInt::Symbol("q"); },
               "nodes[0].symbolic_dims.m: the graph declares no symbol \"q\" (node \"proj\", MatMul)"},
        Damage{[](Graph& g) { g.nodes[0].symbolic_dims[0].value = SymInt(INT64_MAX) + 1; },
               "nodes[0].symbolic_dims.m: the expression is too large"},
        Damage{[](Graph& g) {
                 g.nodes[3].kernel.work = Custom{"conv3d", 0, 0};
               },
               "nodes[3].kernel.custom.bytes"},
        Damage{[](Graph& g) { std::get<Gemm>(g.nodes[0].kernel.work).k = 0; }, "nodes[0].kernel.gemm.k: is 0"},
        Damage{[](Graph& g) { g.nodes[0].symbolic_dims.push_back(g.nodes[0].symbolic_dims[0]); },
               "nodes[0].symbolic_dims.m: is given twice"},
        Damage{[](Graph& g) { g.nodes[0].parameters = -5; }, "nodes[0].parameters"},
        Damage{[](Graph& g) {
                 g.symbols.push_back({"batch", 0});
               },
               "symbols[2]: \"batch\" is declared twice"},
        Damage{[](Graph& g) { g.symbols[0].name = "a b"; }, "symbols[0]: \"a b\" is no identifier"},
        Damage{[](Graph& g) { g.symbols[0].default_value = -1; }, "symbols[0]: the default value is negative"}));

TEST(GraphTest, TotalsPastTheRangeAreAnError) {
  Graph graph = SmallGraph();
  graph.nodes = {graph.nodes[3], graph.nodes[3], graph.nodes[3]};
  for (GraphNode& node : graph.nodes) {
    node.inputs.clear();
    node.kernel.work = Custom{"conv3d", std::int64_t{1} << 61, 1};
  }
  EXPECT_EQ(CountsOf(graph, {{"batch", 1}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(GraphHashTest, DisplayNameAndWarningsDoNotMatter) {
  Graph graph = SmallGraph();
  const std::string hash = HashOf(graph);
  EXPECT_THAT(hash, SizeIs(16));
  graph.display_name = "other";
  graph.warnings = {"careful"};
  EXPECT_EQ(HashOf(graph), hash);
}

TEST(GraphHashTest, IsStableAcrossVersions) { EXPECT_EQ(HashOf(SmallGraph()), "185c91b626646c05"); }

TEST(GraphHashTest, EveryPartOfTheContentMatters) {
  const std::vector<void (*)(Graph&)> changes = {
      [](Graph& g) { g.symbols[1].default_value = 64; },
      [](Graph& g) { g.symbols[0].name = "b"; },
      [](Graph& g) { g.nodes[0].kernel.name = "q_proj"; },
      [](Graph& g) { g.nodes[0].kernel.dtype = DType::kBf16; },
      [](Graph& g) { std::get<Gemm>(g.nodes[0].kernel.work).n = 65; },
      [](Graph& g) { std::get<Gemm>(g.nodes[0].kernel.work).layer = Gemm::Layer::kGemm; },
      [](Graph& g) { g.nodes[0].symbolic_dims[0].value = SymInt::Symbol("batch"); },
      [](Graph& g) { g.nodes[0].symbolic_dims[0].dim = 2; },
      [](Graph& g) { g.nodes[0].kernel.launch.grid_x = 1; },
      [](Graph& g) { g.nodes[1].inputs.clear(); },
      [](Graph& g) { g.nodes[1].source_op = "LogSoftmax"; },
      [](Graph& g) { g.nodes[1].costing = Costing::kTraffic; },
      [](Graph& g) { g.nodes[1].parameters = 1; },
      [](Graph& g) { std::swap(g.nodes[1], g.nodes[2]); },
      [](Graph& g) { g.nodes.pop_back(); },
      [](Graph& g) { g.parameters = 1; },
      [](Graph& g) { g.parameter_bytes = 1; },
      [](Graph& g) { g.source_op_counts["MatMul"] = 2; },
      [](Graph& g) { g.inputs = {}; },
  };
  std::set<std::string> hashes = {HashOf(SmallGraph())};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Graph graph = SmallGraph();
    changes[i](graph);
    EXPECT_TRUE(hashes.insert(HashOf(graph)).second) << "change " << i;
  }
}

TEST(BindTest, RowsOfElementwiseOperatorsAreAsLongAsThoseThatWereMeasured) {
  const auto bound = [](const char* op, std::int64_t rows, std::int64_t cols) {
    GraphNode node;
    node.kernel.work = Vector{.op = op, .rows = rows, .cols = cols};
    const Vector vector = std::get<Vector>(Bind(node, {})->work);
    EXPECT_EQ(vector.rows * vector.cols, rows * cols);
    return vector;
  };
  EXPECT_EQ(bound("add", 32 * 1024 * 14, 14), (Vector{.op = "add", .rows = 4096, .cols = 1568}));
  EXPECT_EQ(bound("add", 4096, 4096).cols, 4096);
  EXPECT_EQ(bound("softmax", 65536, 14).cols, 14);    // goes along them
  EXPECT_EQ(bound("embedding", 65536, 64).cols, 64);  // each row is looked up
  EXPECT_EQ(bound("add", 1'000'003, 14).cols, 14);    // a prime
  EXPECT_EQ(bound("add", 8, 14).cols, 14);
}

}  // namespace
}  // namespace gpueta
