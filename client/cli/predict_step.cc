#include "client/cli/predict_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/serving/admit_json.h"
#include "core/wire/prediction_codec.h"
#include "core/wire/serving_codec.h"

namespace gpueta::cli {
namespace {

struct StepQuestion {
  Deployment deployment;
  EngineOverhead overhead;
  EngineStep step;
  EstimateOptions options;
};

absl::StatusOr<v1::PredictResponse> AskInProcess(const PredictStepArgs& args, const StepQuestion& question,
                                                 const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(LocalEngines engines,
                          LocalEngines::Open(args.model.model, args.model.profile_paths, globals));
  const auto model = engines.models().Model(engines.config(), question.deployment);
  if (!model.ok()) return Prefixed(model.status(), args.model.model);
  v1::PredictResponse response;
  for (const std::string& device : args.devices) {
    GPUETA_ASSIGN_OR_RETURN(const auto predictor, engines.snapshot().Find(device));
    const auto estimate = (*model)->Estimate(question.step, *predictor, question.overhead, question.options);
    if (!estimate.ok()) return Prefixed(estimate.status(), fmt::format("{} on {}", args.step, device));
    v1::DevicePrediction& out = *response.add_devices();
    out.set_device(device);
    if (predictor->profile() != nullptr) out.mutable_profile()->set_id(predictor->profile()->id);
    wire::Encode(*estimate, question.overhead.Of(question.step.tokens()), *out.mutable_steps()->add_steps());
    out.mutable_steps()->mutable_warnings()->Assign((*model)->warnings().begin(), (*model)->warnings().end());
  }
  return response;
}

absl::StatusOr<v1::PredictResponse> AskServer(const PredictStepArgs& args, const StepQuestion& question,
                                              const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(RemoteEngines remote, OpenRemote(args.model.model, globals));
  v1::PredictRequest request;
  for (const std::string& device : args.devices) request.add_devices()->set_slug(device);
  *request.mutable_options() = wire::Encode(question.options);
  v1::StepWork& work = *request.mutable_steps();
  work.set_model(remote.model);
  *work.mutable_deployment() = wire::Encode(question.deployment);
  *work.mutable_overhead() = wire::Encode(question.overhead);
  *work.add_steps() = wire::Encode(question.step);
  return remote.client.Predict(request);
}

// The largest share first.
std::vector<std::pair<std::string, double>> BreakdownOf(const v1::StepPrediction& step) {
  std::vector<std::pair<std::string, double>> parts(step.breakdown_us().begin(), step.breakdown_us().end());
  std::ranges::sort(parts, [](const auto& a, const auto& b) {
    return std::pair(-a.second, a.first) < std::pair(-b.second, b.first);
  });
  return parts;
}

nlohmann::json ToJson(const v1::DevicePrediction& device) {
  const v1::StepPrediction& step = device.steps().steps(0);
  const v1::Quantiles& us = step.latency_us();
  return {{"device", device.device()},
          {"profile", {{"id", device.profile().id()}, {"version", device.profile().version()}}},
          {"latency_us", {{"p50", us.p50()}, {"p90", us.p90()}, {"p99", us.p99()}}},
          {"breakdown_us", std::map(step.breakdown_us().begin(), step.breakdown_us().end())},
          {"provenance", std::map(step.provenance().begin(), step.provenance().end())},
          {"correction", step.correction()},
          {"warnings", std::vector(device.steps().warnings().begin(), device.steps().warnings().end())}};
}

void Print(const v1::PredictResponse& response) {
  terminal::TextTable table({"device", "p50", "p90", "p99", "spent on", "profile"});
  for (const v1::DevicePrediction& device : response.devices()) {
    const v1::StepPrediction& step = device.steps().steps(0);
    const v1::Quantiles& us = step.latency_us();
    std::vector<std::string> parts;
    for (const auto& [what, part_us] : BreakdownOf(step)) {
      parts.push_back(fmt::format("{} {:.0f}%", what, 100 * part_us / us.p50()));
    }
    table.Add({device.device(), terminal::FormatUs(us.p50()), terminal::FormatUs(us.p90()),
               terminal::FormatUs(us.p99()), fmt::format("{}", fmt::join(parts, ", ")),
               device.profile().id().empty() ? "none" : device.profile().id().substr(0, 8)});
  }
  fmt::print("{}", table.Render());
  if (response.devices_size() == 0) return;
  for (const std::string& warning : response.devices(0).steps().warnings()) fmt::print("note: {}\n", warning);
}

}  // namespace

absl::Status PredictStep(const PredictStepArgs& args, const Globals& globals) {
  StepQuestion question;
  question.deployment.ranks = args.ranks;
  question.deployment.expert_imbalance = args.expert_imbalance;
  GPUETA_ASSIGN_OR_RETURN(question.deployment.dtype, OptionalDType("--dtype", args.dtype));
  GPUETA_ASSIGN_OR_RETURN(question.deployment.kv_dtype, OptionalDType("--kv-dtype", args.kv_dtype));
  GPUETA_ASSIGN_OR_RETURN(question.overhead, OverheadOf(args.model));
  question.options.estimator = args.estimator;
  GPUETA_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(args.step));
  absl::StatusOr<EngineStep> step = ParseEngineStep(text);
  if (!step.ok()) return Prefixed(step.status(), args.step);
  question.step = *std::move(step);
  GPUETA_ASSIGN_OR_RETURN(const v1::PredictResponse response, globals.server.empty()
                                                                  ? AskInProcess(args, question, globals)
                                                                  : AskServer(args, question, globals));
  if (!globals.json) {
    Print(response);
    return absl::OkStatus();
  }
  nlohmann::json devices = nlohmann::json::array();
  for (const v1::DevicePrediction& device : response.devices()) devices.push_back(ToJson(device));
  fmt::print("{}\n", nlohmann::json{{"model", args.model.model}, {"devices", devices}}.dump(2));
  return absl::OkStatus();
}

}  // namespace gpueta::cli
