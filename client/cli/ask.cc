#include "client/cli/ask.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "client/cli/inputs.h"
#include "client/cli/serving_input.h"
#include "core/base/errors.h"
#include "core/device/slice.h"
#include "core/graph/passes/traced_batch.h"
#include "core/importers/traces/trace_importer.h"
#include "core/predict/as_run.h"
#include "core/predict/traced.h"
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
  if (spec.slug.empty() && !question.devices.empty()) spec.slug = question.devices.front();
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

// The spec of a device that a server answered for.
DeviceSpec SpecKnownHere(const std::string& device, const std::optional<DeviceSpec>& own) {
  if (own.has_value() && own->slug == device) return *own;
  const absl::StatusOr<DeviceSpec> known = Catalogue::BuiltIn().Get(device);
  return known.ok() ? *known : DeviceSpec{.slug = device};
}

// The symbols of a registered model.
absl::StatusOr<Graph> SymbolsOfRegistered(const ModelQuestion& question, const Globals& globals) {
  const RunArgs& run = question.run;
  if (!run.dtype.empty() || !run.kv_dtype.empty() || !run.phase.empty() || run.train || run.ranks.tensor > 1 ||
      run.ranks.pipeline > 1 || run.ranks.expert > 1 || DevicesOf(run) > 1 || BatchSharesOf(run) > 1 ||
      run.mode == "compiled" || !run.passes.empty()) {
    return InvalidArgument(
        "--dtype, --kv-dtype, --phase, --train, --tp, --pp, --ep, --dp, --microbatches, --passes, --mode compiled: "
        "need the model's "
        "file; a registered model stays as it is");
  }
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  v1::GetModelRequest get;
  get.set_name(ResourceName(question.model));
  GPUETA_ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(get));
  Graph symbols;
  for (const auto& symbol : model.symbols()) symbols.symbols.push_back({symbol.name(), symbol.default_value()});
  return symbols;
}

}  // namespace

void AddQuestionOptions(CLI::App& command, ModelQuestion& question) {
  command.add_option("--profile", question.profile_paths, "Profiles to use in place of a directory; may be repeated")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile);
  command.add_option("--device,--devices", question.devices, "Devices, by commas")
      ->allow_extra_args(false)
      ->delimiter(',');
  command.add_option("--spec", question.spec, "CSV with a spec row, for a device outside the catalogue")
      ->check(CLI::ExistingFile);
  AddEstimatorOption(command, question.estimator);
  command.add_option("--host-issue", question.host_issue,
                     "What the host takes to issue a plain kernel in eager mode, e.g. 7us, if it is known");
  command.add_option("--host-copy", question.host_copy_gb_s,
                     "GB/s at which it copies a model's inputs to the device, if that is known");
  command.add_flag("--no-correction", question.no_correction,
                   "With --server: leave out what the server learnt from observations");
  AddDimOptions(command, question.dims);
  AddRunOptions(command, question.run);
  AddNodeOptions(command, question.node);
  command.add_option("--slice", question.slice,
                     "Part of each device: a MIG profile (3g.40gb) or a share of its SMs (sm=0.5)");
  command
      .add_option("--traced-batch", question.traced_batch,
                  "Of a trace: the batch that it ran with, so that --batch can ask for another")
      ->check(CLI::PositiveNumber);
}

