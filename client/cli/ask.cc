#include "client/cli/ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "client/cli/inputs.h"
#include "client/cli/serving_input.h"
#include "core/base/errors.h"
#include "core/wire/graph_codec.h"
#include "core/wire/prediction_codec.h"
#include "core/wire/profile_codec.h"
#include "gpueta/client.h"

namespace gpueta::cli {
namespace {

// The user's own spec, of one of the devices asked for.
absl::StatusOr<std::optional<DeviceSpec>> OwnSpec(const ModelQuestion& question) {
  if (question.spec.empty()) return std::nullopt;
  GPUETA_ASSIGN_OR_RETURN(DeviceSpec spec, ReadSpec("", question.spec));
  if (spec.slug.empty()) spec.slug = question.devices.front();
  if (std::find(question.devices.begin(), question.devices.end(), spec.slug) == question.devices.end()) {
    return InvalidArgument("{}: describes {}, which --device does not name", question.spec, spec.slug);
  }
  return spec;
}

// "gemm fp16 graph: h200-sxm 0.8, …" for each table that rests on other devices.
std::vector<std::string> RelativesOf(const Predictor& predictor, const GraphEstimate& estimate) {
  std::set<Op> ops;
  for (const GraphPart& part : estimate.parts) {
    if (part.estimate.provenance == Provenance::kTransferred) ops.insert(part.kernel.op());
  }
  std::vector<std::string> lines;
  const auto add = [&](const Profile* profile) {
    if (profile == nullptr) return;
    for (const Table& table : profile->tables) {
      if (!ops.contains(table.key.op) || table.relatives.empty()) continue;
      std::vector<std::string> relatives;
      for (const Relative& relative : table.relatives)
        relatives.push_back(fmt::format("{} {:.2f}", relative.device, relative.weight));
      lines.push_back(fmt::format("{}: {}", Describe(table.key), fmt::join(relatives, ", ")));
    }
  };
  add(predictor.profile() == nullptr ? nullptr : &predictor.profile()->profile);
  add(predictor.transferred());
  return lines;
}

absl::StatusOr<std::vector<DeviceAnswer>> AskInProcess(const ModelQuestion& question, const Globals& globals,
                                                       const Graph& graph, const SymbolValues& dims) {
  GPUETA_ASSIGN_OR_RETURN(const std::shared_ptr<const Snapshot> snapshot,
                          OpenSnapshot(globals, question.profile_paths));
  GPUETA_ASSIGN_OR_RETURN(const std::optional<DeviceSpec> own, OwnSpec(question));
  std::vector<DeviceAnswer> answers;
  for (const std::string& device : question.devices) {
    std::shared_ptr<const Predictor> predictor;
    if (own.has_value() && own->slug == device) {
      predictor = snapshot->ForSpec(*own);
    } else {
      GPUETA_ASSIGN_OR_RETURN(predictor, snapshot->Find(device));
    }
    DeviceAnswer answer;
    answer.device = device;
    GPUETA_ASSIGN_OR_RETURN(answer.estimate, predictor->EstimateGraph(graph, dims, question.options));
    if (predictor->profile() != nullptr) answer.profile_id = predictor->profile()->id;
    answer.profile_version = predictor->version();
    answer.relatives = RelativesOf(*predictor, answer.estimate);
    answers.push_back(std::move(answer));
  }
  return answers;
}

// One item of a stream for each device, so that a device that cannot answer
// does not hide the others.
absl::StatusOr<std::vector<DeviceAnswer>> AskServer(const ModelQuestion& question, const Globals& globals,
                                                    const std::optional<Graph>& graph, const SymbolValues& dims) {
  GPUETA_ASSIGN_OR_RETURN(const std::optional<DeviceSpec> own, OwnSpec(question));
  GPUETA_ASSIGN_OR_RETURN(Client client, Client::Connect(globals.server));
  const std::unique_ptr<PredictStream> stream = client.StreamPredict();
  for (std::size_t i = 0; i < question.devices.size(); ++i) {
    v1::StreamPredictRequest item;
    item.set_id(i);
    v1::PredictRequest& request = *item.mutable_request();
    v1::DeviceSelector& device = *request.add_devices();
    device.set_slug(question.devices[i]);
    if (own.has_value() && own->slug == question.devices[i]) *device.mutable_spec() = wire::Encode(*own);
    *request.mutable_options() = wire::Encode(question.options);
    if (graph.has_value()) {
      *request.mutable_graph()->mutable_graph() = wire::Encode(*graph);
      request.mutable_graph()->mutable_dims()->insert(dims.begin(), dims.end());
    } else {
      request.mutable_model()->set_model(ResourceName(question.model));
      request.mutable_model()->mutable_dims()->insert(dims.begin(), dims.end());
    }
    if (!stream->Write(item)) break;
  }
  stream->WritesDone();
  std::vector<DeviceAnswer> answers;
  v1::StreamPredictResponse response;
  absl::Status failed;
  while (stream->Read(&response)) {
    if (response.status().code() != 0) {
      failed = absl::Status(static_cast<absl::StatusCode>(response.status().code()),
                            fmt::format("{}: {}", question.devices[response.id()], response.status().message()));
      continue;
    }
    const v1::DevicePrediction& prediction = response.response().devices(0);
    DeviceAnswer answer;
    answer.device = prediction.device();
    answer.profile_id = prediction.profile().id();
    answer.profile_version = prediction.profile().version();
    GPUETA_ASSIGN_OR_RETURN(answer.estimate, wire::Decode(prediction.graph()));
    answers.push_back(std::move(answer));
  }
  const absl::Status finished = stream->Finish();
  if (!finished.ok()) return Prefixed(finished, fmt::format("server {}", globals.server));
  if (!failed.ok()) return failed;
  return answers;
}

// The symbols of a registered model, with the values given for them.
absl::StatusOr<SymbolValues> SymbolsOfRegistered(const ModelQuestion& question, const Globals& globals) {
  const RunArgs& run = question.run;
  if (!run.dtype.empty() || !run.kv_dtype.empty() || !run.phase.empty() || run.train || run.ranks.tensor > 1 ||
      run.ranks.pipeline > 1 || run.ranks.expert > 1 || run.mode == "compiled") {
    return InvalidArgument(
        "--dtype, --kv-dtype, --phase, --train, --tp, --pp, --ep, --mode compiled: need the model's "
        "file; a registered model stays as it is");
  }
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  v1::GetModelRequest get;
  get.set_name(ResourceName(question.model));
  GPUETA_ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(get));
  Graph symbols;
  for (const auto& symbol : model.symbols()) symbols.symbols.push_back({symbol.name(), symbol.default_value()});
  return SymbolsOf(symbols, question.dims, run.kv_len);
}

}  // namespace

absl::StatusOr<std::vector<DeviceAnswer>> Ask(const ModelQuestion& question, const Globals& globals) {
  if (!globals.server.empty() && !std::filesystem::exists(question.model)) {
    GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, SymbolsOfRegistered(question, globals));
    return AskServer(question, globals, std::nullopt, dims);
  }
  GPUETA_ASSIGN_OR_RETURN(const Graph graph, ReadModelAsRun(question.model, question.run));
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, SymbolsOf(graph, question.dims, question.run.kv_len));
  return globals.server.empty() ? AskInProcess(question, globals, graph, dims)
                                : AskServer(question, globals, graph, dims);
}

}  // namespace gpueta::cli
