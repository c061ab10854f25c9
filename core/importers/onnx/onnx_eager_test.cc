// What the importer and the eager passes make of real models against what
// PyTorch's dispatcher ran: see tests/data/README.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/base/csv.h"
#include "core/graph/passes/eager.h"
#include "core/importers/onnx/onnx_importer.h"

namespace gpueta {
namespace {

using KernelCounts = std::map<std::string, std::int64_t>;

struct EagerRun {
  std::int64_t batch = 0;
  KernelCounts kernels;
};

std::map<std::string, EagerRun> ReadRuns() {
  constexpr char kFile[] = "tests/data/eager_kernels.csv";
  std::ifstream in(kFile);
  absl::StatusOr<CsvReader> csv = CsvReader::Open(in, kFile);
  std::map<std::string, EagerRun> runs;
  while (csv.ok() && csv->Next()) {
    EagerRun& run = runs[std::string(csv->cells()[0])];
    run.batch = std::stoll(std::string(csv->cells()[1]));
    run.kernels[std::string(csv->cells()[2])] = std::stoll(std::string(csv->cells()[3]));
  }
  return runs;
}

// As the table writes it; empty for kernels it does not list.
std::string TextOf(const Kernel& kernel) {
  if (const auto* c = std::get_if<Conv2d>(&kernel.work); c != nullptr) {
    return fmt::format("conv2d {} {} {} {} {} {} {} {} {} {} {} {}", c->batch, c->in_channels, c->height, c->width,
                       c->out_channels, c->kernel_h, c->kernel_w, c->stride_h, c->stride_w, c->pad_h, c->pad_w,
                       c->groups);
  }
  if (const auto* g = std::get_if<Gemm>(&kernel.work); g != nullptr)
    return fmt::format("gemm {} {} {} {}", g->batch, g->m, g->n, g->k);
  if (const auto* v = std::get_if<Vector>(&kernel.work); v != nullptr && v->op == "batchnorm")
    return fmt::format("batchnorm {}", v->rows * v->cols);
  return "";
}

TEST(OnnxEagerTest, ConvolutionsProductsAndBatchNormsAreThoseThatPyTorchRan) {
  const std::map<std::string, EagerRun> runs = ReadRuns();
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/data/onnx")) {
    const std::string file = entry.path().filename().string();
    const auto run = runs.find(file.substr(0, file.find('.')));
    if (run == runs.end()) continue;
    absl::StatusOr<Graph> graph = ImportOnnxFile(entry.path().string());
    ASSERT_TRUE(graph.ok()) << graph.status();
    RestoreFolded(*graph);
    ASSERT_TRUE(Validate(*graph).ok());
    const auto kernels = Bind(*graph, {{"batch", run->second.batch}});
    ASSERT_TRUE(kernels.ok()) << kernels.status();
    KernelCounts found;
    for (std::size_t i = 0; i < kernels->size(); ++i) {
      if (graph->nodes[i].costing == Costing::kFree) continue;
      if (const std::string text = TextOf((*kernels)[i]); !text.empty()) ++found[text];
    }
    EXPECT_EQ(found, run->second.kernels) << file;
    ++compared;
  }
  EXPECT_EQ(compared, 13);
}

}  // namespace
}  // namespace gpueta
