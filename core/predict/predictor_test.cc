#include "core/predict/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/base/errors.h"
#include "core/predict/compiled_table.h"
#include "core/predict/snapshot.h"
#include "core/predict/wave.h"
#include "core/testing/test_profile.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;
using testing::MakeTestProfile;
using testing::MakeTestTable;

Kernel GemmKernel(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::kBf16) {
  return {.name = "", .dtype = dtype, .work = Gemm{.m = m, .n = n, .k = k}, .launch = {}};
}

std::shared_ptr<const CompiledProfile> Compile(const Profile& profile) {
  return std::make_shared<const CompiledProfile>(ParseProfile(SerializeProfile(profile)).value());
}

// With a network, measured kernels and a hull, so that every path is taken.
Profile RichProfile() {
  Profile profile = MakeTestProfile("h100-sxm");
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-0.2F, 0.2F);
  for (Table& table : profile.tables) {
    const std::size_t inputs = FormInfoOf(table.key.op, table.key.phase).features.size() + table.variants.size();
    table.residual.feature_mean.assign(inputs, 5.0F);
    table.residual.feature_scale.assign(inputs, 0.2F);
    table.residual.hidden = {10, 6};
    for (std::size_t i = 0; i < (inputs + 1) * 10 + 11 * 6 + 7; ++i) table.residual.weights.push_back(uniform(random));
  }
  Table& gemm = profile.tables[0];
  gemm.dim_min = {1, 16, 64, 64};
  gemm.dim_max = {1, 4096, 4096, 4096};
  gemm.measured_hash = {HashOf(GemmKernel(128, 256, 512))};
  gemm.measured_ln = {0.3F};
  return profile;
}

Predictor RichPredictor(std::shared_ptr<const CompiledProfile> transfer = nullptr) {
  return Predictor(Catalogue::BuiltIn().Get("h100-sxm").value(), Compile(RichProfile()), std::move(transfer), 3);
}

TEST(PredictorTest, QuantilesAreOrderedAndPositive) {
  const Predictor predictor = RichPredictor();
  std::mt19937 random(2);
  std::uniform_int_distribution<std::int64_t> dim(1, 20000);
  for (int i = 0; i < 500; ++i) {
    const auto e = predictor.EstimateKernel(GemmKernel(dim(random), dim(random), dim(random)));
    ASSERT_TRUE(e.ok());
    ASSERT_GT(e->latency_us.p50, 0);
    ASSERT_LE(e->latency_us.p50, e->latency_us.p90);
    ASSERT_LE(e->latency_us.p90, e->latency_us.p99);
  }
}

TEST(PredictorTest, ProvenanceSaysWhatTheEstimateRestsOn) {
  const Predictor predictor = RichPredictor(Compile([] {
    Profile transfer = MakeTestProfile("transfer");
    transfer.transfer = true;
    transfer.tables = {MakeTestTable({.op = Op::kGemm, .dtype = DType::kFp32, .timing = Timing::kEager})};
    return transfer;
  }()));
  EXPECT_EQ(predictor.EstimateKernel(GemmKernel(128, 256, 512))->provenance, Provenance::kMeasured);
  EXPECT_EQ(predictor.EstimateKernel(GemmKernel(129, 256, 512))->provenance, Provenance::kInterpolated);
  EXPECT_EQ(predictor.EstimateKernel(GemmKernel(8192, 256, 512))->provenance, Provenance::kExtrapolated);
  EXPECT_EQ(predictor.EstimateKernel(GemmKernel(128, 256, 512, DType::kFp32))->provenance, Provenance::kTransferred);
  EXPECT_EQ(predictor.EstimateKernel(GemmKernel(128, 256, 512), {.estimator = "roofline"})->provenance,
            Provenance::kRoofline);
}

TEST(PredictorTest, AMeasuredKernelAnswersWithItsMeasurement) {
  const Predictor predictor = RichPredictor();
  Profile without = RichProfile();
  without.tables[0].measured_hash.clear();
  without.tables[0].measured_ln.clear();
  const Predictor plain(Catalogue::BuiltIn().Get("h100-sxm").value(), Compile(without), nullptr);
  const Kernel kernel = GemmKernel(128, 256, 512);
  EXPECT_NEAR(predictor.EstimateKernel(kernel)->latency_us.p50 / plain.EstimateKernel(kernel)->latency_us.p50,
              std::exp(0.3), 1e-5);
}

TEST(PredictorTest, IntervalsWidenOutsideTheHull) {
  const Predictor predictor = RichPredictor();
  const auto width = [&](std::int64_t m) {
    const Quantiles q = predictor.EstimateKernel(GemmKernel(m, 1024, 1024))->latency_us;
    return q.p90 / q.p50;
  };
  EXPECT_LT(width(4096), width(8192));
  EXPECT_LT(width(8192), width(65536));
}

