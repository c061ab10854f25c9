#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/serving_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/serving/admit_json.h"
#include "core/wire/serving_codec.h"

namespace gpueta::cli {
namespace {

struct AdmitArgs {
  ServingModel model;
  std::string state;
};

absl::StatusOr<AdmitQuestion> ReadQuestion(const AdmitArgs& args) {
  GPUETA_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(args.state));
  absl::StatusOr<AdmitQuestion> question = ParseAdmitQuestion(text);
  if (!question.ok()) return Prefixed(question.status(), args.state);
  GPUETA_ASSIGN_OR_RETURN(const EngineOverhead overhead, OverheadOf(args.model));
  for (EngineSetup& setup : *question->fleet.engines) {
    setup.overhead = overhead;
    setup.memory_share = args.model.memory_share;
  }
  return question;
}

absl::StatusOr<v1::Admission> AskInProcess(const AdmitArgs& args, AdmitQuestion question, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(LocalEngines engines,
                          LocalEngines::Open(args.model.model, args.model.profile_paths, globals));
  Fleet fleet;
  if (const absl::Status status = fleet.Apply(std::move(question.fleet)); !status.ok()) {
    return Prefixed(status, args.state);
  }
  const auto admission = fleet.Judge(question.candidate, [&](std::size_t e, std::int64_t longest) {
    return engines.Serve(question.devices[e], fleet.engines()[e], longest);
  });
  if (!admission.ok()) return Prefixed(InField("candidate", admission.status()), args.state);
  v1::Admission message;
  wire::Encode(*admission, message);
  return message;
}

absl::StatusOr<v1::Admission> AskServer(const AdmitArgs& args, const AdmitQuestion& question, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(RemoteEngines remote, OpenRemote(args.model.model, globals));
  v1::AdmitRequest request;
  for (std::size_t e = 0; e < question.devices.size(); ++e) {
    v1::EngineKind& engine = *request.add_engines();
    engine.set_model(remote.model);
    engine.mutable_device()->set_slug(question.devices[e]);
    wire::Encode((*question.fleet.engines)[e], engine);
  }
  for (const DescribedReplica& described : question.fleet.replicas) *request.add_replicas() = wire::Encode(described);
  *request.add_candidates() = wire::Encode(question.candidate);
  *request.mutable_limits() = wire::Encode(*question.fleet.limits);
  const auto response = remote.client.Admit(request);
  if (!response.ok()) return Prefixed(response.status(), args.state);
  return response->admissions(0);
}

nlohmann::json Finite(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); }
nlohmann::json Named(const std::string& name) { return name.empty() ? nlohmann::json(nullptr) : nlohmann::json(name); }

void PrintJson(const v1::Admission& admission) {
  nlohmann::json entries = nlohmann::json::array();
  for (const v1::ReplicaDecision& d : admission.replicas()) {
    entries.push_back({{"name", d.replica()},
                       {"admit", d.admit()},
                       {"ttft_us", Finite(d.ttft_us())},
                       {"tpot_us", Finite(d.tpot_us())},
                       {"e2e_us", Finite(d.e2e_us())},
                       {"margin", Finite(d.margin())},
                       {"binds", d.binds()}});
  }
  fmt::print("{}\n", nlohmann::json{{"replicas", entries},
                                    {"recommended", Named(admission.recommended())},
                                    {"recommended_prefill", Named(admission.recommended_prefill())}}
                         .dump(2));
}

void PrintTable(const v1::Admission& admission) {
  const auto shown = [](double us) { return std::isfinite(us) ? terminal::FormatUs(us) : std::string("never"); };
  terminal::TextTable table({"replica", "admits", "TTFT", "TPOT", "end to end", "margin", "bound by", ""});
  for (const v1::ReplicaDecision& d : admission.replicas()) {
    const bool chosen = d.replica() == admission.recommended() || d.replica() == admission.recommended_prefill();
    table.Add({d.replica(), d.admit() ? "yes" : "no", shown(d.ttft_us()), shown(d.tpot_us()), shown(d.e2e_us()),
               std::isfinite(d.margin()) ? fmt::format("{:+.0f}%", 100 * d.margin()) : "–", d.binds(),
               chosen ? "recommended" : ""});
  }
  fmt::print("{}", table.Render());
}

absl::Status AskAdmit(const AdmitArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(AdmitQuestion question, ReadQuestion(args));
  GPUETA_ASSIGN_OR_RETURN(const v1::Admission admission, globals.server.empty()
                                                             ? AskInProcess(args, std::move(question), globals)
                                                             : AskServer(args, question, globals));
  if (globals.json) {
    PrintJson(admission);
  } else {
    PrintTable(admission);
  }
  return absl::OkStatus();
}

}  // namespace

void AddAdmit(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<AdmitArgs>();
  CLI::App* command = app.add_subcommand("admit", "Will this request meet its limits, and on which replica?");
  AddModelOptions(*command, args->model);
  command->add_option("--state", args->state, "JSON with replicas, candidate and limits")
      ->required()
      ->check(CLI::ExistingFile);
  command->callback([args, &globals, &chosen] { chosen = [args, &globals] { return AskAdmit(*args, globals); }; });
}

}  // namespace gpueta::cli
