// Models made by tests/data/onnx_made/make_models.py against ONNX's own
// reference implementation and counts by hand.
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kFolder[] = "tests/data/onnx_made/";

struct Made {
  std::string file;
  std::int64_t batch = 0;
  std::int64_t output_elements = 0;
  std::int64_t macs = 0;

  friend void PrintTo(const Made& made, std::ostream* out) { *out << made.file; }
};

std::vector<Made> ReadMade() {
  std::ifstream in(std::string(kFolder) + "truth.csv");
  absl::StatusOr<CsvReader> csv = CsvReader::Open(in, "truth.csv");
  std::vector<Made> models;
  while (csv.ok() && csv->Next()) {
    std::map<std::string, std::string> cells;
    for (std::size_t i = 0; i < csv->columns().size(); ++i) cells[csv->columns()[i]] = csv->cells()[i];
    models.push_back(
        {cells["file"], std::stoll(cells["batch"]), std::stoll(cells["output_elements"]), std::stoll(cells["macs"])});
  }
  return models;
}

// Elements that a kernel writes.
std::int64_t Written(const Kernel& kernel) {
  if (const auto* vector = std::get_if<Vector>(&kernel.work)) return vector->rows * vector->cols;
  const auto* gemm = std::get_if<Gemm>(&kernel.work);
  return gemm == nullptr ? -1 : gemm->batch * gemm->m * gemm->n;
}

TEST(OnnxMadeTableTest, HoldsAllModels) { EXPECT_THAT(ReadMade(), SizeIs(66)); }

class OnnxMadeTest : public ::testing::TestWithParam<Made> {};

TEST_P(OnnxMadeTest, ShapesAndCountsAreThoseOfTheReference) {
  const Made& made = GetParam();
  const absl::StatusOr<Graph> graph = ImportOnnxFile(kFolder + made.file);
  ASSERT_TRUE(graph.ok()) << graph.status();
  if (made.file == "if_of_data.onnx") {
    EXPECT_THAT(graph->warnings, ElementsAre(HasSubstr("costed as its else_branch")));
  } else if (!made.file.starts_with("indexing")) {  // TopK is costed by traffic
    EXPECT_THAT(graph->warnings, IsEmpty());
  }
  const SymbolValues values = {{"batch", made.batch}};
  const absl::StatusOr<GraphCounts> counts = CountsOf(*graph, values);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->macs, made.macs);
  const absl::StatusOr<std::vector<Kernel>> kernels = Bind(*graph, values);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  EXPECT_EQ(Written(kernels->back()), made.output_elements);
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxMadeTest, ::testing::ValuesIn(ReadMade()),
                         [](const auto& param) { return param.param.file.substr(0, param.param.file.find('.')); });

}  // namespace
}  // namespace gpueta
