#include "server/handlers/models.h"

#include "core/base/errors.h"
#include "core/importers/onnx/onnx_importer.h"
#include "core/wire/graph_codec.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "server/handlers/page.h"

namespace gpueta {
namespace {

void Encode(const RegisteredModel& model, const ModelTable& models, v1::Model& message) {
  const Graph& graph = model.graph;
  message.set_name("models/" + model.hash);
  message.set_display_name(graph.display_name);
  for (const std::string& alias : models.AliasesOf(model.hash)) message.add_aliases(alias);
  for (const Graph::Symbol& symbol : graph.symbols) {
    v1::Graph::Symbol& out = *message.add_symbols();
    out.set_name(symbol.name);
    out.set_default_value(symbol.default_value);
  }
  message.set_node_count(static_cast<std::int64_t>(graph.nodes.size()));
  message.set_parameters(graph.parameters);
  message.mutable_kernel_counts()->insert(model.kernel_counts.begin(), model.kernel_counts.end());
  message.mutable_warnings()->Assign(graph.warnings.begin(), graph.warnings.end());
  message.set_active_parameters(graph.active_parameters > 0 ? graph.active_parameters : graph.parameters);
  message.set_kv_bytes_per_token(graph.kv_bytes_per_token);
  message.set_has_config(model.config.has_value());
}

absl::StatusOr<Graph> GraphOf(const Limits& limits, const v1::RegisterModelRequest& request) {
  switch (request.source_case()) {
    case v1::RegisterModelRequest::kGraph: {
      GPUETA_RETURN_IF_ERROR(
          CheckLimit("graph.nodes", "graph_nodes", limits.graph_nodes, request.graph().nodes_size()));
      auto graph = wire::Decode(request.graph());
      if (!graph.ok()) return InField("graph", graph.status());
      return graph;
    }
    case v1::RegisterModelRequest::kOnnx: {
      auto graph = ImportOnnx(request.onnx(), request.alias());
      if (!graph.ok()) return InField("onnx", graph.status());
      GPUETA_RETURN_IF_ERROR(
          CheckLimit("onnx.nodes", "graph_nodes", limits.graph_nodes, static_cast<std::int64_t>(graph->nodes.size())));
      return graph;
    }
    case v1::RegisterModelRequest::kConfig:
    case v1::RegisterModelRequest::SOURCE_NOT_SET: break;
  }
  return FieldError("source", "is not set; give graph, onnx or config");
}

}  // namespace

absl::Status RegisterModel(ModelRegistry& registry, const Limits& limits, const v1::RegisterModelRequest& request,
                           v1::Model& response) {
  const auto register_source = [&]() -> absl::StatusOr<std::shared_ptr<const RegisteredModel>> {
    if (request.source_case() == v1::RegisterModelRequest::kConfig) {
      const std::string& name = request.display_name().empty() ? request.alias() : request.display_name();
      return registry.RegisterConfig(request.config(), name, request.alias());
    }
    GPUETA_ASSIGN_OR_RETURN(Graph graph, GraphOf(limits, request));
    return registry.Register(std::move(graph), request.alias());
  };
  GPUETA_ASSIGN_OR_RETURN(const auto model, register_source());
  Encode(*model, *registry.Table(), response);
  return absl::OkStatus();
}

absl::Status GetModel(const ModelTable& models, const v1::GetModelRequest& request, v1::Model& response) {
  GPUETA_ASSIGN_OR_RETURN(const auto model, models.Find("name", request.name()));
  Encode(*model, models, response);
  return absl::OkStatus();
}

absl::Status ListModels(const ModelTable& models, const v1::ListModelsRequest& request,
                        v1::ListModelsResponse& response) {
  std::vector<std::shared_ptr<const RegisteredModel>> sorted;
  for (const auto& [hash, model] : models.models()) sorted.push_back(model);
  GPUETA_ASSIGN_OR_RETURN(const auto page, TakePage(
                                               sorted, [](const auto& model) { return model->hash; },
                                               request.page_size(), request.page_token()));
  for (const auto* model : page.items) Encode(**model, models, *response.add_models());
  response.set_next_page_token(page.next_token);
  return absl::OkStatus();
}

}  // namespace gpueta
