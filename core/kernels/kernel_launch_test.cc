#include "core/kernels/kernel_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "core/base/errors.h"
#include "core/ops/counts.h"
#include "core/wire/manifest_codec.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::int64_t kAnyMemory = std::int64_t{1} << 62;

KernelManifest Example(const std::string& name) {
  const absl::StatusOr<KernelManifest> manifest = wire::ReadManifestFile("examples/kernels/" + name + ".manifest");
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  return manifest.value_or(KernelManifest());
}

KernelManifest Manifest(const std::string& text) {
  const absl::StatusOr<KernelManifest> manifest =
      wire::ReadManifestText(R"(name: "k" file: "k.ptx" entry: "k" dtype: DTYPE_FP32 flops: "n" bytes: "n" )" + text);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  return manifest.value_or(KernelManifest());
}

template <class T>
T ValueOf(const LaunchArgument& argument) {
  T value{};
  EXPECT_EQ(argument.value.size(), sizeof(T));
  std::memcpy(&value, argument.value.data(), std::min(sizeof(T), argument.value.size()));
  return value;
}

TEST(LaunchOfTest, TiledGemmPadsItsTiles) {
  const absl::StatusOr<KernelLaunch> launch = LaunchOf(Example("tiled_gemm"), {{"m", 100}, {"n", 72}, {"k", 40}});
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_THAT(launch->grid, ElementsAre(2, 2, 1));
  EXPECT_THAT(launch->block, ElementsAre(256, 1, 1));
  EXPECT_EQ(launch->shared_bytes, 0u);
  ASSERT_THAT(launch->arguments, SizeIs(6));
  EXPECT_EQ(launch->arguments[0].buffer_bytes, 4 * 100 * 40);
  EXPECT_EQ(launch->arguments[2].fill, BufferArgument::Fill::kZero);
  EXPECT_EQ(ValueOf<std::int32_t>(launch->arguments[3]), 100);
  const Custom& work = std::get<Custom>(launch->kernel.work);
  EXPECT_EQ(work.op, "tiled_gemm_64x64");
  EXPECT_EQ(work.flops, 2 * 128 * 128 * 48);
  EXPECT_EQ(work.bytes, 4 * (100 * 40 + 40 * 72 + 100 * 72));
  EXPECT_EQ(launch->kernel.dtype, DType::kFp32);
  EXPECT_EQ(launch->kernel.launch.blocks(), 4);
  EXPECT_EQ(launch->kernel.launch.block_x, 256);
}

TEST(LaunchOfTest, WorkIsThatOfTheOperatorItComputes) {
  const absl::StatusOr<KernelLaunch> launch =
      LaunchOf(Example("flash_attention"), {{"batch", 3}, {"kv_heads", 2}, {"group", 4}, {"length", 100}});
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_THAT(launch->grid, ElementsAre(2, 8, 3));
  EXPECT_EQ(ValueOf<float>(launch->arguments[9]), 0.125F);
  const Kernel attention{.name = "",
                         .dtype = DType::kFp32,
                         .work = Attention{.phase = Attention::Phase::kPrefill,
                                           .batch = 3,
                                           .query_len = 100,
                                           .kv_len = 100,
                                           .heads = 8,
                                           .kv_heads = 2,
                                           .head_dim = 64,
                                           .causal = 1,
                                           .kv_dtype = DType::kFp32},
                         .launch = {}};
  const Custom& work = std::get<Custom>(launch->kernel.work);
  EXPECT_EQ(work.flops, CountsOf(attention).flops.value());
  EXPECT_EQ(work.bytes, CountsOf(attention).bytes().value());
}

TEST(LaunchOfTest, DefinitionsMayUseThoseBeforeThem) {
  const KernelManifest manifest = Manifest(R"(dims { name: "n" low: 1 high: 9 }
      definitions { name: "a" value: "n + 1" } definitions { name: "b" value: "a*a" } grid { x: "b" })");
  EXPECT_EQ(LaunchOf(manifest, {{"n", 3}})->grid[0], 16u);
}

struct BadShape {
  const char* name;
  const char* text;  // of the manifest
  SymbolValues dims;
  const char* error;
};

class BadShapeTest : public ::testing::TestWithParam<BadShape> {};

TEST_P(BadShapeTest, IsRefusedByName) {
  const absl::StatusOr<KernelLaunch> launch = LaunchOf(Manifest(GetParam().text), GetParam().dims);
  EXPECT_EQ(launch.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(launch.status()), ::testing::StartsWith(GetParam().error));
}

