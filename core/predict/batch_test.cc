// Batches of kernels, saved profiles, and memory: calls that answer from
// tables give the same bits however they are asked, and do not allocate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <random>

#include "core/base/errors.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"
#include "core/testing/test_profile.h"

namespace {
std::atomic<int> allocations = 0;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto align = static_cast<std::size_t>(alignment);
  void* memory = std::aligned_alloc(align, (size + align - 1) / align * align);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace gpueta {
namespace {

using ::testing::HasSubstr;
using testing::MakeTestTable;

constexpr std::size_t kRows = 1000;

Kernel Bf16(Work work) { return {.name = "", .dtype = DType::kBf16, .work = std::move(work), .launch = {}}; }

Kernel RandomKernel(std::mt19937& random, int kind) {
  const auto up_to = [&](std::int64_t limit) { return 1 + static_cast<std::int64_t>(random()) % limit; };
  switch (kind) {
    case 0: return Bf16(Gemm{.layer = Gemm::Layer::kLinear, .m = up_to(8192), .n = up_to(8192), .k = up_to(8192)});
    case 1: {
      const std::int64_t heads = up_to(8);
      return Bf16(Attention{.phase = Attention::Phase::kDecode,
                            .batch = up_to(64),
                            .query_len = 1,
                            .kv_len = up_to(8192),
                            .heads = heads * 4,
                            .kv_heads = heads,
                            .head_dim = 128,
                            .kv_dtype = DType::kBf16});
    }
    case 2: return Bf16(Vector{.op = "rmsnorm", .rows = up_to(8192), .cols = up_to(8192), .operands = 1});
    case 3: return Bf16(Vector{.op = "add", .rows = up_to(8192), .cols = up_to(8192), .operands = 2});
    default:
      return Bf16(Moe{.num_tokens = up_to(8192),
                      .hidden_size = 4096,
                      .inter_size = 1536,
                      .top_k = 8,
                      .num_experts = 128,
                      .tp = 1,
                      .ep = 2});
  }
}
constexpr int kKinds = 5;

// A residual of several widths, a hull that half of the kernels leave, and one
// measured kernel.
Profile MakeProfile(const Kernel& measured) {
  Profile profile = testing::MakeTestProfile("h100-sxm");
  const TableKey decode{.op = Op::kAttention,
                        .phase = Attention::Phase::kDecode,
                        .dtype = DType::kBf16,
                        .kv_dtype = DType::kBf16,
                        .timing = Timing::kGraph};
  profile.tables.push_back(MakeTestTable(decode));
  profile.tables.push_back(MakeTestTable({.op = Op::kMoe, .dtype = DType::kBf16, .timing = Timing::kGraph}));
  std::sort(profile.tables.begin(), profile.tables.end(), [](const Table& a, const Table& b) { return a.key < b.key; });
  std::mt19937 random(3);
  std::uniform_real_distribution<float> weight(-0.2F, 0.2F);
  for (Table& table : profile.tables) {
    const std::size_t inputs = FormInfoOf(table.key.op, table.key.phase).features.size() + table.variants.size();
    Residual& residual = table.residual;
    residual.hidden = {20, 16};
    residual.feature_mean.assign(inputs, 5.0F);
    residual.feature_scale.assign(inputs, 0.2F);
    residual.feature_scale[1] = 0;  // constant in training
    residual.weights.resize((inputs + 1) * 20 + 21 * 16 + 17);
    for (float& w : residual.weights) w = weight(random);
    table.dim_max[0] = 4096;
    if (table.key.op == Op::kGemm) {
      table.dim_max[1] = 4096;
      table.measured_hash = {HashOf(measured)};
      table.measured_ln = {0.3F};
    }
  }
  return profile;
}

Predictor MakePredictor(LoadedProfile loaded) {
  return Predictor(Catalogue::BuiltIn().Get("h100-sxm").value(),
                   std::make_shared<const CompiledProfile>(std::move(loaded)), nullptr);
}
Predictor MakePredictor() {
  std::mt19937 random(1);
  return MakePredictor({.profile = MakeProfile(RandomKernel(random, 0)), .id = "test"});
}

std::vector<Kernel> MixedKernels(std::size_t count) {
  std::mt19937 random(1);
  std::vector<Kernel> kernels;
  for (std::size_t i = 0; i < count; ++i) kernels.push_back(RandomKernel(random, static_cast<int>(i) % kKinds));
  return kernels;
}

void ExpectSameBits(const Estimate& a, const Estimate& b, const Kernel& kernel) {
  ASSERT_EQ(a.latency_us.p50, b.latency_us.p50) << Describe(kernel);
  ASSERT_EQ(a.latency_us.p90, b.latency_us.p90) << Describe(kernel);
  ASSERT_EQ(a.latency_us.p99, b.latency_us.p99) << Describe(kernel);
  ASSERT_EQ(a.provenance, b.provenance) << Describe(kernel);
  ASSERT_EQ(a.estimator, b.estimator) << Describe(kernel);
  ASSERT_EQ(a.bound, b.bound) << Describe(kernel);
}

class BatchesAgreeWithKernels : public ::testing::TestWithParam<std::size_t> {};

// Less than a vector, a batch, and what is left over of each.
TEST_P(BatchesAgreeWithKernels, ToTheBit) {
  const Predictor predictor = MakePredictor();
  std::vector<Kernel> kernels = MixedKernels(GetParam());
  if (kernels.size() > 20) kernels[20].launch.kernel = "named";  // not a gemm's label: evaluated alone
  std::vector<Estimate> estimates(kernels.size());
  ASSERT_EQ(predictor.EstimateKernels(kernels, {}, estimates), absl::OkStatus());
  for (std::size_t i = 0; i < kernels.size(); ++i)
    ExpectSameBits(estimates[i], predictor.EstimateKernel(kernels[i]).value(), kernels[i]);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BatchesAgreeWithKernels, ::testing::Values(0, 1, 6, 100, 512, 513, 2000));

TEST(BatchTest, OptionsHoldForAllKernels) {
  const Predictor predictor = MakePredictor();
  const std::vector<Kernel> kernels = MixedKernels(50);
  std::vector<Estimate> estimates(kernels.size());
  for (const EstimateOptions& options :
       {EstimateOptions{.timing = Timing::kEager, .estimator = ""}, EstimateOptions{.estimator = "roofline"}}) {
    ASSERT_EQ(predictor.EstimateKernels(kernels, options, estimates), absl::OkStatus());
    for (std::size_t i = 0; i < kernels.size(); ++i)
      ExpectSameBits(estimates[i], predictor.EstimateKernel(kernels[i], options).value(), kernels[i]);
  }
}

TEST(BatchTest, EagerCallsLoseTheirFloorsKernelByKernel) {
  const std::vector<Kernel> kernels = MixedKernels(600);
  Profile profile = MakeProfile(kernels[0]);
  for (Table& table : profile.tables) {
    table.key.timing = Timing::kEager;
    table.floor_us = 25;
    table.variants[0].theta[0] = 25;
  }
  const Predictor predictor = MakePredictor({.profile = profile, .id = "eager"});
  const EstimateOptions options{.timing = Timing::kKernel, .estimator = ""};
  std::vector<Estimate> estimates(kernels.size());
  ASSERT_EQ(predictor.EstimateKernels(kernels, options, estimates), absl::OkStatus());
  for (std::size_t i = 0; i < kernels.size(); ++i)
    ExpectSameBits(estimates[i], predictor.EstimateKernel(kernels[i], options).value(), kernels[i]);
  // Columns, too.
  const std::vector<std::uint32_t> rows = {1, 1024};
  std::vector<float> us(rows.size());
  ColumnsResult result{.p50_us = us};
  const std::uint32_t cols = 1024, operands = 2;
  KernelColumns columns{.prototype = Bf16(Vector{.op = "add"}), .dims = {}, .rows = rows.size()};
  columns.dims[0] = rows;
  columns.dims[1] = {&cols, 1};
  columns.dims[2] = {&operands, 1};
  ASSERT_EQ(predictor.EstimateColumns(columns, options, result), absl::OkStatus());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Kernel kernel = Bf16(Vector{.op = "add", .rows = rows[i], .cols = cols, .operands = operands});
    EXPECT_EQ(us[i], static_cast<float>(predictor.EstimateKernel(kernel, options)->latency_us.p50));
  }
  EXPECT_GT(us[1], us[0]);
}

// Plain products where linear layers and batched products were measured: what is
// the same for all rows holds beyond the first block of them.
TEST(BatchTest, ColumnsOfPlainProductsAgreeWithRows) {
  Profile profile = testing::MakeTestProfile("h100-sxm");
  for (Table& table : profile.tables) {
    if (table.key.op != Op::kGemm) continue;
    table.variants.push_back(table.variants[0]);
    table.variants.push_back(table.variants[0]);
    table.variants[1].label = "bmm";
    table.variants[1].theta[1] *= 0.5F;
    table.variants[2].label = "linear";
    table.residual = {};
  }
  const Predictor predictor = MakePredictor({.profile = profile, .id = "layers"});
  constexpr std::size_t kBlocksAndMore = 300;
  std::vector<std::uint32_t> varying(kBlocksAndMore);
  for (std::size_t i = 0; i < kBlocksAndMore; ++i) varying[i] = static_cast<std::uint32_t>(3 + 17 * i);
  const std::uint32_t batch = 3, many = 5000, side = 1024;
  for (const int varies : {0, 1, 2, 3}) {
    KernelColumns columns{.prototype = Bf16(Gemm{}), .dims = {}, .rows = kBlocksAndMore};
    columns.dims[0] = {&batch, 1};
    columns.dims[1] = {&many, 1};
    columns.dims[2] = columns.dims[3] = {&side, 1};
    columns.dims[static_cast<std::size_t>(varies)] = varying;
    std::vector<float> us(kBlocksAndMore);
    ColumnsResult result{.p50_us = us};
    ASSERT_EQ(predictor.EstimateColumns(columns, {}, result), absl::OkStatus());
    for (std::size_t i = 0; i < kBlocksAndMore; ++i) {
      Gemm work{.batch = batch, .m = many, .n = side, .k = side};
      std::int64_t Gemm::*const dims[] = {&Gemm::batch, &Gemm::m, &Gemm::n, &Gemm::k};
      work.*dims[varies] = varying[i];
      ASSERT_EQ(us[i], static_cast<float>(predictor.EstimateKernel(Bf16(work))->latency_us.p50)) << varies << " " << i;
    }
  }
}

TEST(BatchTest, MoreLabelsThanABatchTellsApartAreStillAnswered) {
  const Predictor predictor = MakePredictor();
  std::vector<Kernel> kernels;
  for (int i = 0; i < 200; ++i)
    kernels.push_back(Bf16(Vector{.op = fmt::format("op{}", i), .rows = 100 + i, .cols = 4096, .operands = 1}));
  std::vector<Estimate> estimates(kernels.size());
  ASSERT_EQ(predictor.EstimateKernels(kernels, {}, estimates), absl::OkStatus());
  for (std::size_t i = 0; i < kernels.size(); ++i)
    ExpectSameBits(estimates[i], predictor.EstimateKernel(kernels[i]).value(), kernels[i]);
}

TEST(BatchTest, ErrorsNameTheKernel) {
  std::vector<Kernel> kernels = MixedKernels(600);
  SetDim(kernels[555], 0, -1);
  std::vector<Estimate> estimates(kernels.size());
  EXPECT_THAT(MessageOf(MakePredictor().EstimateKernels(kernels, {}, estimates)),
              HasSubstr("kernels[555].gemm.batch: is -1"));
}

TEST(SavedProfileTest, AnswersTheSameToTheLastBit) {
  const std::vector<Kernel> kernels = MixedKernels(kRows);
  const Profile profile = MakeProfile(kernels[0]);
  const std::string path = (std::filesystem::temp_directory_path() / "gpueta_batch_test.profile").string();
  ASSERT_TRUE(SaveProfile(profile, path).ok());
  const Predictor before = MakePredictor({.profile = profile, .id = "never saved"});
  const Predictor after = MakePredictor(LoadProfile(path).value());
  std::filesystem::remove(path);
  std::vector<Estimate> a(kRows), b(kRows);
  ASSERT_EQ(before.EstimateKernels(kernels, {}, a), absl::OkStatus());
  ASSERT_EQ(after.EstimateKernels(kernels, {}, b), absl::OkStatus());
  for (std::size_t i = 0; i < kRows; ++i) ExpectSameBits(a[i], b[i], kernels[i]);
}

TEST(MemoryTest, TheCounterSeesAllocations) {
  const int before = allocations;
  auto* volatile number = new int(1);
  delete number;
  EXPECT_EQ(allocations - before, 1);
}

TEST(MemoryTest, KernelsAndBatchesDoNotAllocate) {
  const Predictor predictor = MakePredictor();
  const std::vector<Kernel> kernels = MixedKernels(kRows);
  std::vector<Estimate> estimates(kRows);
  const int before = allocations;
  bool ok = predictor.EstimateKernels(kernels, {}, estimates).ok();
  for (const Kernel& kernel : kernels) ok = ok && predictor.EstimateKernel(kernel).ok();
  EXPECT_EQ(allocations - before, 0);
  EXPECT_TRUE(ok);
}

TEST(MemoryTest, ColumnsDoNotAllocate) {
  const Predictor predictor = MakePredictor();
  std::mt19937 random(1);
  for (int kind = 0; kind < kKinds; ++kind) {
    Kernel prototype = RandomKernel(random, kind);
    prototype.name = "a name that is longer than a string holds in itself";
    const auto dims = static_cast<std::size_t>(DimNamesOf(prototype.op()).size);
    std::vector<std::vector<std::uint32_t>> values(dims);
    for (std::size_t r = 0; r < kRows; ++r) {
      const Kernel kernel = RandomKernel(random, kind);
      for (std::size_t d = 0; d < dims; ++d)
        values[d].push_back(static_cast<std::uint32_t>(GetDim(kernel, static_cast<int>(d))));
    }
    KernelColumns columns{.prototype = prototype, .dims = {}, .rows = kRows};
    for (std::size_t d = 0; d < dims; ++d) columns.dims[d] = values[d];
    if (prototype.op() == Op::kVector) columns.dims[2] = columns.dims[2].first(1);  // part of the label
    std::vector<float> p50(kRows), p90(kRows), p99(kRows);
    std::vector<Provenance> provenance(kRows);
    ColumnsResult result{p50, p90, p99, provenance, {}};
    const int before = allocations;
    const bool ok = predictor.EstimateColumns(columns, {}, result).ok();
    EXPECT_EQ(allocations - before, 0) << Describe(prototype);
    EXPECT_TRUE(ok);
  }
}

}  // namespace
}  // namespace gpueta