TEST(PredictorTest, ConvertedTimingIsNotCalledMeasured) {
  const Predictor predictor = RichPredictor();
  const auto converted = predictor.EstimateKernel(GemmKernel(128, 256, 512), {.timing = Timing::kEager});
  EXPECT_NE(converted->provenance, Provenance::kMeasured);
  EXPECT_GT(converted->latency_us.p50, predictor.EstimateKernel(GemmKernel(128, 256, 512))->latency_us.p50);
}

TEST(PredictorTest, AMeasuredKernelIsConvertedToAnotherTiming) {
  const auto at = [](const Profile& profile) {
    const Predictor predictor(Catalogue::BuiltIn().Get("h100-sxm").value(), Compile(profile), nullptr);
    return predictor.EstimateKernel(GemmKernel(128, 256, 512), {.timing = Timing::kKernel})->latency_us.p50;
  };
  Profile without = RichProfile();
  without.tables[0].measured_hash.clear();
  without.tables[0].measured_ln.clear();
  EXPECT_GT(at(RichProfile()), at(without) * 1.05);
}

TEST(PredictorTest, AnEagerGraphRestsOnEagerMeasurements) {
  // Another library was measured by device time, slower.
  Profile profile = MakeTestProfile("h100-sxm");
  Table eager = profile.tables[0];
  eager.key.timing = Timing::kEager;
  eager.floor_us = 20;
  Table kernel = eager;
  kernel.key.timing = Timing::kKernel;
  for (Variant& variant : kernel.variants) variant.theta[0] *= 5;  // the fixed cost
  const auto eager_graph = [](const Profile& of) {
    const Predictor predictor(Catalogue::BuiltIn().Get("h100-sxm").value(), Compile(of), nullptr);
    Graph graph;
    graph.nodes.resize(1);
    graph.nodes[0].kernel = GemmKernel(128, 256, 512);
    return predictor.EstimateGraph(graph, {})->latency_us.p50;
  };
  profile.tables = {eager, kernel};
  const double both = eager_graph(profile);
  profile.tables = {eager};
  EXPECT_EQ(both, eager_graph(profile));
  profile.tables = {kernel};
  EXPECT_NE(both, eager_graph(profile));
}

// Batched products that take half of what linear layers do, or twice that.
Predictor PredictorOfLayers(DType dtype, float of_batched) {
  Profile profile = RichProfile();
  Table& table = profile.tables[0];
  table.key.dtype = dtype;
  table.residual = {};
  table.variants[0].theta[1] *= 1.5F;
  table.variants[1].label = "bmm";
  table.variants.push_back(table.variants[1]);
  table.variants[1].theta[1] *= of_batched;  // compute
  table.variants[2].label = "linear";
  profile.tables = {table};
  return Predictor(Catalogue::BuiltIn().Get("h100-sxm").value(), Compile(profile), nullptr);
}

double LayerUs(const Predictor& predictor, DType dtype, const Gemm& gemm) {
  return predictor.EstimateKernel({.name = "", .dtype = dtype, .work = gemm, .launch = {}})->latency_us.p50;
}

TEST(PredictorTest, APlainProductIsTheQuickerOfALinearLayerAndItsRowsInSlices) {
  using enum Gemm::Layer;
  const Predictor quick = PredictorOfLayers(DType::kFp32, 0.5F);
  const auto us = [&](const Gemm& gemm) { return LayerUs(quick, DType::kFp32, gemm); };
  EXPECT_EQ(us({kGemm, 1, 4096, 1000, 2048}), us({kBmm, 8, 512, 1000, 2048}));
  EXPECT_EQ(us({kGemm, 1, 200, 1000, 2048}), us({kBmm, 1, 200, 1000, 2048}));
  EXPECT_GT(us({kLinear, 1, 4096, 1000, 2048}), 1.5 * us({kGemm, 1, 4096, 1000, 2048}));
  // A row more is a row more: the last slice is no whole one.
  EXPECT_NEAR(us({kGemm, 1, 4097, 1000, 2048}) / us({kGemm, 1, 4096, 1000, 2048}), 1, 0.05);
  const Predictor slow = PredictorOfLayers(DType::kFp32, 2);
  EXPECT_EQ(LayerUs(slow, DType::kFp32, {kGemm, 1, 4096, 1000, 2048}),
            LayerUs(slow, DType::kFp32, {kLinear, 1, 4096, 1000, 2048}));
}

TEST(PredictorTest, SlicesAreLongEnoughToHideReadingTheSecondFactorAgain) {
  using enum Gemm::Layer;
  // 295 operations a byte at least: slices of 256 rows would be bound by memory.
  const Predictor predictor = PredictorOfLayers(DType::kBf16, 0.5F);
  const auto us = [&](const Gemm& gemm) { return LayerUs(predictor, DType::kBf16, gemm); };
  EXPECT_LT(us({kGemm, 1, 65536, 8192, 8192}), 0.8 * us({kBmm, 256, 256, 8192, 8192}));
  EXPECT_NEAR(us({kGemm, 1, 65536, 8192, 8192}) / us({kBmm, 1, 65536, 8192, 8192}), 1, 0.1);
}

