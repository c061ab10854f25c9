#include "core/wire/graph_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <vector>

#include "core/base/errors.h"
#include "core/importers/onnx/onnx_importer.h"

namespace gpueta::wire {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> ModelFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/data/onnx")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

SymbolValues SomeValues(const Graph& graph) {
  SymbolValues values;
  for (const Graph::Symbol& symbol : graph.symbols) values[symbol.name] = 16;
  return values;
}

void ExpectEqual(const Graph& a, const Graph& b) {
  EXPECT_EQ(HashOf(a), HashOf(b));
  EXPECT_EQ(a.display_name, b.display_name);
  EXPECT_EQ(a.warnings, b.warnings);
  const absl::StatusOr<GraphCounts> x = CountsOf(a, SomeValues(a));
  const absl::StatusOr<GraphCounts> y = CountsOf(b, SomeValues(a));
  ASSERT_TRUE(x.ok()) << x.status();
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(x->macs, y->macs);
  EXPECT_EQ(x->bytes, y->bytes);
  EXPECT_EQ(x->kernels, y->kernels);
}

TEST(GraphCodecTest, RealModelsRoundTripInBytesAndText) {
  const std::vector<std::string> files = ModelFiles();
  EXPECT_THAT(files, SizeIs(39));
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    absl::StatusOr<Graph> graph = ImportOnnxFile(file);
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph->warnings = {"careful"};

    v1::Graph parsed;
    ASSERT_TRUE(parsed.ParseFromString(Encode(*graph).SerializeAsString()));
    const absl::StatusOr<Graph> decoded = Decode(parsed);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectEqual(*decoded, *graph);

    for (GraphFormat format : {GraphFormat::kText, GraphFormat::kJson}) {
      const absl::StatusOr<std::string> text = WriteGraphText(*graph, format);
      ASSERT_TRUE(text.ok()) << text.status();
      const absl::StatusOr<Graph> read = ReadGraphText(*text);
      ASSERT_TRUE(read.ok()) << read.status();
      ExpectEqual(*read, *graph);
    }
  }
}

constexpr char kGraphText[] = R"(
symbols { name: "batch" }
nodes {
  kernel { name: "q" dtype: DTYPE_FP16 gemm { layer: LAYER_LINEAR m: 1 n: 64 k: 32 } }
  symbolic_dims { key: "m" value: "197*batch" }
  source_op: "MatMul"
}
nodes {
  kernel { dtype: DTYPE_FP16 vector { op: "view" rows: 3 cols: 64 } }
  inputs: 0
  costing: COSTING_FREE
})";

constexpr char kGraphJson[] = R"( {
  "symbols": [{"name": "batch"}],
  "nodes": [
    {"kernel": {"name": "q", "dtype": "DTYPE_FP16", "gemm": {"layer": "LAYER_LINEAR", "n": 64, "k": "32"}},
     "symbolicDims": {"m": "batch*197"}, "sourceOp": "MatMul"},
    {"kernel": {"dtype": "DTYPE_FP16", "vector": {"op": "view", "rows": 3, "cols": 64}}, "inputs": [0],
     "costing": "COSTING_FREE"}]})";

TEST(GraphCodecTest, WhereAndWhenNodesRunSurvives) {
  Graph graph;
  graph.nodes.resize(3);
  for (GraphNode& node : graph.nodes) node.kernel.work = Gemm{.m = 8, .n = 8, .k = 8};
  graph.nodes[1].turn = Turn::kBackward;
  graph.nodes[1].stage = 5;
  graph.nodes[2].turn = Turn::kStep;
  graph.nodes[2].stream = DeviceStream::kCommunication;
  graph.microbatches = 7;
  graph.gradient_bytes = 11;
  graph.optimiser_bytes = 13;
  const absl::StatusOr<Graph> decoded = Decode(Encode(graph));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectEqual(*decoded, graph);
  EXPECT_EQ(decoded->nodes[1].turn, Turn::kBackward);
  EXPECT_EQ(decoded->nodes[1].stage, 5);
  EXPECT_EQ(decoded->nodes[2].turn, Turn::kStep);
  EXPECT_EQ(decoded->nodes[2].stream, DeviceStream::kCommunication);
  EXPECT_EQ(decoded->microbatches, 7);
  EXPECT_EQ(decoded->gradient_bytes, 11);
  EXPECT_EQ(decoded->optimiser_bytes, 13);
  // They are part of what the graph is.
  graph.nodes[1].stage = 4;
  EXPECT_NE(HashOf(graph), HashOf(*decoded));
}

TEST(GraphCodecTest, TextAndJsonOfOneGraphReadTheSame) {
  const absl::StatusOr<Graph> text = ReadGraphText(kGraphText);
  const absl::StatusOr<Graph> json = ReadGraphText(kGraphJson);
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(HashOf(*text), HashOf(*json));
  EXPECT_EQ(text->nodes[0].costing, Costing::kKernel);
  EXPECT_EQ(CountsOf(*text, {{"batch", 2}})->macs, 2 * 197 * 64 * 32);
}

