#include "core/wire/prediction_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/errors.h"

namespace gpueta::wire {
namespace {

using testing::ElementsAre;

Estimate SomeEstimate() {
  return {.latency_us = {10, 12, 15},
          .provenance = Provenance::kInterpolated,
          .correction = 1.25,
          .estimator = EstimatorNames()[0],
          .bound = Bound::kMemory};
}

void ExpectEqual(const Estimate& a, const Estimate& b) {
  EXPECT_EQ(a.latency_us.p50, b.latency_us.p50);
  EXPECT_EQ(a.latency_us.p90, b.latency_us.p90);
  EXPECT_EQ(a.latency_us.p99, b.latency_us.p99);
  EXPECT_EQ(a.provenance, b.provenance);
  EXPECT_EQ(a.correction, b.correction);
  EXPECT_EQ(a.estimator, b.estimator);
  EXPECT_EQ(a.bound, b.bound);
}

TEST(PredictionCodecTest, EstimatesSurviveTheWireForEveryProvenanceAndBound) {
  for (int p = 0; p <= static_cast<int>(Provenance::kEmulated); ++p) {
    for (int b = 0; b <= static_cast<int>(Bound::kCommunication); ++b) {
      Estimate estimate = SomeEstimate();
      estimate.provenance = static_cast<Provenance>(p);
      estimate.bound = static_cast<Bound>(b);
      v1::KernelPrediction message;
      Encode(estimate, message);
      const auto decoded = Decode(message);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      ExpectEqual(*decoded, estimate);
    }
  }
}

TEST(PredictionCodecTest, AnEstimatorOfANewerServerIsCalledOther) {
  v1::KernelPrediction message;
  Encode(SomeEstimate(), message);
  message.set_estimator("oracle");
  EXPECT_EQ(Decode(message)->estimator, "other");
}

TEST(PredictionCodecTest, RefusesAnswersWithoutProvenanceOrBound) {
  v1::KernelPrediction message;
  Encode(SomeEstimate(), message);
  message.clear_provenance();
  EXPECT_EQ(FieldOf(Decode(message).status()), "provenance");
  Encode(SomeEstimate(), message);
  message.set_bound(v1::BOUND_UNSPECIFIED);
  EXPECT_EQ(FieldOf(Decode(message).status()), "bound");
}

TEST(PredictionCodecTest, OptionsSurviveTheWire) {
  for (const auto timing : {std::optional<Timing>(), std::optional(Timing::kEager), std::optional(Timing::kGraph)}) {
    for (const ExecutionMode mode : {ExecutionMode::kEager, ExecutionMode::kGraph}) {
      const auto decoded =
          Decode(Encode(EstimateOptions{.timing = timing, .mode = mode, .host = {7, 2.5}, .estimator = "roofline"}));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(decoded->timing, timing);
      EXPECT_EQ(decoded->mode, mode);
      EXPECT_EQ(decoded->estimator, "roofline");
      EXPECT_EQ(decoded->host, (HostRates{7, 2.5}));
    }
  }
}

TEST(PredictionCodecTest, TopologiesSurviveTheWire) {
  EstimateOptions options;
  options.topology = NodeTopology{
      .name = "mine", .devices = 4, .link = {LinkKind::kPcie, 12, 3}, .network = {LinkKind::kNetwork, 1.5}, .nodes = 3};
  const auto decoded = Decode(Encode(options));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->topology->name, "mine");
  EXPECT_EQ(decoded->topology->devices, 4);
  EXPECT_EQ(decoded->topology->link.kind, LinkKind::kPcie);
  EXPECT_EQ(decoded->topology->link.latency_us, 3);
  EXPECT_EQ(decoded->topology->network.gb_s, 1.5);
  EXPECT_EQ(decoded->topology->host.gb_s, 0);
  EXPECT_EQ(decoded->topology->nodes, 3);
}

TEST(PredictionCodecTest, APresetsNameFillsWhatATopologyLeavesOut) {
  v1::PredictOptions options;
  options.mutable_topology()->set_name("dgx-a100");
  options.mutable_topology()->set_nodes(2);
  const auto decoded = Decode(options);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->topology->devices, 8);
  EXPECT_EQ(decoded->topology->link.gb_s, FindNodePreset("dgx-a100")->link.gb_s);
  options.mutable_topology()->set_name("dgx");
  EXPECT_EQ(FieldOf(Decode(options).status()), "topology.name");
  options.mutable_topology()->mutable_link()->set_gb_s(10);
  EXPECT_EQ(FieldOf(Decode(options).status()), "topology.link.kind");
  options.mutable_topology()->mutable_link()->set_kind(v1::Link::KIND_PCIE);
  options.mutable_topology()->mutable_link()->set_gb_s(-1);
  options.mutable_topology()->set_devices(2);
  EXPECT_EQ(FieldOf(Decode(options).status()), "topology.link");
}

