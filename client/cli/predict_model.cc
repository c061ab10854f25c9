#include "client/cli/predict_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/cli/inputs.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/wire/graph_codec.h"
#include "core/wire/prediction_codec.h"
#include "core/wire/profile_codec.h"
#include "gpueta/client.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kShownParts = 20;  // of the table for people; --explain shows all
constexpr int kShareBarWidth = 20;

struct DeviceAnswer {
  std::string device;
  std::string profile_id;
  std::int64_t profile_version = 0;
  GraphEstimate estimate;
};

absl::StatusOr<ExecutionMode> ParseMode(const std::string& mode) {
  if (mode == "eager") return ExecutionMode::kEager;
  if (mode == "graph") return ExecutionMode::kGraph;
  return InvalidArgument("--mode: \"{}\" is not one of eager, graph", mode);
}

absl::StatusOr<std::vector<DeviceAnswer>> AskInProcess(const PredictModelArgs& args, const Globals& globals, const Graph& graph,
                                                       const SymbolValues& dims, const EstimateOptions& options) {
  GPUETA_ASSIGN_OR_RETURN(const std::shared_ptr<const Snapshot> snapshot, OpenSnapshot(globals, args.profile_paths));
  std::vector<DeviceAnswer> answers;
  for (const std::string& device : args.devices) {
    std::shared_ptr<const Predictor> predictor;
    if (!args.spec.empty()) {
      GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, ReadSpec(device, args.spec));
      predictor = snapshot->ForSpec(spec);
    } else {
      GPUETA_ASSIGN_OR_RETURN(predictor, snapshot->Find(device));
    }
    DeviceAnswer answer;
    answer.device = device;
    GPUETA_ASSIGN_OR_RETURN(answer.estimate, predictor->EstimateGraph(graph, dims, options));
    if (predictor->profile() != nullptr) answer.profile_id = predictor->profile()->id;
    answer.profile_version = predictor->version();
    answers.push_back(std::move(answer));
  }
  return answers;
}

