#include "server/handlers/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/serving/testing_models.h"
#include "core/wire/graph_codec.h"
#include "gpueta/v1/prediction_service.pb.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Graph GraphWith(std::int64_t k) {
  Graph graph;
  graph.display_name = "graph";
  graph.symbols = {{"batch", 1}};
  graph.parameters = 100;
  GraphNode node;
  node.kernel = {.name = "fc", .dtype = DType::kFp32, .work = Gemm{.m = 1, .n = 10, .k = k}};
  node.symbolic_dims = {{1, SymInt::Symbol("batch")}};
  GraphNode view;
  view.kernel = {.name = "view", .dtype = DType::kFp32, .work = Vector{.op = "reshape", .rows = 1, .cols = 1}};
  view.costing = Costing::kFree;
  view.inputs = {0};
  graph.nodes = {node, view};
  return wire::Encode(graph);
}

class ModelsTest : public ::testing::Test {
 protected:
  ModelsTest() : store_(OpenStore("sqlite::memory:").value()) { Open(); }
  void Open() { registry_ = ModelRegistry::Open(*store_, limits_).value(); }

  absl::StatusOr<v1::Model> Register(const v1::Graph& graph, const std::string& alias = "") {
    v1::RegisterModelRequest request;
    request.set_alias(alias);
    *request.mutable_graph() = graph;
    v1::Model model;
    const absl::Status status = RegisterModel(*registry_, limits_, request, model);
    if (!status.ok()) return status;
    return model;
  }

  absl::StatusOr<v1::Model> Get(const std::string& name) {
    v1::GetModelRequest request;
    request.set_name(name);
    v1::Model model;
    const absl::Status status = GetModel(*registry_->Table(), request, model);
    if (!status.ok()) return status;
    return model;
  }

  Limits limits_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ModelRegistry> registry_;
};

TEST_F(ModelsTest, RegistersAGraphUnderItsHash) {
  const auto model = Register(GraphWith(5), "mine");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->name(), ::testing::MatchesRegex("models/[0-9a-f]{16}"));
  EXPECT_EQ(model->display_name(), "graph");
  EXPECT_THAT(model->aliases(), ElementsAre("mine"));
  EXPECT_EQ(model->node_count(), 2);
  EXPECT_EQ(model->parameters(), 100);
  EXPECT_EQ(model->kernel_counts().size(), 1U);  // the view runs no kernel
  EXPECT_EQ(model->kernel_counts().at("gemm"), 1);
  ASSERT_EQ(model->symbols_size(), 1);
  EXPECT_EQ(model->symbols(0).name(), "batch");
}

TEST_F(ModelsTest, TheSameContentIsTheSameModel) {
  const auto first = Register(GraphWith(5), "a");
  const auto second = Register(GraphWith(5), "b");
  EXPECT_EQ(first->name(), second->name());
  EXPECT_THAT(second->aliases(), ElementsAre("a", "b"));
  EXPECT_EQ(registry_->Table()->models().size(), 1U);
}

TEST_F(ModelsTest, AnAliasMoves) {
  Register(GraphWith(5), "a").value();
  const auto second = Register(GraphWith(6), "a");
  EXPECT_EQ(Get("models/a")->name(), second->name());
}

TEST_F(ModelsTest, SurvivesARestart) {
  const std::string name = Register(GraphWith(5), "a")->name();
  Open();
  EXPECT_EQ(Get("models/a")->name(), name);
  EXPECT_EQ(Get(name)->node_count(), 2);
}