absl::StatusOr<OpenModel> OpenModel::Open(const ModelQuestion& question, const Globals& globals) {
  OpenModel open;
  open.question_ = question;
  open.server_ = globals.server;
  open.options_.estimator = question.estimator;
  if (question.no_correction && globals.server.empty()) {
    return InvalidArgument("--no-correction: only a server learns from observations; give --server, or leave it out");
  }
  GPUETA_ASSIGN_OR_RETURN(const RunMode mode, ParseRunMode(question.run.mode));
  open.options_.mode = ExecutionOf(mode);
  if (!question.host_issue.empty()) {
    GPUETA_ASSIGN_OR_RETURN(open.options_.host.issue_us, ParseDuration("--host-issue", question.host_issue));
  }
  open.options_.host.copy_gb_s = question.host_copy_gb_s;
  GPUETA_RETURN_IF_ERROR(wire::CheckHostRate(open.options_.host.issue_us, "--host-issue"));
  GPUETA_RETURN_IF_ERROR(wire::CheckHostRate(open.options_.host.copy_gb_s, "--host-copy"));
  GPUETA_ASSIGN_OR_RETURN(open.options_.topology, TopologyOf(question.node, DevicesOf(question.run)));
  open.registered_ = !globals.server.empty() && !std::filesystem::exists(question.model);
  if (open.registered_) {
    GPUETA_ASSIGN_OR_RETURN(open.graph_, SymbolsOfRegistered(question, globals));
  } else {
    GPUETA_ASSIGN_OR_RETURN(open.graph_, ReadModelAsRun(question.model, question.run));
    if (question.traced_batch.has_value()) {
      if (!IsTraceFile(question.model)) return InvalidArgument("--traced-batch: {} is no trace", question.model);
      GPUETA_RETURN_IF_ERROR(MakeBatchSymbolic(open.graph_, *question.traced_batch));
    }
  }
  GPUETA_ASSIGN_OR_RETURN(open.own_spec_, OwnSpec(question));
  if (globals.server.empty()) {
    GPUETA_ASSIGN_OR_RETURN(open.snapshot_, OpenSnapshot(globals, question.profile_paths));
    GPUETA_RETURN_IF_ERROR(open.ReadTrace());
  }
  return open;
}

// Passes make other kernels, of which no time is known; and forms that are asked
// for by name answer alone.
absl::Status OpenModel::ReadTrace() {
  if (registered_ || !IsTraceFile(question_.model) || !graph_.passes.empty() || !question_.estimator.empty())
    return absl::OkStatus();
  GPUETA_ASSIGN_OR_RETURN(TracedGraph traced, ImportTracedFile(question_.model));
  if (traced.device.empty() || traced.node_us.size() != graph_.nodes.size()) return absl::OkStatus();
  GPUETA_ASSIGN_OR_RETURN(traced_on_, snapshot_->Find(traced.device));
  traced_us_ = std::move(traced.node_us);
  return absl::OkStatus();
}

absl::StatusOr<BoundGraph> OpenModel::Bound(const DeviceSpec& spec, const SymbolValues& dims) const {
  if (registered_) {
    return FailedPrecondition("{}: a registered model keeps the order of its kernels to itself; give the model's file",
                              question_.model);
  }
  BoundGraph bound{AsRunOn(spec, options_.mode, graph()).value_or(graph()), {}};
  GPUETA_ASSIGN_OR_RETURN(bound.kernels, Bind(bound.graph, dims));
  return bound;
}

absl::StatusOr<std::vector<DeviceAnswer>> OpenModel::Ask(const std::vector<std::string>& devices,
                                                         const SymbolValues& dims) const {
  return server_.empty() ? AskInProcess(devices, dims) : AskServer(devices, dims);
}

