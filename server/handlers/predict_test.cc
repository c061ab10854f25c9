#include "server/handlers/predict.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/serving/testing_models.h"
#include "core/wire/graph_codec.h"
#include "core/wire/kernel_codec.h"
#include "core/wire/prediction_codec.h"
#include "core/wire/profile_codec.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

class PredictTest : public ::testing::Test {
 protected:
  PredictTest() {
    auto loaded = ParseProfile(testing_util::MakeTestProfileFile("h100-sxm"));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    profile_id_ = loaded->id;
    devices_ = ServingSnapshot::Build({{.loaded = *std::move(loaded), .node = "", .version = 3}}).value();
    store_ = OpenStore("sqlite::memory:").value();
    models_ = ModelRegistry::Open(*store_, limits_).value();
  }

  // A request in text format, without the devices.
  static v1::PredictRequest Request(const std::string& text, const std::vector<std::string>& slugs = {"h100-sxm"}) {
    v1::PredictRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
    for (const std::string& slug : slugs) request.add_devices()->set_slug(slug);
    return request;
  }

  absl::StatusOr<v1::PredictResponse> Ask(const v1::PredictRequest& request) {
    v1::PredictResponse response;
    counts_ = {};
    const std::function<bool()> cancelled = [this] { return asked_ < cancel_after_ ? (++asked_, false) : true; };
    const absl::Status status =
        Predict({*devices_, *models_->Table(), limits_, feedback_, served_, cancelled}, request, response, counts_);
    if (!status.ok()) return status;
    return response;
  }

  std::shared_ptr<const Predictor> PredictorOf(const std::string& slug) { return devices_->Find(slug, {}).value(); }

  Limits limits_;
  const PredictionIds ids_{SipHashKey{1, 2}};
  const CorrectionTable corrections_;
  AskedShapes shapes_;
  RecentKernels kernels_;
  const PredictFeedback feedback_{ids_, corrections_, shapes_, kernels_, 1'800'000'000};
  std::string profile_id_;
  std::shared_ptr<const ServingSnapshot> devices_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ModelRegistry> models_;
  ServedModels served_{std::size_t{16} << 20};
  PredictionCounts counts_;
  int asked_ = 0;
  int cancel_after_ = 1 << 30;
};

constexpr char kGemm[] = R"(kernel { name: "fc" dtype: DTYPE_BF16 gemm { m: 512 n: 4096 k: 1024 } })";

Graph SmallGraph() {
  Graph graph;
  graph.display_name = "small";
  graph.symbols = {{"batch", 0}};
  GraphNode first;
  first.kernel = {.name = "conv", .dtype = DType::kFp32, .work = Gemm{.m = 1, .n = 64, .k = 32}};
  first.symbolic_dims = {{1, SymInt::Symbol("batch")}};
  GraphNode second = first;
  second.kernel.name = "relu";
  second.kernel.work = Vector{.op = "relu", .rows = 1, .cols = 64};
  second.symbolic_dims = {{0, SymInt::Symbol("batch")}};
  second.inputs = {0};
  graph.nodes = {first, second};
  return graph;
}

TEST_F(PredictTest, AnswersAKernelAsThePredictorDoes) {
  const auto response = Ask(Request(std::string("request_id: 'r1' ") + kGemm));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->request_id(), "r1");
  ASSERT_EQ(response->devices_size(), 1);
  const v1::DevicePrediction& device = response->devices(0);
  EXPECT_EQ(device.device(), "h100-sxm");
  EXPECT_EQ(device.profile().id(), profile_id_);
  EXPECT_EQ(device.profile().version(), 3);
  EXPECT_EQ(device.kernel().name(), "fc");
  const Kernel kernel{.dtype = DType::kBf16, .work = Gemm{.m = 512, .n = 4096, .k = 1024}};
  EXPECT_EQ(device.kernel().latency_us().p50(), PredictorOf("h100-sxm")->EstimateKernel(kernel)->latency_us.p50);
  EXPECT_EQ(counts_.kernels[0][static_cast<std::size_t>(Provenance::kInterpolated)], 1);
}