TEST(PredictorTest, APlainProductThatWasMeasuredAnswersForItself) {
  Profile profile = RichProfile();
  Table& table = profile.tables[0];
  for (const char* label : {"bmm", "linear"}) {
    table.variants.push_back(table.variants[1]);
    table.variants.back().label = label;
    table.variants.back().theta[1] *= 0.5F;
  }
  table.residual = {};
  std::sort(table.variants.begin() + 1, table.variants.end(),
            [](const Variant& a, const Variant& b) { return a.label < b.label; });
  const Predictor with(Catalogue::BuiltIn().Get("h100-sxm").value(), Compile(profile), nullptr);
  std::erase_if(table.variants, [](const Variant& v) { return v.label == "bmm" || v.label == "linear"; });
  const Predictor without(Catalogue::BuiltIn().Get("h100-sxm").value(), Compile(profile), nullptr);
  EXPECT_EQ(with.EstimateKernel(GemmKernel(4096, 1000, 2048))->latency_us.p50,
            without.EstimateKernel(GemmKernel(4096, 1000, 2048))->latency_us.p50);
}

TEST(PredictorTest, EagerCallsLoseWhatCallsOfTheirLabelCost) {
  // The same kernels, called through more of the framework as linear layers.
  Profile profile = MakeTestProfile("h100-sxm");
  Table eager = profile.tables[0];
  eager.key.timing = Timing::kEager;
  eager.floor_us = 20;
  eager.variants[1].theta[0] = 20;
  eager.variants.push_back(eager.variants[1]);
  eager.variants[2].label = "linear";
  eager.variants[2].theta[0] = 50;
  profile.tables = {eager};
  const Predictor predictor(Catalogue::BuiltIn().Get("h100-sxm").value(), Compile(profile), nullptr);
  const auto us = [&](Gemm::Layer layer, Timing timing) {
    Kernel kernel = GemmKernel(4096, 4096, 4096);
    std::get<Gemm>(kernel.work).layer = layer;
    return predictor.EstimateKernel(kernel, {.timing = timing})->latency_us.p50;
  };
  EXPECT_NEAR(us(Gemm::Layer::kLinear, Timing::kEager) - us(Gemm::Layer::kGemm, Timing::kEager), 30, 0.1);
  EXPECT_NEAR(us(Gemm::Layer::kLinear, Timing::kKernel), us(Gemm::Layer::kGemm, Timing::kKernel), 0.1);
}

TEST(PredictorTest, AGraphThatDoesNotFitTheDeviceIsSaidSo) {
  const Predictor predictor = RichPredictor();
  Graph graph;
  graph.nodes.resize(1);
  graph.nodes[0].kernel = GemmKernel(128, 256, 512);
  EXPECT_TRUE(predictor.EstimateGraph(graph, {})->warnings.empty());
  graph.parameter_bytes = std::int64_t{200} << 30;
  const GraphEstimate large = predictor.EstimateGraph(graph, {}).value();
  ASSERT_EQ(large.warnings.size(), 1U);
  EXPECT_THAT(large.warnings[0], HasSubstr("h100-sxm has 80"));
}

TEST(PredictorTest, AnotherTypeStandsInWithAWiderInterval) {
  const Predictor predictor = RichPredictor();
  const auto bf16 = predictor.EstimateKernel(GemmKernel(1000, 1024, 1024)).value();
  const auto fp16 = predictor.EstimateKernel(GemmKernel(1000, 1024, 1024, DType::kFp16)).value();
  EXPECT_NEAR(fp16.latency_us.p50 / bf16.latency_us.p50, 1, 0.05);  // the same peak
  EXPECT_GT(fp16.latency_us.p90 / fp16.latency_us.p50, bf16.latency_us.p90 / bf16.latency_us.p50);
  EXPECT_EQ(fp16.provenance, Provenance::kExtrapolated);
}

// A product of 70 GFLOP, an order of magnitude above launch floors.
constexpr std::int64_t kLarge = 4096;

// A profile with tables of products in these types alone, and pooled ones.
Predictor WithProducts(std::vector<DType> own, std::vector<DType> pooled, std::int64_t pooled_rows = 5000) {
  const auto tables = [](const std::vector<DType>& dtypes, std::int64_t rows) {
    Profile profile = MakeTestProfile("h100-sxm");
    profile.tables.clear();
    for (const DType dtype : dtypes) {
      profile.tables.push_back(MakeTestTable({.op = Op::kGemm, .dtype = dtype, .timing = Timing::kGraph}, "gemm"));
      profile.tables.back().rows = rows;
    }
    return Compile(profile);
  };
  return Predictor(Catalogue::BuiltIn().Get("h100-sxm").value(), tables(own, 100), tables(pooled, pooled_rows), 1);
}

