// The largest file that ONNX allows, weights inside, in little memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "core/importers/onnx/onnx_importer.h"
#include "core/importers/onnx/read_model.h"

namespace gpueta {
namespace {

std::int64_t PeakMemoryBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} << 10;
}

// A field with a length of 5 bytes, which any length fits.
std::string LongField(int number, std::size_t length) {
  std::string field(1, static_cast<char>(number << 3 | 2));
  for (int i = 0; i < 5; ++i) field += static_cast<char>((length >> (7 * i) & 0x7F) | (i < 4 ? 0x80U : 0U));
  return field;
}

// y = x · w, w [rows, 4096] of zero bytes. They are a hole in the file: it
// occupies next to nothing on the disk.
void WriteSparseModel(const std::string& path, std::int64_t rows) {
  onnx::TensorProto weights;
  weights.set_name("w");
  weights.set_data_type(onnx::TensorProto::FLOAT);
  weights.add_dims(rows);
  weights.add_dims(4096);
  const std::size_t zeros = static_cast<std::size_t>(rows) * 4096 * sizeof(float);
  constexpr int kRawData = 9;
  constexpr int kInitializer = 5;
  constexpr int kGraph = 7;
  const std::string stored = weights.SerializeAsString() + LongField(kRawData, zeros);

  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto graph;
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type("MatMul");
  node.add_input("x");
  node.add_input("w");
  node.add_output("y");
  onnx::ValueInfoProto& input = *graph.add_input();
  input.set_name("x");
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("batch");
  type.mutable_shape()->add_dim()->set_dim_value(rows);
  const std::string around = graph.SerializeAsString();
  const std::string head = model.SerializeAsString() + LongField(kGraph, around.size() + 6 + stored.size() + zeros) +
                           around + LongField(kInitializer, stored.size() + zeros) + stored;

  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file, head.data(), head.size()), static_cast<ssize_t>(head.size()));
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(head.size() + zeros)), 0);
  close(file);
}

TEST(OnnxMemoryTest, AFileOfTwoGigabytesIsReadWithoutItsWeights) {
  const std::string path = testing::TempDir() + "/two_gigabytes.onnx";
  constexpr std::int64_t kRows = onnx_import::kMaxFileBytes / (4096 * static_cast<std::int64_t>(sizeof(float)));
  WriteSparseModel(path, kRows);
  const std::int64_t before = PeakMemoryBytes();
  const absl::StatusOr<Graph> graph = ImportOnnxFile(path);
  const std::int64_t grown = PeakMemoryBytes() - before;
  unlink(path.c_str());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->parameters, kRows * 4096);
  EXPECT_EQ(graph->parameter_bytes, kRows * 4096 * 4);
  EXPECT_EQ(CountsOf(*graph, {{"batch", 2}})->macs, 2 * kRows * 4096);
  EXPECT_LT(grown, 64 << 20);
}

}  // namespace
}  // namespace gpueta
