#include "client/cli/predict_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "client/cli/ask.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kShownParts = 20;  // of the table for people; --explain shows all
constexpr int kShareBarWidth = 20;

absl::StatusOr<ExecutionMode> ParseMode(const std::string& mode) {
  if (mode == "eager" || mode == "compiled") return ExecutionMode::kEager;  // the host still issues each kernel
  if (mode == "graph") return ExecutionMode::kGraph;
  return InvalidArgument("--mode: \"{}\" is not one of eager, graph, compiled", mode);
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
               fmt::format("{:.3g} MB", static_cast<double>(answer.estimate.memory_bytes) / 1e6),
               ProvenanceText(answer.estimate), answer.profile_id.empty() ? "none" : answer.profile_id.substr(0, 8)});
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
  const auto weight = [](const GraphPart* part) {
    return static_cast<double>(part->count) * part->estimate.latency_us.p50;
  };
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const GraphPart* a, const GraphPart* b) { return weight(a) > weight(b); });
  terminal::TextTable table({"share", "", "count", "p50 each", "p90 each", "bound", "rests on", "form", "kernel"});
  const std::size_t shown = all ? parts.size() : std::min(parts.size(), kShownParts);
  for (std::size_t i = 0; i < shown; ++i) {
    const GraphPart& part = *parts[i];
    const double share = weight(&part) / sum;
    table.Add({terminal::FormatPercent(share),
               std::string(static_cast<std::size_t>(std::lround(share * kShareBarWidth)), '#'),
               std::to_string(part.count), terminal::FormatUs(part.estimate.latency_us.p50),
               terminal::FormatUs(part.estimate.latency_us.p90), std::string(Name(part.estimate.bound)),
               std::string(Name(part.estimate.provenance)), std::string(part.estimate.estimator),
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
      fmt::print("{},\"{}\",{},{},{},{:.6g},{:.6g},{:.6g},{},{},{}\n", answer.device, part.kernel.name,
                 Name(part.kernel.op()), Describe(part.kernel), part.count, q.p50, q.p90, q.p99,
                 Name(part.estimate.bound), Name(part.estimate.provenance), part.estimate.estimator);
    }
  }
}

}  // namespace

absl::Status PredictModel(const PredictModelArgs& args, const Globals& globals) {
  EstimateOptions options;
  options.estimator = args.estimator;
  GPUETA_ASSIGN_OR_RETURN(options.mode, ParseMode(args.run.mode));
  ModelQuestion question{.model = args.model,
                         .profile_paths = args.profile_paths,
                         .devices = args.devices,
                         .dims = args.dims,
                         .run = args.run,
                         .spec = args.spec,
                         .options = options};
  GPUETA_ASSIGN_OR_RETURN(const std::vector<DeviceAnswer> answers, Ask(question, globals));
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
  std::set<std::string> said;
  for (const DeviceAnswer& answer : answers) {
    for (const std::string& warning : answer.estimate.warnings) {
      if (said.insert(warning).second) fmt::print("note: {}\n", warning);
    }
  }
  return absl::OkStatus();
}

}  // namespace gpueta::cli