TEST(PredictorTest, TheSameDevicesTypeOfTheSameWidthsIsNearerThanOtherDevices) {
  using enum DType;
  const auto provenance = [](const Predictor& predictor, DType dtype) {
    return predictor.EstimateKernel(GemmKernel(64, 4096, 4096, dtype))->provenance;
  };
  EXPECT_EQ(provenance(WithProducts({kFp8}, {kInt8}), kInt8), Provenance::kExtrapolated);
  EXPECT_EQ(provenance(WithProducts({kBf16}, {kFp16}), kFp16), Provenance::kExtrapolated);
  // Of other widths many kernels of other devices say more, a handful less.
  EXPECT_EQ(provenance(WithProducts({kBf16}, {kInt8}), kInt8), Provenance::kTransferred);
  EXPECT_EQ(provenance(WithProducts({kBf16}, {kInt8}, 59), kInt8), Provenance::kExtrapolated);
}

TEST(PredictorTest, WithoutUnitsForATypeOnlyItsWeightsAreNarrow) {
  const auto tables = [](DType dtype) {
    Profile profile = MakeTestProfile("a100-sxm4-80gb");
    profile.tables = {MakeTestTable({.op = Op::kGemm, .dtype = dtype, .timing = Timing::kGraph}, "gemm")};
    return Compile(profile);
  };
  // fp8 was measured on devices that have units for it, which this one lacks.
  const Predictor predictor(Catalogue::BuiltIn().Get("a100-sxm4-80gb").value(), tables(DType::kBf16),
                            tables(DType::kFp8), 1);
  const auto us = [&](std::int64_t m, DType dtype) {
    return predictor.EstimateKernel(GemmKernel(m, 8192, 8192, dtype))->latency_us.p50;
  };
  EXPECT_EQ(predictor.EstimateKernel(GemmKernel(1, 8192, 8192, DType::kFp8))->provenance, Provenance::kExtrapolated);
  EXPECT_LT(us(1, DType::kFp8), 0.69 * us(1, DType::kBf16));  // more than half of the promise, in ln: √½ is 0.71
  EXPECT_GT(us(16384, DType::kFp8), 0.9 * us(16384, DType::kBf16));
  EXPECT_LE(us(16384, DType::kFp8), us(16384, DType::kBf16));
}

TEST(PredictorTest, NarrowTypesGainWhatTheirWidthsPromiseAtMostAndNeverLose) {
  using enum DType;
  const Predictor predictor = WithProducts({kBf16}, {});
  const auto of = [&](std::int64_t m, DType dtype) {
    return predictor.EstimateKernel(GemmKernel(m, 8192, 8192, dtype))->latency_us;
  };
  for (const std::int64_t m : {1, 16, 256, 2048, 16384}) {
    const Quantiles bf16 = of(m, kBf16);
    for (const auto& [dtype, promise] : {std::pair(kFp8, 2.0), std::pair(kInt8, 2.0), std::pair(kInt4, 4.0)}) {
      const Quantiles us = of(m, dtype);
      EXPECT_LE(us.p50, bf16.p50) << m << " " << Name(dtype);
      EXPECT_GT(us.p50, bf16.p50 / promise) << m << " " << Name(dtype);
      EXPECT_GE(us.p99, bf16.p50 * (1 - 1e-6)) << m << " " << Name(dtype);  // nothing gained is within it
    }
    EXPECT_GE(of(m, kFp8).p90, bf16.p50 * (1 - 1e-6)) << m;
  }
  // Weights are most of what one row reads; they matter little to many.
  EXPECT_LT(of(1, kInt4).p50, 0.6 * of(1, kBf16).p50);
  EXPECT_GT(of(16384, kInt4).p50, 0.9 * of(16384, kBf16).p50);
  // Half of what both operands promise, in ln.
  EXPECT_NEAR(of(1, kFp8).p50 / of(1, kBf16).p50, std::sqrt(0.5), 0.1);
}

TEST(PredictorTest, ASliceIsSlowerThanItsCardAndNeverMeasured) {
  const Predictor whole = RichPredictor();
  const auto slice = whole.Slice("3g.40gb");
  ASSERT_TRUE(slice.ok()) << slice.status();
  const Kernel large = GemmKernel(kLarge, kLarge, kLarge);
  const Estimate on_whole = *whole.EstimateKernel(large);
  const Estimate on_slice = *(*slice)->EstimateKernel(large);
  EXPECT_GT(on_slice.latency_us.p50, 1.5 * on_whole.latency_us.p50);
  EXPECT_EQ(on_slice.provenance, Provenance::kTransferred);
  EXPECT_GT(on_slice.latency_us.p90 / on_slice.latency_us.p50, on_whole.latency_us.p90 / on_whole.latency_us.p50);
  // A kernel measured on the card was not measured on the slice.
  const Kernel measured = GemmKernel(128, 256, 512);
  EXPECT_EQ(whole.EstimateKernel(measured)->provenance, Provenance::kMeasured);
  EXPECT_EQ((*slice)->EstimateKernel(measured)->provenance, Provenance::kTransferred);
  EXPECT_EQ((*slice)->profile(), whole.profile());
  EXPECT_THAT(MessageOf(whole.Slice("3g.20gb").status()), HasSubstr("3g.40gb"));
}