TEST_F(PredictTest, AnswersStepsAsTheStepModelDoes) {
  const std::string name = "models/" + models_->RegisterConfig(testing::SmallLlama(), "small", "").value()->hash;
  const auto response = Ask(
      Request("steps { model: '" + name + R"(' deployment { dtype: DTYPE_FP16 } overhead { step_us: 100 token_us: 1 }
         steps { decode_context: [100, 2000] }
         steps { prefill { new_tokens: 512 cached_tokens: 64 } decode_context: 9 } })",
              {"h100-sxm", "t4"}));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->devices(1).steps().steps_size(), 2);
  const StepModel model = StepModel::Compile(testing::SmallLlama(), "small", {.dtype = DType::kFp16}).value();
  const EngineStep steps[] = {{.decode_context = {100, 2000}}, {.prefill = {{512, 64}}, .decode_context = {9}}};
  for (int i = 0; i < 2; ++i) {
    const v1::StepPrediction& got = response->devices(0).steps().steps(i);
    const auto expected = model.Estimate(steps[i], *PredictorOf("h100-sxm"), {.step_us = 100, .token_us = 1});
    EXPECT_EQ(got.latency_us().p50(), expected->latency_us.p50);
    EXPECT_EQ(got.latency_us().p99(), expected->latency_us.p99);
    EXPECT_EQ(got.breakdown_us().at("overhead"), 100 + static_cast<double>(steps[i].tokens()));
    EXPECT_EQ(got.breakdown_us().contains("prefill attention"), i == 1);
    double sum = 0;
    for (const auto& [what, us] : got.breakdown_us()) sum += us;
    EXPECT_LE(sum, got.latency_us().p50() * (1 + 1e-9));
    const auto ticket = ids_.Open(got.prediction_id());
    ASSERT_TRUE(ticket.has_value());
    EXPECT_EQ(ticket->family, Family::kGraph);
    EXPECT_NE(ticket->model, 0U);
  }
}