TEST(GraphCodecTest, EqualGraphsGiveEqualText) {
  const absl::StatusOr<Graph> graph = ReadGraphText(kGraphText);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(*WriteGraphText(*graph, GraphFormat::kText),
            *WriteGraphText(*ReadGraphText(kGraphJson), GraphFormat::kText));
}

TEST(GraphCodecTest, TextErrorsNameThePlace) {
  EXPECT_THAT(MessageOf(ReadGraphText("nodes {\n  kernle {} }").status()), HasSubstr("line 2"));
  EXPECT_THAT(MessageOf(ReadGraphText("{\"nodes\": [{\"kernle\": 1}]}").status()), HasSubstr("kernle"));
  EXPECT_FALSE(ReadGraphText("{\"nodes\": [").ok());
  EXPECT_FALSE(ReadGraphText("\x01\x02").ok());
}

struct BadGraph {
  std::function<void(v1::Graph&)> damage;
  std::string problem;
};

class BadGraphTest : public ::testing::TestWithParam<BadGraph> {};

TEST_P(BadGraphTest, ErrorsNameTheField) {
  v1::Graph message = Encode(*ReadGraphText(kGraphText));
  GetParam().damage(message);
  const absl::Status status = Decode(message).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().problem));
  EXPECT_FALSE(FieldOf(status).empty());
}

v1::Graph::Node& First(v1::Graph& graph) { return *graph.mutable_nodes(0); }

INSTANTIATE_TEST_SUITE_P(
    Errors, BadGraphTest,
    ::testing::Values(
        BadGraph{[](v1::Graph& g) { First(g).mutable_kernel()->mutable_gemm()->set_k(0); },
                 "nodes[0].kernel.gemm.k: is 0, must be at least 1"},
        BadGraph{[](v1::Graph& g) { First(g).clear_kernel(); }, "nodes[0].kernel.dtype: is not set"},
        BadGraph{[](v1::Graph& g) { First(g).mutable_kernel()->clear_gemm(); }, "nodes[0].kernel.work: is not set"},
        BadGraph{[](v1::Graph& g) { (*First(g).mutable_symbolic_dims())["q"] = "1"; },
                 "nodes[0].symbolic_dims.q: gemm has no such dim"},
        BadGraph{[](v1::Graph& g) { (*First(g).mutable_symbolic_dims())["m"] = "2 batch"; },
                 "nodes[0].symbolic_dims.m: \"2 batch\": an operator or the end is expected at character 3"},
        BadGraph{[](v1::Graph& g) { (*First(g).mutable_symbolic_dims())["m"] = "sequence"; },
                 "nodes[0].symbolic_dims.m: the graph declares no symbol \"sequence\""},
        BadGraph{[](v1::Graph& g) { First(g).add_inputs(1); }, "nodes[0].inputs: 1 is not a node before this one"},
        BadGraph{[](v1::Graph& g) { First(g).set_costing(static_cast<v1::Graph::Costing>(8)); },
                 "nodes[0].costing: has the unknown value 8"},
        BadGraph{[](v1::Graph& g) { First(g).set_parameters(-1); }, "nodes[0].parameters: is negative"},
        BadGraph{[](v1::Graph& g) {
                   g.mutable_nodes(1)->clear_costing();
                   g.mutable_nodes(1)->mutable_kernel()->mutable_vector()->set_rows(-3);
                 },
                 "nodes[1].kernel.vector.rows: is -3"},
        BadGraph{[](v1::Graph& g) { First(g).set_stage(-1); }, "nodes[0].stage: must be from 0 to 255"},
        BadGraph{[](v1::Graph& g) { First(g).set_turn(static_cast<v1::Graph::Turn>(9)); },
                 "nodes[0].turn: has an unknown value"},
        BadGraph{[](v1::Graph& g) { First(g).set_stream(static_cast<v1::Graph::Stream>(9)); },
                 "nodes[0].stream: has an unknown value"},
        BadGraph{[](v1::Graph& g) { g.set_microbatches(-1); }, "microbatches: must be from 1 to 4096"},
        BadGraph{[](v1::Graph& g) {
                   g.set_microbatches(4096);
                   g.mutable_nodes(1)->set_stage(255);
                 },
                 "microbatches: times 256 stages must be at most"},
        BadGraph{[](v1::Graph& g) { g.set_optimiser_bytes(-1); }, "optimiser_bytes: must be between"},
        BadGraph{[](v1::Graph& g) { g.mutable_symbols(0)->set_name(""); }, "symbols[0]"}));

}  // namespace
}  // namespace gpueta::wire
