#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/inputs.h"
#include "client/cli/serving_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/serving/admit_json.h"

namespace gpueta::cli {
namespace {

struct AdmitArgs {
  ServingModel model;
  std::string state;
};

// The longest sequence that a question may come to.
std::int64_t LongestContext(const AdmitQuestion& question) {
  constexpr std::int64_t kShortest = 8192;
  std::int64_t longest = std::max(kShortest, question.candidate.prompt_tokens);
  for (const DescribedReplica& each : question.replicas) {
    for (const auto* list : {&each.replica.state.running, &each.replica.state.waiting}) {
      for (const Request& request : *list) longest = std::max(longest, request.sequence.known_tokens());
    }
  }
  constexpr std::int64_t kLongest = 1 << 20;
  return std::min(2 * longest, kLongest);
}

// Replicas that are deployed alike share a table.
class Tables {
 public:
  Tables(const AdmitArgs& args, std::string config_json, std::shared_ptr<const Snapshot> snapshot, std::int64_t context)
      : args_(args), config_json_(std::move(config_json)), snapshot_(std::move(snapshot)), context_(context) {}

  absl::StatusOr<const Served*> For(const DescribedReplica& each) {
    const EngineLimits& limits = each.replica.state.limits;
    const std::string key = fmt::format("{} {} {} {} {} {} {} {} {}", each.device, each.deployment.ranks.tensor,
                                        each.deployment.ranks.pipeline, each.deployment.ranks.expert,
                                        each.deployment.dtype.has_value() ? Name(*each.deployment.dtype) : "",
                                        each.deployment.kv_dtype.has_value() ? Name(*each.deployment.kv_dtype) : "",
                                        limits.token_budget, limits.max_sequences, limits.block_tokens);
    std::unique_ptr<Served>& served = tables_[key];
    if (served == nullptr) {
      GPUETA_ASSIGN_OR_RETURN(
          Served made, Serve(args_.model, config_json_, *snapshot_, each.device, each.deployment,
                             {.tokens = limits.token_budget, .sequences = limits.max_sequences, .context = context_},
                             limits.block_tokens));
      served = std::make_unique<Served>(std::move(made));
    }
    return served.get();
  }

 private:
  const AdmitArgs& args_;
  const std::string config_json_;
  const std::shared_ptr<const Snapshot> snapshot_;
  const std::int64_t context_;
  std::map<std::string, std::unique_ptr<Served>> tables_;
};

absl::StatusOr<Replica> Complete(const DescribedReplica& each, Tables& tables) {
  Replica replica = each.replica;
  GPUETA_ASSIGN_OR_RETURN(const Served* served, tables.For(each));
  replica.table = &served->table;
  EngineLimits& limits = replica.state.limits;
  if (limits.kv_blocks == 0) limits.kv_blocks = served->room.blocks;
  if (limits.kv_blocks == 0) return InvalidArgument("the model does not fit into {}'s memory", each.device);
  if (each.metrics.has_value()) {
    const double step_in_flight_us = replica.state.step_in_flight_us;
    GPUETA_ASSIGN_OR_RETURN(replica.state, StateFrom(*each.metrics, limits));
    replica.state.step_in_flight_us = step_in_flight_us;
  }
  return replica;
}

nlohmann::json Finite(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); }

void PrintJson(const std::vector<Replica>& replicas, const AdmitResult& result) {
  nlohmann::json entries = nlohmann::json::array();
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const ReplicaDecision& d = result.replicas[i];
    entries.push_back({{"name", replicas[i].name},
                       {"admit", d.admit},
                       {"ttft_us", Finite(d.ttft_us)},
                       {"tpot_us", Finite(d.tpot_us)},
                       {"e2e_us", Finite(d.e2e_us)},
                       {"margin", Finite(d.margin)},
                       {"binds", d.binds}});
  }
  const auto named = [&](const std::optional<std::size_t>& at) {
    return at.has_value() ? nlohmann::json(replicas[*at].name) : nlohmann::json(nullptr);
  };
  fmt::print("{}\n", nlohmann::json{{"replicas", entries},
                                    {"recommended", named(result.recommended)},
                                    {"recommended_prefill", named(result.recommended_prefill)}}
                         .dump(2));
}

void PrintTable(const std::vector<Replica>& replicas, const AdmitResult& result) {
  const auto shown = [](double us) { return std::isfinite(us) ? terminal::FormatUs(us) : std::string("never"); };
  terminal::TextTable table({"replica", "admits", "TTFT", "TPOT", "end to end", "margin", "bound by", ""});
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const ReplicaDecision& d = result.replicas[i];
    const bool chosen = result.recommended == i || result.recommended_prefill == i;
    table.Add({replicas[i].name, d.admit ? "yes" : "no", shown(d.ttft_us), shown(d.tpot_us), shown(d.e2e_us),
               std::isfinite(d.margin) ? fmt::format("{:+.0f}%", 100 * d.margin) : "–", d.binds,
               chosen ? "recommended" : ""});
  }
  fmt::print("{}", table.Render());
}

absl::Status AskAdmit(const AdmitArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(args.state));
  absl::StatusOr<AdmitQuestion> question = ParseAdmitQuestion(text);
  if (!question.ok()) return Prefixed(question.status(), args.state);
  GPUETA_ASSIGN_OR_RETURN(std::string config, ReadWholeFile(args.model.path));
  GPUETA_ASSIGN_OR_RETURN(auto snapshot, OpenSnapshot(globals, args.model.profile_paths));
  Tables tables(args, std::move(config), std::move(snapshot), LongestContext(*question));
  std::vector<Replica> replicas;
  for (std::size_t i = 0; i < question->replicas.size(); ++i) {
    absl::StatusOr<Replica> replica = Complete(question->replicas[i], tables);
    if (!replica.ok()) return Prefixed(replica.status(), fmt::format("{}: replicas[{}]", args.state, i));
    if (replica->name.empty()) replica->name = fmt::format("replicas[{}]", i);
    replicas.push_back(*std::move(replica));
  }
  const absl::StatusOr<AdmitResult> result = Admit(replicas, question->candidate, question->limits);
  if (!result.ok()) return Prefixed(result.status(), args.state);
  if (globals.json) {
    PrintJson(replicas, *result);
  } else {
    PrintTable(replicas, *result);
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
