#include "server/models/model_registry.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/sha256.h"
#include "core/importers/huggingface/huggingface_importer.h"
#include "core/wire/graph_codec.h"
#include "server/logging.h"

namespace gpueta {
namespace {

constexpr std::string_view kPrefix = "models/";
constexpr std::size_t kLongestAlias = 63;
constexpr std::size_t kHashDigits = 16;

absl::Status CheckAlias(std::string_view alias) {
  if (alias.size() == kHashDigits && alias.find_first_not_of("0123456789abcdef") == std::string_view::npos) {
    return FieldError("alias", fmt::format("\"{}\" looks like a model's hash; choose another name", alias));
  }
  const bool legal = alias.size() <= kLongestAlias && std::all_of(alias.begin(), alias.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                     });
  return legal ? absl::OkStatus()
               : FieldError("alias", fmt::format("\"{}\" must be of 1 to {} of a-z 0-9 . _ -", alias, kLongestAlias));
}

RegisteredModel ModelOf(std::string hash, Graph graph) {
  RegisteredModel model;
  model.hash = std::move(hash);
  for (const GraphNode& node : graph.nodes) {
    if (node.costing != Costing::kFree) ++model.kernel_counts[std::string(Name(node.kernel.op()))];
  }
  model.graph = std::move(graph);
  return model;
}

absl::StatusOr<RegisteredModel> ModelOf(const StoredModel& stored) {
  if (!stored.config.empty()) {
    GPUETA_ASSIGN_OR_RETURN(Graph graph, ImportHuggingFace(stored.config, stored.display_name));
    RegisteredModel model = ModelOf(stored.hash, std::move(graph));
    model.config = ModelConfig{.id = stored.hash, .display_name = stored.display_name, .json = stored.config};
    return model;
  }
  v1::Graph message;
  if (!message.ParseFromString(stored.graph)) return absl::DataLossError("not a graph");
  GPUETA_ASSIGN_OR_RETURN(Graph graph, wire::Decode(message));
  return ModelOf(stored.hash, std::move(graph));
}

std::int64_t BytesOf(const StoredModel& stored) {
  return static_cast<std::int64_t>(stored.graph.size() + stored.config.size());
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RegisteredModel>> ModelTable::Find(std::string_view field,
                                                                        std::string_view name) const {
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) {
    return FieldError(field, fmt::format("\"{}\" is not of the form models/HASH or models/ALIAS", name));
  }
  const std::string_view id = name.substr(kPrefix.size());
  const auto alias = aliases_.find(id);
  auto model = models_.find(id);
  if (model == models_.end() && alias != aliases_.end()) model = models_.find(alias->second);
  if (model != models_.end()) return model->second;
  return InField(field, NotFound("no model {}; register it first, or see \"gpueta model list\"", name));
}

absl::StatusOr<std::shared_ptr<const RegisteredModel>> ModelTable::FindConfig(std::string_view field,
                                                                              std::string_view name) const {
  GPUETA_ASSIGN_OR_RETURN(auto model, Find(field, name));
  if (model->config.has_value()) return model;
  return InField(field, FailedPrecondition("{} was registered as a graph, of which engines' steps do not follow; "
                                           "register its config.json",
                                           name));
}

std::vector<std::string> ModelTable::AliasesOf(std::string_view hash) const {
  std::vector<std::string> names;
  for (const auto& [alias, target] : aliases_) {
    if (target == hash) names.push_back(alias);
  }
  return names;
}

absl::StatusOr<std::unique_ptr<ModelRegistry>> ModelRegistry::Open(Store& store, const Limits& limits) {
  GPUETA_ASSIGN_OR_RETURN(const StoreContents contents, store.Load());
  auto table = std::make_shared<ModelTable>();
  for (const StoredModel& stored : contents.models) {
    absl::StatusOr<RegisteredModel> model = ModelOf(stored);
    if (!model.ok()) {
      Log(LogLevel::kError, "model left out", {{"hash", stored.hash}, {"error", MessageOf(model.status())}});
      continue;
    }
    table->models_.emplace(stored.hash, std::make_shared<const RegisteredModel>(*std::move(model)));
    table->bytes_ += BytesOf(stored);
  }
  for (const ModelAlias& alias : contents.aliases) {
    if (table->models_.contains(alias.hash)) table->aliases_.emplace(alias.alias, alias.hash);
  }
  std::unique_ptr<ModelRegistry> registry(new ModelRegistry(store, limits));
  registry->table_.Swap(std::move(table));
  return registry;
}

absl::StatusOr<std::shared_ptr<const RegisteredModel>> ModelRegistry::Register(Graph graph, const std::string& alias) {
  StoredModel stored;
  stored.hash = HashOf(graph);
  stored.graph = wire::Encode(graph).SerializeAsString();
  std::string hash = stored.hash;
  return Keep(std::move(stored), ModelOf(std::move(hash), std::move(graph)), alias);
}

absl::StatusOr<std::shared_ptr<const RegisteredModel>> ModelRegistry::RegisterConfig(std::string_view json,
                                                                                     const std::string& display_name,
                                                                                     const std::string& alias) {
  StoredModel stored;
  auto config = CanonicalConfig(json);
  if (!config.ok()) return InField("config", config.status());
  stored.config = *std::move(config);
  stored.hash = Hex(Sha256("config.json\n" + stored.config), kHashDigits);
  stored.display_name = display_name;
  absl::StatusOr<RegisteredModel> model = ModelOf(stored);
  if (!model.ok()) return InField("config", model.status());
  GPUETA_RETURN_IF_ERROR(CheckLimit("config.nodes", "graph_nodes", limits_.graph_nodes,
                                    static_cast<std::int64_t>(model->graph.nodes.size())));
  return Keep(std::move(stored), *std::move(model), alias);
}

absl::StatusOr<std::shared_ptr<const RegisteredModel>> ModelRegistry::Keep(StoredModel stored, RegisteredModel model,
                                                                           const std::string& alias) {
  GPUETA_RETURN_IF_ERROR(CheckAlias(alias));
  const std::lock_guard lock(mutex_);
  auto table = std::make_shared<ModelTable>(*table_.Read());
  const std::string hash = stored.hash;
  StoreChange change;
  auto& entry = table->models_[hash];
  if (entry == nullptr) {
    table->bytes_ += BytesOf(stored);
    GPUETA_RETURN_IF_ERROR(
        CheckLimit("models in the store", "models", limits_.models, static_cast<std::int64_t>(table->models_.size())));
    GPUETA_RETURN_IF_ERROR(CheckLimit("bytes of all models", "model_bytes", limits_.model_bytes, table->bytes_));
    change.model = std::move(stored);
    entry = std::make_shared<const RegisteredModel>(std::move(model));
  }
  if (!alias.empty()) {
    std::string& target = table->aliases_[alias];
    if (target != hash) change.alias = ModelAlias{alias, hash};
    target = hash;
  }
  auto registered = entry;
  if (!change.model.has_value() && !change.alias.has_value()) return registered;
  GPUETA_RETURN_IF_ERROR(store_->Commit(change));
  table_.Swap(std::move(table));
  return registered;
}

}  // namespace gpueta