TEST_F(PredictTest, WrongStepsNameTheirField) {
  const std::string hash = models_->RegisterConfig(testing::SmallLlama(), "small", "small").value()->hash;
  const std::string graph = models_->Register(SmallGraph(), "graph").value()->hash;
  const auto field = [&](const std::string& text) { return FieldOf(Ask(Request("steps { " + text + " }")).status()); };
  EXPECT_EQ(field("model: 'models/none'"), "steps.model");
  EXPECT_EQ(Ask(Request("steps { model: 'models/graph' }")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(field("model: 'models/small'"), "steps.steps");
  EXPECT_EQ(field("model: 'models/small' steps {}"), "steps.steps[0].step");
  EXPECT_EQ(field("model: 'models/small' steps { decode_context: 0 }"), "steps.steps[0].decode_context[0]");
  EXPECT_EQ(field("model: 'models/small' steps { decode_context: 5 } deployment { dtype: 99 }"),
            "steps.deployment.dtype");
  EXPECT_EQ(field("model: 'models/small' steps { decode_context: 5 } deployment { tensor_ranks: 3 }"),
            "steps.deployment");
  EXPECT_EQ(field("model: 'models/small' steps { decode_context: 5 } overhead { token_us: -1 }"),
            "steps.overhead.token_us");
  limits_.kernels = 3;
  EXPECT_EQ(LimitOf(Ask(Request("steps { model: 'models/small' steps { decode_context: [5, 5, 5] } }")).status()),
            "kernels");
}

TEST_F(PredictTest, AnswersForManyDevicesInTheOrderAsked) {
  const auto response = Ask(Request(kGemm, {"t4", "h100-sxm", "l40s"}));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->devices_size(), 3);
  EXPECT_EQ(response->devices(0).device(), "t4");
  EXPECT_EQ(response->devices(0).profile().id(), "");
  EXPECT_EQ(response->devices(0).kernel().provenance(), v1::PROVENANCE_ROOFLINE);
  EXPECT_EQ(response->devices(1).profile().id(), profile_id_);
}

TEST_F(PredictTest, AnswersForADeviceByItsDataSheet) {
  v1::PredictRequest request = Request(kGemm, {});
  v1::DeviceSelector& device = *request.add_devices();
  device.set_slug("my-card");
  *device.mutable_spec() = wire::Encode(DeviceSpec{.mem_bandwidth_gb_s = 1000, .fp32_tflops = 20});
  EXPECT_EQ(Ask(request)->devices(0).device(), "my-card");
  device.mutable_spec()->set_mem_bandwidth_gb_s(0);
  EXPECT_EQ(FieldOf(Ask(request).status()), "devices[0].spec.mem_bandwidth_gb_s");
  device.mutable_spec()->set_mem_bandwidth_gb_s(NAN);
  EXPECT_EQ(FieldOf(Ask(request).status()), "devices[0].spec");
}

TEST_F(PredictTest, AnswersForASliceOfADevice) {
  v1::PredictRequest request = Request(kGemm, {});
  request.add_devices()->set_slug("h100-sxm");
  request.add_devices()->set_slug("h100-sxm");
  request.mutable_devices(1)->set_slice("3g.40gb");
  const auto response = Ask(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_GE(response->devices(1).kernel().latency_us().p50(), response->devices(0).kernel().latency_us().p50());
  EXPECT_EQ(response->devices(1).kernel().provenance(), v1::PROVENANCE_TRANSFERRED);
  EXPECT_EQ(response->devices(1).profile().id(), profile_id_);
  request.mutable_devices(1)->set_slice("3g.20gb");
  EXPECT_EQ(FieldOf(Ask(request).status()), "devices[1].slice");
}

TEST_F(PredictTest, AnswersABatchInOrder) {
  const auto response = Ask(Request(R"(kernels {
    kernels { name: "a" dtype: DTYPE_BF16 gemm { m: 64 n: 64 k: 64 } }
    kernels { name: "b" dtype: DTYPE_FP32 vector { op: "add" rows: 10 cols: 20 operands: 2 } } })"));
  ASSERT_TRUE(response.ok()) << response.status();
  const auto& kernels = response->devices(0).kernels().kernels();
  ASSERT_EQ(kernels.size(), 2);
  EXPECT_EQ(kernels[0].name(), "a");
  EXPECT_EQ(kernels[1].name(), "b");
  EXPECT_GT(kernels[1].latency_us().p99(), kernels[1].latency_us().p50());
}

TEST_F(PredictTest, ColumnsEqualSingleKernelsToTheBit) {
  v1::PredictRequest request = Request("options { column_provenance: true }", {"h100-sxm", "t4"});
  v1::GemmColumns& gemm = *request.mutable_columns()->mutable_gemm();
  request.mutable_columns()->set_dtype(v1::DTYPE_BF16);
  gemm.add_n(4096);  // for all rows
  gemm.add_k(1024);
  for (std::uint32_t row = 0; row < 150; ++row) gemm.add_m(1 + 37 * row);
  const auto response = Ask(request);
  ASSERT_TRUE(response.ok()) << response.status();
  for (const v1::DevicePrediction& device : response->devices()) {
    const v1::ColumnsPrediction& columns = device.columns();
    ASSERT_EQ(columns.p50_us_size(), 150);
    ASSERT_EQ(columns.provenance_size(), 150);
    for (int row = 0; row < 150; ++row) {
      const Kernel kernel{.dtype = DType::kBf16, .work = Gemm{.m = gemm.m(row), .n = 4096, .k = 1024}};
      const Estimate estimate = PredictorOf(device.device())->EstimateKernel(kernel).value();
      EXPECT_EQ(columns.p50_us(row), static_cast<float>(estimate.latency_us.p50));
      EXPECT_EQ(columns.p90_us(row), static_cast<float>(estimate.latency_us.p90));
      EXPECT_EQ(columns.p99_us(row), static_cast<float>(estimate.latency_us.p99));
      EXPECT_EQ(columns.provenance(row), wire::Encode(estimate.provenance));
    }
  }
  std::int64_t counted = 0;
  for (const std::int64_t n : counts_.kernels[static_cast<std::size_t>(Op::kGemm)]) counted += n;
  EXPECT_EQ(counted, 300);
}

TEST_F(PredictTest, AnswersAGraphWithItsSymbolsBound) {
  v1::PredictRequest request = Request("");
  *request.mutable_graph()->mutable_graph() = wire::Encode(SmallGraph());
  EXPECT_EQ(Ask(request).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(Ask(request).status()), HasSubstr("batch"));
  (*request.mutable_graph()->mutable_dims())["batch"] = 8;
  const auto response = Ask(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->devices(0).graph().kernels_size(), 2);
  EXPECT_EQ(response->devices(0).graph().kernels(0).kernel().gemm().m(), 8);
}

TEST_F(PredictTest, ARegisteredModelAnswersAsItsGraph) {
  const auto model = models_->Register(SmallGraph(), "mine");
  ASSERT_TRUE(model.ok()) << model.status();
  v1::PredictRequest by_graph = Request("");
  *by_graph.mutable_graph()->mutable_graph() = wire::Encode(SmallGraph());
  (*by_graph.mutable_graph()->mutable_dims())["batch"] = 8;
  for (const std::string& name : {std::string("models/mine"), "models/" + (*model)->hash}) {
    const auto response = Ask(Request("model { model: '" + name + "' dims { key: 'batch' value: 8 } }"));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->devices(0).graph().latency_us().p50(), Ask(by_graph)->devices(0).graph().latency_us().p50());
  }
}

TEST_F(PredictTest, BadRequestsNameTheField) {
  limits_.kernels = 2;
  limits_.graph_nodes = 1;
  limits_.column_rows = 3;
  struct Case {
    std::string text;
    absl::StatusCode code;
    const char* field;
  };
  using enum absl::StatusCode;
  for (const Case& c : std::vector<Case>{
           {"", kInvalidArgument, "workload"},
           {"kernel {}", kInvalidArgument, "kernel.dtype"},
           {"kernel { dtype: DTYPE_BF16 }", kInvalidArgument, "kernel.work"},
           {"kernel { dtype: DTYPE_BF16 gemm { m: 1 n: 1 } }", kInvalidArgument, "kernel.gemm.k"},
           {"kernel { dtype: DTYPE_BF16 gemm { m: -1 n: 1 k: 1 } }", kInvalidArgument, "kernel.gemm.m"},
           {"kernel { dtype: DTYPE_BF16 gemm { m: 9223372036854775807 n: 9223372036854775807 k: 9 } }",
            kInvalidArgument, "kernel.gemm.dims"},
           {"options { timing: TIMING_GRAPH estimator: 'magic' } kernel { dtype: DTYPE_BF16 gemm { m: 1 n: 1 k: 1 } }",
            kInvalidArgument, "options.estimator"},
           {"kernels { kernels { dtype: DTYPE_BF16 gemm { m: 1 n: 1 k: 1 } } kernels { dtype: DTYPE_BF16 gemm { m: 1 "
            "n: 1 } } }",
            kInvalidArgument, "kernels.kernels[1].gemm.k"},
           {"kernels { kernels {} kernels {} kernels {} }", kResourceExhausted, "kernels.kernels"},
           {"columns { dtype: DTYPE_BF16 gemm { m: 1 m: 2 n: [1, 2, 3] k: 1 } }", kInvalidArgument, "columns.gemm.m"},
           {"columns { dtype: DTYPE_BF16 gemm { m: 1 n: 1 } }", kInvalidArgument, "columns.gemm.k"},
           {"columns { dtype: DTYPE_BF16 gemm { m: [1, 0] n: 1 k: 1 } }", kInvalidArgument, "columns.gemm.m[1]"},
           {"columns { dtype: DTYPE_BF16 gemm { m: [1, 2, 3, 4] n: 1 k: 1 } }", kResourceExhausted, "columns"},
           {"graph { graph { nodes {} nodes {} } }", kResourceExhausted, "graph.graph.nodes"},
           {"graph { graph { nodes { kernel { dtype: DTYPE_BF16 gemm { m: 1 n: 1 k: 1 } } inputs: 0 } } }",
            kInvalidArgument, "graph.graph.nodes[0].inputs"},
           {"model { model: 'resnet' }", kInvalidArgument, "model.model"},
           {"model { model: 'models/resnet' }", kNotFound, "model.model"}}) {
    const absl::Status status = Ask(Request(c.text)).status();
    EXPECT_EQ(status.code(), c.code) << c.text << ": " << status;
    EXPECT_THAT(FieldOf(status), ::testing::StartsWith(c.field)) << c.text << ": " << status;
  }
}

TEST_F(PredictTest, BadDevicesNameTheField) {
  EXPECT_EQ(FieldOf(Ask(Request(kGemm, {})).status()), "devices");
  EXPECT_EQ(FieldOf(Ask(Request(kGemm, {"t4", ""})).status()), "devices[1].slug");
  const absl::Status unknown = Ask(Request(kGemm, {"h100"})).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FieldOf(unknown), "devices[0].slug");
  EXPECT_THAT(MessageOf(unknown), HasSubstr("h100-"));  // suggests
  const absl::Status many = Ask(Request(kGemm, std::vector<std::string>(65, "t4"))).status();
  EXPECT_EQ(many.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(LimitOf(many), "devices");
}

TEST_F(PredictTest, RefusesAnAnswerThatWouldNotFitIntoAMessage) {
  limits_.message_bytes = 1000;
  v1::PredictRequest request = Request("columns { dtype: DTYPE_BF16 gemm { n: 1 k: 1 } }");
  for (int i = 0; i < 100; ++i) request.mutable_columns()->mutable_gemm()->add_m(1);
  const absl::Status status = Ask(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(LimitOf(status), "message_bytes");
}

TEST_F(PredictTest, CollectivesAreAnsweredByTheirLinksInATopology) {
  v1::PredictRequest request =
      Request("kernel { dtype: DTYPE_FP32 collective { op: 'all_reduce' backend: 'b' bytes: 1024 ranks: 8 } }", {"t4"});
  request.mutable_options()->mutable_topology()->set_name("dgx-h100");
  const auto response = Ask(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->devices(0).kernel().estimator(), "links");
  request.mutable_kernel()->mutable_collective()->set_ranks(16);
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(request).status()));
  request.mutable_options()->mutable_topology()->set_name("dgx");
  EXPECT_EQ(FieldOf(Ask(request).status()), "options.topology.name");
}