// One item of a stream for each device, so that a device that cannot answer
// does not hide the others.
absl::StatusOr<std::vector<DeviceAnswer>> AskServer(const PredictModelArgs& args, const Globals& globals, const std::optional<Graph>& graph,
                                                    const SymbolValues& dims, const EstimateOptions& options) {
  GPUETA_ASSIGN_OR_RETURN(Client client, Client::Connect(globals.server));
  const std::unique_ptr<PredictStream> stream = client.StreamPredict();
  for (std::size_t i = 0; i < args.devices.size(); ++i) {
    v1::StreamPredictRequest item;
    item.set_id(i);
    v1::PredictRequest& request = *item.mutable_request();
    v1::DeviceSelector& device = *request.add_devices();
    device.set_slug(args.devices[i]);
    if (!args.spec.empty()) {
      GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, ReadSpec(args.devices[i], args.spec));
      *device.mutable_spec() = wire::Encode(spec);
    }
    *request.mutable_options() = wire::Encode(options);
    if (graph.has_value()) {
      *request.mutable_graph()->mutable_graph() = wire::Encode(*graph);
      request.mutable_graph()->mutable_dims()->insert(dims.begin(), dims.end());
    } else {
      request.mutable_model()->set_model(args.model.starts_with("models/") ? args.model : "models/" + args.model);
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
                            fmt::format("{}: {}", args.devices[response.id()], response.status().message()));
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

nlohmann::json ToJson(const Quantiles& q) { return {{"p50", q.p50}, {"p90", q.p90}, {"p99", q.p99}}; }

nlohmann::json ToJson(const DeviceAnswer& answer) {
  const GraphEstimate& e = answer.estimate;
  nlohmann::json provenance = nlohmann::json::object();
  for (const auto& [kind, share] : e.provenance) provenance[std::string(Name(kind))] = share;
  nlohmann::json kernels = nlohmann::json::array();
  for (const GraphPart& part : e.parts) {
    kernels.push_back({{"name", part.kernel.name},
                       {"op", Name(part.kernel.op())},
                       {"work", Describe(part.kernel)},
                       {"count", part.count},
                       {"latency_us", ToJson(part.estimate.latency_us)},
                       {"bound", Name(part.estimate.bound)},
                       {"provenance", Name(part.estimate.provenance)}});
  }
  return {{"device", answer.device},
          {"profile", {{"id", answer.profile_id}, {"version", answer.profile_version}}},
          {"latency_us", ToJson(e.latency_us)},
          {"provenance", provenance},
          {"correction", e.correction},
          {"estimator", e.estimator},
          {"kernels", kernels},
          {"memory_bytes", e.memory_bytes},
          {"warnings", e.warnings}};
}

std::string ProvenanceText(const GraphEstimate& e) {
  std::vector<std::string> parts;
  for (const auto& [kind, share] : e.provenance) parts.push_back(fmt::format("{} {:.0f}%", Name(kind), share * 100));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void PrintTotals(const std::vector<DeviceAnswer>& answers) {
  terminal::TextTable table({"device", "p50", "p90", "p99", "memory", "rests on", "profile"});
  for (const DeviceAnswer& answer : answers) {
    const Quantiles& q = answer.estimate.latency_us;
    table.Add({answer.device, terminal::FormatUs(q.p50), terminal::FormatUs(q.p90), terminal::FormatUs(q.p99),
               fmt::format("{:.3g} MB", static_cast<double>(answer.estimate.memory_bytes) / 1e6), ProvenanceText(answer.estimate),
               answer.profile_id.empty() ? "none" : answer.profile_id.substr(0, 8)});
  }
  fmt::print("{}", table.Render());
}

// The heaviest kernels first, with their share of the kernels' sum.
void PrintParts(const DeviceAnswer& answer, bool all) {
  std::vector<const GraphPart*> parts;
  double sum = 0;
  for (const GraphPart& part : answer.estimate.parts) {
    parts.push_back(&part);
    sum += static_cast<double>(part.count) * part.estimate.latency_us.p50;
  }
  const auto weight = [](const GraphPart* part) { return static_cast<double>(part->count) * part->estimate.latency_us.p50; };
  std::stable_sort(parts.begin(), parts.end(), [&](const GraphPart* a, const GraphPart* b) { return weight(a) > weight(b); });
  terminal::TextTable table({"share", "", "count", "p50 each", "p90 each", "bound", "rests on", "form", "kernel"});
  const std::size_t shown = all ? parts.size() : std::min(parts.size(), kShownParts);
  for (std::size_t i = 0; i < shown; ++i) {
    const GraphPart& part = *parts[i];
    const double share = weight(&part) / sum;
    table.Add({terminal::FormatPercent(share), std::string(static_cast<std::size_t>(share * kShareBarWidth + 0.5), '#'),
               std::to_string(part.count), terminal::FormatUs(part.estimate.latency_us.p50), terminal::FormatUs(part.estimate.latency_us.p90),
               std::string(Name(part.estimate.bound)), std::string(Name(part.estimate.provenance)), std::string(part.estimate.estimator),
               Describe(part.kernel)});
  }
  fmt::print("\n{}\n{}", answer.device, table.Render());
  if (shown < parts.size()) fmt::print("… and {} more kinds of kernels; --explain shows all\n", parts.size() - shown);
}

void PrintCsv(const std::vector<DeviceAnswer>& answers) {
  fmt::print("device,name,op,work,count,p50_us,p90_us,p99_us,bound,provenance,estimator\n");
  for (const DeviceAnswer& answer : answers) {
    for (const GraphPart& part : answer.estimate.parts) {
      const Quantiles& q = part.estimate.latency_us;
      fmt::print("{},\"{}\",{},{},{},{:.6g},{:.6g},{:.6g},{},{},{}\n", answer.device, part.kernel.name, Name(part.kernel.op()),
                 Describe(part.kernel), part.count, q.p50, q.p90, q.p99, Name(part.estimate.bound), Name(part.estimate.provenance),
                 part.estimate.estimator);
    }
  }
}

}  // namespace

absl::Status PredictModel(const PredictModelArgs& args, const Globals& globals) {
  EstimateOptions options;
  options.estimator = args.estimator;
  GPUETA_ASSIGN_OR_RETURN(options.mode, ParseMode(args.mode));
  const bool is_file = std::filesystem::exists(args.model);
  std::vector<DeviceAnswer> answers;
  if (!is_file && !globals.server.empty()) {
    if (!args.dtype.empty()) return InvalidArgument("--dtype: needs the model's file; a registered model keeps its types");
    // The server knows the symbols; only what was given is bound.
    SymbolValues dims;
    GPUETA_ASSIGN_OR_RETURN(Client client, Client::Connect(globals.server));
    v1::GetModelRequest get;
    get.set_name(args.model.starts_with("models/") ? args.model : "models/" + args.model);
    GPUETA_ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(get));
    Graph symbols;
    for (const auto& symbol : model.symbols()) symbols.symbols.push_back({symbol.name(), symbol.default_value()});
    GPUETA_ASSIGN_OR_RETURN(dims, SymbolsOf(symbols, args.dims));
    GPUETA_ASSIGN_OR_RETURN(answers, AskServer(args, globals, std::nullopt, dims, options));
  } else {
    GPUETA_ASSIGN_OR_RETURN(Graph graph, ReadModel(args.model));
    GPUETA_RETURN_IF_ERROR(Retype(graph, args.dtype));
    GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, SymbolsOf(graph, args.dims));
    if (globals.server.empty()) {
      GPUETA_ASSIGN_OR_RETURN(answers, AskInProcess(args, globals, graph, dims, options));
    } else {
      GPUETA_ASSIGN_OR_RETURN(answers, AskServer(args, globals, graph, dims, options));
    }
  }
  if (globals.json) {
    nlohmann::json devices = nlohmann::json::array();
    for (const DeviceAnswer& answer : answers) devices.push_back(ToJson(answer));
    fmt::print("{}\n", nlohmann::json{{"model", args.model}, {"devices", devices}}.dump(2));
    return absl::OkStatus();
  }
  if (args.csv) {
    PrintCsv(answers);
    return absl::OkStatus();
  }
  PrintTotals(answers);
  if (answers.size() == 1 || args.explain) {
    for (const DeviceAnswer& answer : answers) PrintParts(answer, args.explain);
  }
  for (const std::string& warning : answers.front().estimate.warnings) fmt::print("note: {}\n", warning);
  return absl::OkStatus();
}

}  // namespace gpueta::cli
