// Real models against what PyTorch counted of them: see tests/data/README.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/csv.h"
#include "core/importers/onnx/onnx_importer.h"

namespace gpueta {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kTruth[] = "tests/data/graphs_truth.csv";
constexpr char kModels[] = "tests/data/onnx/";

// One line of the table, by column.
struct Truth {
  std::map<std::string, std::string> cells;

  const std::string& file() const { return cells.at("file"); }
  std::int64_t Integer(const std::string& column) const { return std::stoll(cells.at(column)); }
  friend void PrintTo(const Truth& truth, std::ostream* out) { *out << truth.file(); }
};

std::vector<Truth> ReadTruths() {
  std::ifstream in(kTruth);
  absl::StatusOr<CsvReader> csv = CsvReader::Open(in, kTruth);
  std::vector<Truth> truths;
  while (csv.ok() && csv->Next()) {
    Truth& truth = truths.emplace_back();
    for (std::size_t i = 0; i < csv->columns().size(); ++i) truth.cells[csv->columns()[i]] = csv->cells()[i];
  }
  return truths;
}

TEST(OnnxTruthTableTest, HoldsAllModels) { EXPECT_THAT(ReadTruths(), SizeIs(39)); }

std::string TestName(const ::testing::TestParamInfo<Truth>& param) {
  std::string name = param.param.file();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

class OnnxTruthTest : public ::testing::TestWithParam<Truth> {};

TEST_P(OnnxTruthTest, CountsAreThoseOfPyTorch) {
  const Truth& truth = GetParam();
  const absl::StatusOr<Graph> graph = ImportOnnxFile(kModels + truth.file());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->warnings, IsEmpty());
  EXPECT_EQ(graph->parameters, truth.Integer("onnx_float_initializer_elems"));
  const auto nodes_of = [&graph](const std::string& op) {
    const auto found = graph->source_op_counts.find(op);
    return found == graph->source_op_counts.end() ? 0 : found->second;
  };
  EXPECT_EQ(nodes_of("Conv"), truth.Integer("onnx_nodes_Conv"));
  EXPECT_EQ(nodes_of("Gemm"), truth.Integer("onnx_nodes_Gemm"));
  EXPECT_EQ(nodes_of("MatMul"), truth.Integer("onnx_nodes_MatMul"));

  const auto macs_at = [&graph](std::int64_t batch) -> std::int64_t {
    SymbolValues values;
    for (const Graph::Symbol& symbol : graph->symbols) values[symbol.name] = symbol.name == "batch" ? batch : 128;
    const absl::StatusOr<GraphCounts> counts = CountsOf(*graph, values);
    EXPECT_TRUE(counts.ok()) << counts.status();
    return counts.ok() ? counts->macs : -1;
  };
  EXPECT_EQ(macs_at(1), truth.Integer("macs_b1"));
  // Two files were exported with batch 1 baked in.
  if (!graph->symbols.empty()) {
    EXPECT_EQ(macs_at(8), truth.Integer("macs_b8"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxTruthTest, ::testing::ValuesIn(ReadTruths()), TestName);

}  // namespace
}  // namespace gpueta