TEST_F(PredictTest, CollectivesNeedMeasurements) {
  const auto status =
      Ask(Request("kernel { dtype: DTYPE_FP32 collective { op: 'all_reduce' backend: 'b' bytes: 1024 ranks: 8 } }",
                  {"t4"}))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(PredictTest, StopsBetweenDevicesWhenNobodyWaits) {
  cancel_after_ = 2;  // before the work and before the first device
  EXPECT_EQ(Ask(Request(kGemm, {"t4", "l40s", "h100-sxm"})).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(asked_, 2);
}

TEST_F(PredictTest, ExplainsAnEstimate) {
  v1::ExplainRequest request;
  request.mutable_device()->set_slug("h100-sxm");
  *request.mutable_kernel() = Request(kGemm).kernel();
  v1::ExplainResponse response;
  const std::function<bool()> cancelled = [] { return false; };
  const PredictContext context{*devices_, *models_->Table(), limits_, feedback_, served_, cancelled};
  ASSERT_EQ(Explain(context, request, response), absl::OkStatus());
  EXPECT_EQ(response.prediction().name(), "fc");
  EXPECT_EQ(response.profile().id(), profile_id_);
  EXPECT_EQ(response.flops(), 2.0 * 512 * 4096 * 1024);
  EXPECT_GT(response.terms_size(), 0);
  request.mutable_kernel()->mutable_gemm()->clear_k();
  EXPECT_EQ(FieldOf(Explain(context, request, response)), "kernel.gemm.k");
  request.mutable_device()->set_slug("nope");
  EXPECT_EQ(FieldOf(Explain(context, request, response)), "device.slug");
}

}  // namespace
}  // namespace gpueta