TEST(PredictorTest, ASliceWithoutTablesAnswersFromItsDataSheet) {
  const Predictor whole({.slug = "card", .sm_count = 40, .mem_bandwidth_gb_s = 500, .fp32_tflops = 10}, nullptr,
                        nullptr);
  const Kernel large = GemmKernel(kLarge, kLarge, kLarge, DType::kFp32);
  const double us = whole.EstimateKernel(large)->latency_us.p50;
  EXPECT_NEAR((*whole.Slice("sm=0.5"))->EstimateKernel(large)->latency_us.p50 / us, 2, 0.01);
}

Kernel AllReduce(std::int64_t ranks, std::int64_t stride = 1) {
  return {.name = "",
          .dtype = DType::kBf16,
          .work = Collective{.op = "all_reduce", .backend = "b", .bytes = 1 << 24, .ranks = ranks, .stride = stride},
          .launch = {}};
}

TEST(PredictorTest, CollectivesWithoutMeasurementsGoByTheTopology) {
  const Predictor predictor(*Catalogue::BuiltIn().Get("h100-sxm"), nullptr, nullptr);
  EstimateOptions options;
  options.topology = *FindNodePreset("dgx-h100");
  options.topology->nodes = 4;
  const Estimate inside = *predictor.EstimateKernel(AllReduce(8), options);
  EXPECT_EQ(inside.estimator, "links");
  EXPECT_EQ(inside.provenance, Provenance::kRoofline);
  EXPECT_EQ(inside.bound, Bound::kCommunication);
  // Four of eight neighbours lie in one node, four ranks eight apart in four.
  EXPECT_GT(predictor.EstimateKernel(AllReduce(4, 8), options)->latency_us.p50,
            2 * predictor.EstimateKernel(AllReduce(4), options)->latency_us.p50);
  EXPECT_EQ(FieldOf(predictor.EstimateKernel(AllReduce(64), options).status()), "topology.nodes");
}

TEST(PredictorTest, MeasuredCollectivesAnswerInsideANodeAndTheNetworkAdds) {
  Profile profile = MakeTestProfile("h100-sxm");
  profile.tables.push_back(MakeTestTable(
      {.op = Op::kCollective, .dtype = DType::kBf16, .timing = Timing::kKernel, .backend = "b"}, "all_reduce/8"));
  const Predictor predictor(profile.spec, Compile(profile), nullptr);
  EstimateOptions options{.timing = Timing::kKernel};
  const Estimate by_table = *predictor.EstimateKernel(AllReduce(8), options);
  options.topology = *FindNodePreset("dgx-h100");
  options.topology->nodes = 2;
  const Estimate inside = *predictor.EstimateKernel(AllReduce(8), options);
  EXPECT_EQ(inside.latency_us.p50, by_table.latency_us.p50);
  EXPECT_EQ(inside.provenance, by_table.provenance);
  const Estimate across = *predictor.EstimateKernel(AllReduce(16), options);
  EXPECT_GT(across.latency_us.p50, inside.latency_us.p50);
  EXPECT_EQ(across.provenance, Provenance::kExtrapolated);
  // The same row by row, in columns and in a batch.
  std::vector<Estimate> batch(1);
  const std::vector<Kernel> kernels = {AllReduce(16)};
  ASSERT_TRUE(predictor.EstimateKernels(kernels, options, batch).ok());
  EXPECT_EQ(batch[0].latency_us.p50, across.latency_us.p50);
}