TEST(PredictionCodecTest, RefusesUnknownOptionValues) {
  v1::PredictOptions options;
  options.set_timing(static_cast<v1::Timing>(77));
  EXPECT_EQ(FieldOf(Decode(options).status()), "timing");
  options.Clear();
  options.set_mode(static_cast<v1::ExecutionMode>(77));
  EXPECT_EQ(FieldOf(Decode(options).status()), "mode");
  options.Clear();
  options.set_estimator("magic");
  EXPECT_EQ(FieldOf(Decode(options).status()), "estimator");
  options.Clear();
  options.set_host_issue_us(-1);
  EXPECT_EQ(FieldOf(Decode(options).status()), "host_issue_us");
  options.Clear();
  options.set_host_copy_gb_s(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(FieldOf(Decode(options).status()), "host_copy_gb_s");
}

TEST(PredictionCodecTest, GraphEstimatesSurviveTheWire) {
  GraphEstimate estimate;
  estimate.latency_us = {100, 120, 150};
  estimate.provenance = {{Provenance::kMeasured, 0.25}, {Provenance::kTransferred, 0.75}};
  estimate.estimator = "family";
  Kernel kernel{.name = "fc", .dtype = DType::kBf16, .work = Gemm{.m = 1, .n = 1000, .k = 2048}};
  estimate.parts.push_back({kernel, 3, SomeEstimate()});
  estimate.parts.back().estimate.correction = 1;
  estimate.parts.back().hidden = 2;
  estimate.memory_bytes = 123456789;
  estimate.time = {90, 7, 50, 3};
  estimate.warnings = {"one", "two"};
  v1::GraphPrediction message;
  Encode(estimate, message);
  const auto decoded = Decode(message);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->latency_us.p99, 150);
  EXPECT_EQ(decoded->provenance, estimate.provenance);
  EXPECT_EQ(decoded->estimator, "family");
  ASSERT_EQ(decoded->parts.size(), 1U);
  EXPECT_EQ(decoded->parts[0].kernel.name, "fc");
  EXPECT_EQ(decoded->parts[0].kernel.work, kernel.work);
  EXPECT_EQ(decoded->parts[0].count, 3);
  EXPECT_EQ(decoded->parts[0].hidden, 2);
  ExpectEqual(decoded->parts[0].estimate, estimate.parts[0].estimate);
  EXPECT_EQ(decoded->memory_bytes, 123456789);
  EXPECT_EQ(decoded->time.kernels_us, 90);
  EXPECT_EQ(decoded->time.gaps_us, 7);
  EXPECT_EQ(decoded->time.host_us, 50);
  EXPECT_EQ(decoded->time.start_us, 3);
  EXPECT_THAT(decoded->warnings, ElementsAre("one", "two"));
}

TEST(PredictionCodecTest, ExplanationsSurviveTheWire) {
  Explanation explanation;
  explanation.estimate = SomeEstimate();
  explanation.counts.flops = 1000;
  explanation.counts.bytes_read = 300;
  explanation.counts.bytes_written = 200;
  explanation.roofline_us = 4.5;
  explanation.terms = {{"compute_us", 3.5}};
  explanation.notes = {"a note"};
  v1::ExplainResponse message;
  Encode(explanation, message);
  const auto decoded = Decode(message);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectEqual(decoded->estimate, explanation.estimate);
  EXPECT_EQ(decoded->counts.flops.value(), 1000);
  EXPECT_EQ(decoded->counts.bytes().value(), 500);
  EXPECT_EQ(decoded->terms, explanation.terms);
  EXPECT_THAT(decoded->notes, ElementsAre("a note"));
  message.set_flops(-1);
  EXPECT_EQ(FieldOf(Decode(message).status()), "flops");
}