absl::StatusOr<std::vector<DeviceAnswer>> OpenModel::AskInProcess(const std::vector<std::string>& devices,
                                                                  const SymbolValues& dims) const {
  std::vector<DeviceAnswer> answers;
  for (const std::string& device : devices) {
    std::shared_ptr<const Predictor> predictor;
    if (own_spec_.has_value() && own_spec_->slug == device) {
      predictor = snapshot_->ForSpec(*own_spec_);
    } else {
      GPUETA_ASSIGN_OR_RETURN(predictor, snapshot_->Find(device));
    }
    if (!question_.slice.empty()) {
      absl::StatusOr<std::shared_ptr<const Predictor>> part = predictor->Slice(question_.slice);
      if (!part.ok()) return Prefixed(part.status(), "--slice");
      predictor = *std::move(part);
    }
    DeviceAnswer answer;
    answer.device = device;
    answer.spec = predictor->spec();
    GPUETA_ASSIGN_OR_RETURN(answer.estimate, traced_on_ == nullptr ? predictor->EstimateGraph(graph(), dims, options_)
                                                                   : EstimateTraced(*predictor, *traced_on_, graph(),
                                                                                    traced_us_, dims, options_));
    if (predictor->profile() != nullptr) answer.profile_id = predictor->profile()->id;
    answer.profile_version = predictor->version();
    answer.relatives = RelativesOf(*predictor, answer.estimate);
    for (const GraphPart& part : answer.estimate.parts) {
      // A collective between machines is of no table.
      answer.runs.push_back(predictor->RunOf(part.kernel, predictor->KernelOptionsOf(options_)).value_or(KernelRun{}));
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

template <class Request>
void OpenModel::Fill(const SymbolValues& dims, Request& request) const {
  *request.mutable_options() = wire::Encode(options_);
  request.mutable_options()->set_no_correction(question_.no_correction);
  if (registered_) {
    request.mutable_model()->set_model(ResourceName(question_.model));
    request.mutable_model()->mutable_dims()->insert(dims.begin(), dims.end());
  } else {
    *request.mutable_graph()->mutable_graph() = wire::Encode(graph());
    request.mutable_graph()->mutable_dims()->insert(dims.begin(), dims.end());
  }
}
template void OpenModel::Fill(const SymbolValues& dims, v1::PredictRequest& request) const;
template void OpenModel::Fill(const SymbolValues& dims, v1::RankDevicesRequest& request) const;

v1::DeviceSelector OpenModel::Selector(const std::string& device) const {
  v1::DeviceSelector selector;
  selector.set_slug(device);
  selector.set_slice(question_.slice);
  if (own_spec_.has_value() && own_spec_->slug == device) *selector.mutable_spec() = wire::Encode(*own_spec_);
  return selector;
}

// One item of a stream for each device, so that a device that cannot answer
// does not hide the others.
absl::StatusOr<std::vector<DeviceAnswer>> OpenModel::AskServer(const std::vector<std::string>& devices,
                                                               const SymbolValues& dims) const {
  GPUETA_ASSIGN_OR_RETURN(Client client, Client::Connect(server_));
  const std::unique_ptr<PredictStream> stream = client.StreamPredict();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    v1::StreamPredictRequest item;
    item.set_id(i);
    v1::PredictRequest& request = *item.mutable_request();
    *request.add_devices() = Selector(devices[i]);
    Fill(dims, request);
    if (!stream->Write(item)) break;
  }
  stream->WritesDone();
  std::vector<DeviceAnswer> answers;
  v1::StreamPredictResponse response;
  absl::Status failed;
  while (stream->Read(&response)) {
    if (response.status().code() != 0) {
      failed = absl::Status(static_cast<absl::StatusCode>(response.status().code()),
                            fmt::format("{}: {}", devices[response.id()], response.status().message()));
      continue;
    }
    const v1::DevicePrediction& prediction = response.response().devices(0);
    DeviceAnswer answer;
    answer.device = prediction.device();
    answer.spec = SpecKnownHere(answer.device, own_spec_);
    if (const auto part = SliceOf(answer.spec, question_.slice); part.ok()) answer.spec = *part;
    answer.profile_id = prediction.profile().id();
    answer.profile_version = prediction.profile().version();
    GPUETA_ASSIGN_OR_RETURN(answer.estimate, wire::Decode(prediction.graph()));
    answers.push_back(std::move(answer));
  }
  const absl::Status finished = stream->Finish();
  if (!finished.ok()) return Prefixed(finished, fmt::format("server {}", server_));
  if (!failed.ok()) return failed;
  return answers;
}

absl::StatusOr<std::vector<std::string>> ProfiledGpus(const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const auto snapshot, OpenSnapshot(globals, {}));
  std::vector<std::string> gpus;
  for (const std::string& slug : snapshot->ProfiledDevices()) {
    GPUETA_ASSIGN_OR_RETURN(const auto predictor, snapshot->Find(slug));
    if (!IsCpu(predictor->spec())) gpus.push_back(slug);
  }
  return gpus;
}

}  // namespace gpueta::cli