TEST(PredictorTest, ACollectiveWithoutLinkDataIsRefused) {
  const Predictor predictor = RichPredictor();
  const Kernel kernel{.name = "",
                      .dtype = DType::kBf16,
                      .work = Collective{.op = "all_reduce", .bytes = 1 << 20, .ranks = 8},
                      .launch = {}};
  EXPECT_EQ(predictor.EstimateKernel(kernel).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PredictorTest, AnUnknownEstimatorIsRefusedListingTheKnownOnes) {
  const auto e = RichPredictor().EstimateKernel(GemmKernel(1, 1, 1), {.estimator = "magic"});
  EXPECT_EQ(e.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(e.status()), HasSubstr("kernel-aware"));
}

TEST(PredictorTest, TheRooflineIsTheDataSheet) {
  const auto e = RichPredictor().EstimateKernel(GemmKernel(8192, 8192, 8192), {.estimator = "roofline"});
  EXPECT_NEAR(e->latency_us.p50, 2.0 * 8192 * 8192 * 8192 / 989.4e6 + 2, 5);
  EXPECT_EQ(e->bound, Bound::kCompute);
}

class ColumnsAgreeWithRows : public ::testing::TestWithParam<std::size_t> {};

// 0, 1, 7, 64, 65 and 1000 rows: every way a block can be full.
TEST_P(ColumnsAgreeWithRows, ToTheBit) {
  const Predictor predictor = RichPredictor();
  const std::size_t rows = GetParam();
  std::mt19937 random(5);
  const std::vector<Kernel> prototypes = {
      GemmKernel(1, 1, 1),
      {.name = "",
       .dtype = DType::kBf16,
       .work = Attention{.phase = Attention::Phase::kPrefill, .causal = 1, .kv_dtype = DType::kBf16},
       .launch = {}},
      {.name = "", .dtype = DType::kBf16, .work = Vector{.op = "add"}, .launch = {}},
      {.name = "", .dtype = DType::kBf16, .work = Vector{.op = "never-seen"}, .launch = {}},
      {.name = "", .dtype = DType::kFp32, .work = Custom{.op = "mine"}, .launch = {}}};
  for (const Kernel& prototype : prototypes) {
    const Op op = prototype.op();
    std::vector<std::vector<std::uint32_t>> dims(static_cast<std::size_t>(DimNamesOf(op).size),
                                                 std::vector<std::uint32_t>(rows));
    for (std::size_t d = 0; d < dims.size(); ++d) {
      for (std::size_t r = 0; r < rows; ++r)
        dims[d][r] = 1 + static_cast<std::uint32_t>(random() % (op == Op::kAttention ? 300 : 5000));
    }
    if (op == Op::kAttention) {
      for (std::size_t r = 0; r < rows; ++r) {
        dims[2][r] = dims[1][r];      // kv_len = query_len
        dims[3][r] = dims[4][r] * 4;  // heads
      }
      dims[6] = {1};
    }
    if (op == Op::kVector) dims[2] = {2};
    if (op == Op::kGemm && rows > 3) {
      dims[0] = {};  // batch: its default
      dims[1][3] = 128;
      dims[2][3] = 256;
      dims[3][3] = 512;
    }
    KernelColumns columns{.prototype = prototype, .dims = {}, .rows = rows};
    for (std::size_t d = 0; d < dims.size(); ++d) columns.dims[d] = dims[d];
    std::vector<float> p50(rows), p90(rows), p99(rows);
    std::vector<Provenance> provenance(rows);
    ColumnsResult result{p50, p90, p99, provenance, {}};
    const absl::Status status = predictor.EstimateColumns(columns, {}, result);
    ASSERT_TRUE(status.ok()) << status;
    for (std::size_t r = 0; r < rows; ++r) {
      Kernel kernel = prototype;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const std::int64_t value = dims[d].empty() ? 1 : dims[d][dims[d].size() == 1 ? 0 : r];
        SetDim(kernel, static_cast<int>(d), value);
      }
      const Estimate e = predictor.EstimateKernel(kernel).value();
      ASSERT_EQ(p50[r], static_cast<float>(e.latency_us.p50)) << Describe(kernel);
      ASSERT_EQ(p90[r], static_cast<float>(e.latency_us.p90)) << Describe(kernel);
      ASSERT_EQ(p99[r], static_cast<float>(e.latency_us.p99)) << Describe(kernel);
      ASSERT_EQ(provenance[r], e.provenance) << Describe(kernel);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ColumnsAgreeWithRows, ::testing::Values(0, 1, 7, 64, 65, 1000));

TEST(EstimateColumnsTest, BadColumnsNameTheFieldAndTheRow) {
  const Predictor predictor = RichPredictor();
  const std::vector<std::uint32_t> three = {1, 2, 3}, two = {1, 2}, zero = {5, 0, 7};
  std::vector<float> p50(3);
  ColumnsResult result{p50, {}, {}, {}, {}};
  KernelColumns columns{.prototype = GemmKernel(1, 1, 1), .dims = {}, .rows = 3};
  columns.dims[1] = three;
  columns.dims[2] = three;
  EXPECT_THAT(MessageOf(predictor.EstimateColumns(columns, {}, result)), HasSubstr("gemm.k: is empty"));
  columns.dims[3] = two;
  EXPECT_THAT(MessageOf(predictor.EstimateColumns(columns, {}, result)),
              HasSubstr("gemm.k: has 2 values, must have 3"));
  columns.dims[3] = zero;
  const std::vector<std::uint32_t> huge = {1, 1U << 31, 1};
  columns.dims[3] = three;
  columns.dims[1] = columns.dims[2] = huge;
  EXPECT_THAT(MessageOf(predictor.EstimateColumns(columns, {}, result)),
              HasSubstr("rows[1].gemm.dims: more than 2^62"));
  columns.dims[3] = zero;
  EXPECT_THAT(MessageOf(predictor.EstimateColumns(columns, {}, result)),
              HasSubstr("gemm.k[1]: is 0, must be at least 1"));
}

TEST(WaveTest, AnotherWaveBeginsWhenTheSlotsAreFull) {
  const Machine<double> machine{.sms = 10, .peak = 1e6, .bandwidth = 1e5, .l2 = 1e6};
  const auto waves = [&](std::int64_t m) {
    return (*WaveRegressors(GemmKernel(m, 128, 64), machine, {128, 128}, 1))[1];
  };
  EXPECT_EQ(waves(128 * 10), 1);
  EXPECT_EQ(waves(128 * 10 + 1), 2);
}

TEST(WaveTest, TheConfigurationAnswersWhenItIsBetterKnown) {
  Profile profile = RichProfile();
  profile.tables[0].cv_mape = 0.08F;
  profile.tables[0].kernel_configs = {{.kernel = "sgemm_128x128",
                                       .tile_m = 128,
                                       .tile_n = 128,
                                       .resident_blocks = 1,
                                       .coefficients = {5, 0, 1, 0, 0},
                                       .rows = 50,
                                       .error_ln = 0.02F}};
  const Predictor predictor(Catalogue::BuiltIn().Get("h100-sxm").value(), Compile(profile), nullptr);
  Kernel kernel = GemmKernel(1024, 1024, 4096);
  kernel.launch.kernel = "sgemm_128x128";
  const auto named = predictor.EstimateKernel(kernel).value();
  EXPECT_EQ(named.estimator, "kernel-aware");
  // 64 tiles in one wave of 132 SMs: 5 + q.
  EXPECT_NEAR(named.latency_us.p50, 5 + 2.0 * 128 * 128 * 4096 / (989.4e6 / 132), 0.01);
  EXPECT_EQ(predictor.EstimateKernel(kernel, {.estimator = "family"})->estimator, "family");
  // How it runs: by the configuration's tile, by the grid, or not known.
  EXPECT_EQ(predictor.RunOf(kernel)->configuration, "sgemm_128x128");
  EXPECT_EQ(predictor.RunOf(kernel)->waves, 1);
  EXPECT_EQ(predictor.RunOf(GemmKernel(1024, 1024, 4096))->configuration, "");
  EXPECT_EQ(predictor.RunOf(GemmKernel(1024, 1024, 4096))->waves, 0);
  kernel.launch.kernel = "unknown";
  EXPECT_EQ(predictor.EstimateKernel(kernel)->estimator, "family");
  EXPECT_EQ(predictor.RunOf(kernel)->waves, 0);
  kernel.launch.grid_x = 2 * 132 + 1;
  kernel.launch.grid_y = kernel.launch.grid_z = 1;
  EXPECT_EQ(predictor.RunOf(kernel)->waves, 3);
}

TEST(SnapshotTest, LabelsChooseAmongProfilesOfADevice) {
  Profile plain = MakeTestProfile("h100-sxm");
  Profile labelled = MakeTestProfile("h100-sxm", 2);
  labelled.labels = {{"driver", "550"}};
  std::vector<ActiveProfile> active;
  for (const Profile& p : {plain, labelled}) active.push_back({ParseProfile(SerializeProfile(p)).value(), "", 1});
  const auto snapshot = Snapshot::Build(active).value();
  EXPECT_TRUE((*snapshot->Find("h100-sxm", {{"driver", "550"}}))->profile()->profile.labels.contains("driver"));
  EXPECT_TRUE((*snapshot->Find("h100-sxm", {{"driver", "535"}}))->profile()->profile.labels.empty());
  EXPECT_TRUE((*snapshot->Find("h100-pairwise-nvlink"))->profile() != nullptr);  // an alias
}

TEST(SnapshotTest, ANodesProfileAnswersOnlyForItsNode) {
  std::vector<ActiveProfile> active;
  active.push_back({ParseProfile(SerializeProfile(MakeTestProfile("h100-sxm"))).value(), "", 1});
  active.push_back({ParseProfile(SerializeProfile(MakeTestProfile("h100-sxm", 2))).value(), "node-7", 1});
  const auto snapshot = Snapshot::Build(active).value();
  const float usual = (*snapshot->Find("h100-sxm"))->profile()->profile.tables[0].variants[0].theta[0];
  EXPECT_EQ((*snapshot->Find("h100-sxm", {{"node", "node-7"}}))->profile()->profile.tables[0].variants[0].theta[0],
            2 * usual);
  EXPECT_EQ((*snapshot->Find("h100-sxm", {{"node", "node-8"}}))->profile()->profile.tables[0].variants[0].theta[0],
            usual);
}

TEST(SnapshotTest, TwoProfilesForTheSameKeyAreRefused) {
  std::vector<ActiveProfile> active;
  for (float scale : {1.0F, 2.0F})
    active.push_back({ParseProfile(SerializeProfile(MakeTestProfile("h100-sxm", scale))).value(), "", 1});
  EXPECT_EQ(Snapshot::Build(active).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SnapshotTest, UnknownDevicesNameSimilarOnes) {
  const auto snapshot = Snapshot::Build({}).value();
  const auto found = snapshot->Find("h100-sxn");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(found.status()), HasSubstr("h100-sxm"));
}

TEST(SnapshotTest, DriversNamesMeanTheirCards) {
  std::vector<ActiveProfile> active;
  active.push_back({ParseProfile(SerializeProfile(MakeTestProfile("t4"))).value(), "", 1});
  const auto snapshot = Snapshot::Build(std::move(active)).value();
  for (const auto& [name, slug] : {std::pair("Tesla T4", "t4"), {"NVIDIA L40S", "l40s"}}) {
    const auto found = snapshot->Find(name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, *snapshot->Find(slug)) << name;
  }
  EXPECT_THAT(MessageOf(snapshot->Find("NVIDIA A100").status()), HasSubstr("may be any of"));
}

TEST(SnapshotTest, CatalogueDevicesAnswerWithoutAProfile) {
  const auto snapshot = Snapshot::Build({}).value();
  const auto e = (*snapshot->Find("rtx-4090"))->EstimateKernel(GemmKernel(1024, 1024, 1024));
  EXPECT_EQ(e->provenance, Provenance::kRoofline);
}

TEST(ExplainTest, NamesTheTableAndWhatWasConverted) {
  const auto explanation = RichPredictor().Explain(GemmKernel(9000, 1024, 1024), {.timing = Timing::kKernel});
  ASSERT_TRUE(explanation.ok());
  const std::string notes = fmt::format("{}", fmt::join(explanation->notes, "\n"));
  EXPECT_THAT(notes, HasSubstr("gemm bf16 graph"));
  EXPECT_THAT(notes, HasSubstr("converted to kernel timing"));
  EXPECT_GT(explanation->roofline_us, 0);
}

TEST(RegimeTest, SharesFollowWhatTheKernelWaitsFor) {
  const Predictor predictor = RichPredictor();
  const auto shares_of = [&](const Kernel& kernel, const std::string& estimator) {
    const RegimeShares shares = predictor.Regime(kernel, {.estimator = estimator}).value();
    EXPECT_NEAR(shares.compute + shares.memory + shares.rest, 1, 1e-9);
    return shares;
  };
  for (const std::string estimator : {"", "roofline"}) {
    EXPECT_GT(shares_of(GemmKernel(8192, 8192, 8192), estimator).compute, 0.8) << estimator;
    EXPECT_GT(shares_of(GemmKernel(1, 65536, 8192), estimator).memory, 0.8) << estimator;
    EXPECT_GT(shares_of(GemmKernel(1, 8, 8), estimator).rest, 0.8) << estimator;
  }
  EXPECT_EQ(predictor.Regime(GemmKernel(0, 8, 8)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RegimeTest, TheLargestShareNamesIt) {
  EXPECT_EQ(LargestOf({.compute = 0.5, .memory = 0.3, .rest = 0.2}, Op::kGemm), Bound::kCompute);
  EXPECT_EQ(LargestOf({.compute = 0.2, .memory = 0.5, .rest = 0.3}, Op::kGemm), Bound::kMemory);
  EXPECT_EQ(LargestOf({.compute = 0.2, .memory = 0.3, .rest = 0.5}, Op::kGemm), Bound::kLaunch);
  EXPECT_EQ(LargestOf({.compute = 0.2, .memory = 0.3, .rest = 0.5}, Op::kCollective), Bound::kCommunication);
}

TEST(RouteTest, AVectorOperatorPrefersATableThatKnowsItsLike) {
  // Softmax was measured in fp32 only; of fp16 there are other operators.
  Profile transfer = MakeTestProfile("transfer");
  transfer.transfer = true;
  Table fp16 = MakeTestTable({.op = Op::kVector, .dtype = DType::kFp16, .timing = Timing::kEager}, "rope/1");
  Table fp32 = MakeTestTable({.op = Op::kVector, .dtype = DType::kFp32, .timing = Timing::kEager}, "softmax/1");
  fp16.floor_us = fp32.floor_us = 1;
  for (Variant& variant : fp16.variants) variant.theta[0] *= 5;  // the fixed cost
  transfer.tables = {fp32, fp16};
  const Predictor predictor(Catalogue::BuiltIn().Get("h100-sxm").value(), nullptr, Compile(transfer));
  Kernel kernel;
  kernel.dtype = DType::kFp16;
  kernel.work = Vector{.op = "softmax", .rows = 65536, .cols = 4096, .operands = 1};
  const double softmax = predictor.EstimateKernel(kernel)->latency_us.p50;
  transfer.tables = {fp32};
  const Predictor without(Catalogue::BuiltIn().Get("h100-sxm").value(), nullptr, Compile(transfer));
  EXPECT_EQ(softmax, without.EstimateKernel(kernel)->latency_us.p50);
}

}  // namespace
}  // namespace gpueta