TEST_F(ModelsTest, RefusesWhatIsNoModelAndNamesTheField) {
  v1::RegisterModelRequest request;
  v1::Model model;
  EXPECT_EQ(FieldOf(RegisterModel(*registry_, limits_, request, model)), "source");
  request.set_onnx("random bytes");
  const absl::Status onnx = RegisterModel(*registry_, limits_, request, model);
  EXPECT_EQ(onnx.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(FieldOf(onnx), ::testing::StartsWith("onnx"));
  v1::Graph cycle = GraphWith(5);
  cycle.mutable_nodes(0)->add_inputs(1);
  EXPECT_THAT(FieldOf(Register(cycle).status()), HasSubstr("graph.nodes[0]"));
  for (const char* alias : {"Upper", "with space", "a/b", "-$"}) {
    EXPECT_EQ(FieldOf(Register(GraphWith(5), alias).status()), "alias") << alias;
  }
  EXPECT_EQ(FieldOf(Register(GraphWith(5), std::string(64, 'a')).status()), "alias");
  EXPECT_TRUE(registry_->Table()->models().empty());
  EXPECT_TRUE(store_->Load()->models.empty());
}

TEST_F(ModelsTest, KeepsTheConfigOfAModel) {
  v1::RegisterModelRequest request;
  request.set_alias("small");
  request.set_config(testing::SmallLlama());
  v1::Model model;
  ASSERT_EQ(RegisterModel(*registry_, limits_, request, model), absl::OkStatus());
  EXPECT_TRUE(model.has_config());
  EXPECT_EQ(model.display_name(), "small");
  EXPECT_EQ(model.kv_bytes_per_token(), 4 * 1024);
  EXPECT_EQ(model.active_parameters(), model.parameters());
  EXPECT_EQ(model.symbols_size(), 2);  // batch and seq of its prefill
  // The same but for spaces and the order of fields.
  v1::Model again;
  request.set_config(R"({"vocab_size" : 32000,)" + testing::SmallLlama().substr(1));
  ASSERT_EQ(RegisterModel(*registry_, limits_, request, again), absl::OkStatus());
  EXPECT_EQ(again.name(), model.name());
  Open();
  const auto kept = registry_->Table()->FindConfig("model", model.name());
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ((*kept)->config->id, model.name().substr(7));
  EXPECT_EQ(Get("models/small")->parameters(), model.parameters());
}

TEST_F(ModelsTest, AGraphKeepsWhatItsConfigSaidOfMemory) {
  v1::Graph graph = GraphWith(5);
  graph.set_active_parameters(60);
  graph.set_kv_bytes_per_token(4096);
  const std::string name = Register(graph)->name();
  Open();
  EXPECT_EQ(Get(name)->active_parameters(), 60);
  EXPECT_EQ(Get(name)->kv_bytes_per_token(), 4096);
  EXPECT_FALSE(Get(name)->has_config());
  const absl::Status steps = registry_->Table()->FindConfig("model", name).status();
  EXPECT_EQ(steps.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FieldOf(steps), "model");
  graph.set_kv_bytes_per_token(-1);
  EXPECT_EQ(FieldOf(Register(graph).status()), "graph.kv_bytes_per_token");
}

TEST_F(ModelsTest, AWrongConfigNamesItsField) {
  v1::RegisterModelRequest request;
  v1::Model model;
  for (const char* config : {"{", "[]", "{}", R"({"model_type": "llama", "hidden_size": -1})"}) {
    request.set_config(config);
    const absl::Status status = RegisterModel(*registry_, limits_, request, model);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << config;
    EXPECT_THAT(FieldOf(status), ::testing::StartsWith("config")) << config;
  }
  limits_.graph_nodes = 5;
  Open();
  request.set_config(testing::SmallLlama());
  EXPECT_EQ(LimitOf(RegisterModel(*registry_, limits_, request, model)), "graph_nodes");
  EXPECT_TRUE(registry_->Table()->models().empty());
}

TEST_F(ModelsTest, LimitsNodesModelsAndBytes) {
  limits_.graph_nodes = 1;
  Open();
  EXPECT_EQ(LimitOf(Register(GraphWith(5)).status()), "graph_nodes");
  limits_ = {};
  limits_.models = 1;
  Open();
  EXPECT_TRUE(Register(GraphWith(5)).ok());
  EXPECT_EQ(LimitOf(Register(GraphWith(6)).status()), "models");
  EXPECT_TRUE(Register(GraphWith(5), "again").ok());  // no new one
  limits_ = {};
  limits_.model_bytes = 10;
  Open();
  EXPECT_EQ(LimitOf(Register(GraphWith(7)).status()), "model_bytes");
}

TEST_F(ModelsTest, AnswersNotFound) {
  EXPECT_EQ(Get("models/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FieldOf(Get("none").status()), "name");
}

TEST_F(ModelsTest, ListsInPages) {
  for (int k = 1; k <= 5; ++k) Register(GraphWith(k)).value();
  v1::ListModelsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  std::vector<int> sizes;
  do {
    v1::ListModelsResponse response;
    ASSERT_EQ(ListModels(*registry_->Table(), request, response), absl::OkStatus());
    sizes.push_back(response.models_size());
    for (const v1::Model& model : response.models()) names.push_back(model.name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(sizes, ElementsAre(2, 2, 1));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 5U);
  request.set_page_size(-1);
  v1::ListModelsResponse response;
  EXPECT_EQ(FieldOf(ListModels(*registry_->Table(), request, response)), "page_size");
}

}  // namespace
}  // namespace gpueta