// One kernel of each kind, as the prototype of columns.
const Work kPrototypes[] = {Gemm{.layer = Gemm::Layer::kLinear},
                            Conv2d{},
                            Attention{.phase = Attention::Phase::kDecode, .kv_dtype = DType::kFp8},
                            Moe{.distribution = "balanced"},
                            Vector{.op = "add"},
                            Collective{.op = "all_reduce", .backend = "nccl"},
                            Custom{.op = "mine"}};

TEST(PredictionCodecTest, ColumnsOfEveryOpArriveWithoutBeingCopied) {
  for (const Work& work : kPrototypes) {
    KernelColumns columns;
    columns.prototype.dtype = DType::kBf16;
    columns.prototype.work = work;
    columns.prototype.launch.kernel = "a_kernel";
    const DimNames& names = DimNamesOf(columns.prototype.op());
    std::vector<std::vector<std::uint32_t>> values;
    for (std::uint32_t d = 0; d < static_cast<std::uint32_t>(names.size); ++d) {
      if (names.names[d].starts_with("extra_pad")) {
        values.emplace_back();
      } else if (names.names[d] == "causal") {
        values.push_back({1});
      } else {
        values.push_back({100 * d + 1, 100 * d + 2, 100 * d + 3});
      }
    }
    for (std::size_t d = 0; d < values.size(); ++d) columns.dims[d] = values[d];
    columns.rows = 3;

    const v1::KernelColumns message = Encode(columns);
    const auto decoded = Decode(message);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->rows, 3U);
    EXPECT_EQ(decoded->prototype.op(), columns.prototype.op());
    EXPECT_EQ(decoded->prototype.dtype, DType::kBf16);
    EXPECT_EQ(decoded->prototype.launch.kernel, "a_kernel");
    EXPECT_EQ(LabelOf(decoded->prototype), LabelOf(columns.prototype));
    for (std::size_t d = 0; d < values.size(); ++d) {
      EXPECT_THAT(std::vector(decoded->dims[d].begin(), decoded->dims[d].end()), testing::ElementsAreArray(values[d]))
          << names.names[d];
    }
    if (columns.prototype.op() == Op::kGemm) {
      EXPECT_EQ(decoded->dims[1].data(), message.gemm().m().data());
    }
    if (const auto* attention = std::get_if<Attention>(&decoded->prototype.work)) {
      EXPECT_EQ(attention->phase, Attention::Phase::kDecode);
      EXPECT_EQ(attention->kv_dtype, DType::kFp8);
    }
  }
}

TEST(PredictionCodecTest, RefusesColumnsThatSayTooLittle) {
  v1::KernelColumns message;
  EXPECT_EQ(FieldOf(Decode(message).status()), "dtype");
  message.set_dtype(v1::DTYPE_BF16);
  EXPECT_EQ(FieldOf(Decode(message).status()), "work");
  message.mutable_attention();
  EXPECT_EQ(FieldOf(Decode(message).status()), "attention.phase");
  message.mutable_attention()->set_phase(v1::Attention::PHASE_PREFILL);
  message.mutable_attention()->set_kv_dtype(static_cast<v1::DType>(99));
  EXPECT_EQ(FieldOf(Decode(message).status()), "attention.kv_dtype");
  message.mutable_gemm()->set_layer(static_cast<v1::Gemm::Layer>(99));
  EXPECT_EQ(FieldOf(Decode(message).status()), "gemm.layer");
}

TEST(PredictionCodecTest, ColumnsAreNamedAsTheDims) {
  // DimNamesOf names fields in errors: they must be the columns' names too.
  for (const Work& work : kPrototypes) {
    Kernel kernel{.work = work};
    v1::KernelColumns message;
    const auto* field = message.GetDescriptor()->FindFieldByName(std::string(Name(kernel.op())));
    ASSERT_NE(field, nullptr);
    const DimNames& names = DimNamesOf(kernel.op());
    for (int d = 0; d < names.size; ++d) {
      const std::string name(names.names[static_cast<std::size_t>(d)]);
      if (name.starts_with("extra_pad")) continue;
      EXPECT_NE(field->message_type()->FindFieldByName(name), nullptr) << name;
    }
  }
}

}  // namespace
}  // namespace gpueta::wire