constexpr char kAny[] = "dims { name: \"n\" low: 1 high: 9 }";
INSTANTIATE_TEST_SUITE_P(
    Shapes, BadShapeTest,
    ::testing::Values(BadShape{"Missing", kAny, {}, "n: has no value; give it, e.g. n=128"},
                      BadShape{"Unknown", kAny, {{"n", 1}, {"m", 1}}, "m: is no dim of k"},
                      BadShape{"Zero", kAny, {{"n", 0}}, "n: is 0; dims are at least 1"},
                      BadShape{"NoMultiple",
                               "dims { name: \"n\" low: 8 high: 64 multiple_of: 8 }",
                               {{"n", 12}},
                               "n: is 12, but the kernel needs a multiple of 8"},
                      BadShape{"NotMadeFor",
                               "dims { name: \"n\" values: [64, 128] }",
                               {{"n", 32}},
                               "n: is 32, but the kernel is made for 64, 128"},
                      BadShape{"EmptyGrid",
                               "dims { name: \"n\" low: 1 high: 9 } grid { y: \"n/4\" }",
                               {{"n", 3}},
                               "grid.y: floordiv(n, 4) is 0, not between 1 and 65535"},
                      BadShape{"LargeGrid",
                               "dims { name: \"n\" low: 1 high: 9 } grid { z: \"n\" }",
                               {{"n", 65536}},
                               "grid.z: n is 65536, not between"},
                      BadShape{"LargeBlock",
                               "dims { name: \"n\" low: 1 high: 9 } block { x: \"n\" y: \"n\" }",
                               {{"n", 33}},
                               "block: has 1089 threads, more than 1024"},
                      BadShape{"SharedMemory",
                               "dims { name: \"n\" low: 1 high: 9 } shared_bytes: \"n\"",
                               {{"n", 300'000}},
                               "shared_bytes: n is 300000, not between"},
                      BadShape{"NoInt32",
                               "dims { name: \"n\" low: 1 high: 9 } arguments { int32: \"n\" }",
                               {{"n", std::int64_t{1} << 31}},
                               "arguments[0].int32: n is 2147483648, not between"},
                      BadShape{"NegativeBuffer",
                               "dims { name: \"n\" low: 1 high: 9 } arguments { buffer { bytes: \"1 - n\" } }",
                               {{"n", 2}},
                               "arguments[0].buffer.bytes: -n + 1 is -1, not between"},
                      BadShape{"PastSixtyFourBits",
                               "dims { name: \"n\" low: 1 high: 9 } arguments { int64: \"n**4\" }",
                               {{"n", std::int64_t{1} << 40}},
                               "arguments[0].int64: n**4: the value is out of the range of 64 bits"},
                      BadShape{"DivisionByZero",
                               "dims { name: \"n\" low: 1 high: 9 } definitions { name: \"d\" value: \"1/(n - 1)\" }",
                               {{"n", 1}},
                               "definitions[0].value: floordiv(1, n - 1): division by zero"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(SampleShapesTest, FillsTheRangesAndKeepsToMultiples) {
  const KernelManifest manifest = Example("tiled_gemm");
  const auto shapes = SampleShapes(manifest, 400, kAnyMemory, 1);
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  ASSERT_THAT(*shapes, SizeIs(400));
  EXPECT_THAT(std::set<SymbolValues>(shapes->begin(), shapes->end()), SizeIs(400));
  int small = 0;
  for (const SymbolValues& shape : *shapes) {
    EXPECT_EQ(shape.at("n") % 8, 0);
    EXPECT_GE(shape.at("n"), 64);
    EXPECT_LE(shape.at("m"), 8192);
    small += shape.at("m") <= 90 ? 1 : 0;  // half of the range in the logarithm
    EXPECT_TRUE(LaunchOf(manifest, shape).ok());
  }
  EXPECT_NEAR(small, 200, 50);
  EXPECT_EQ(*shapes, *SampleShapes(manifest, 400, kAnyMemory, 1));
  EXPECT_NE(*shapes, *SampleShapes(manifest, 400, kAnyMemory, 2));
}

TEST(SampleShapesTest, LeavesOutWhatDoesNotFitIntoMemory) {
  const KernelManifest manifest = Example("tiled_gemm");
  constexpr std::int64_t kMemory = 1 << 20;
  const auto shapes = SampleShapes(manifest, 100, kMemory, 3).value();
  for (const SymbolValues& shape : shapes) {
    const KernelLaunch launch = LaunchOf(manifest, shape).value();
    std::int64_t bytes = 0;
    for (const LaunchArgument& argument : launch.arguments) bytes += argument.buffer_bytes;
    EXPECT_LE(bytes, kMemory);
  }
  EXPECT_THAT(MessageOf(SampleShapes(manifest, 10, 1000, 3).status()),
              HasSubstr("tiled_gemm_64x64: no shape within the ranges of its dims can be run, e.g. m="));
}

TEST(SampleShapesTest, GivesAllWhereThereAreFew) {
  const KernelManifest manifest =
      Manifest("dims { name: \"n\" values: [64, 128] } dims { name: \"b\" low: 1 high: 2 }");
  EXPECT_THAT(*SampleShapes(manifest, 100, kAnyMemory, 0), SizeIs(4));
}

}  // namespace
}  // namespace gpueta
