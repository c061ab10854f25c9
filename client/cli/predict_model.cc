#include "client/cli/predict_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "client/cli/json.h"
#include "client/report/chrome_trace.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/printable.h"
#include "core/base/whole_file.h"
#include "core/predict/timeline.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kShownParts = 20;  // of the table for people; --explain shows all
constexpr int kShareBarWidth = 20;

nlohmann::json ToJson(const Quantiles& q) { return {{"p50", q.p50}, {"p90", q.p90}, {"p99", q.p99}}; }

// What the p50 of a graph adds up from.
struct Breakdown {
  double start = 0;  // entering the step, copying its inputs
  double kernels = 0;
  double gaps = 0;     // between kernels of a replayed graph
  double waiting = 0;  // of the device for the host
  double correction = 0;
};

Breakdown BreakdownOf(const GraphEstimate& e) {
  const double uncorrected = e.latency_us.p50 / e.correction;
  const GraphTime& time = e.time;
  return {time.start_us, time.kernels_us, time.gaps_us,
          std::max(uncorrected - time.start_us - time.kernels_us - time.gaps_us, 0.0), e.latency_us.p50 - uncorrected};
}

nlohmann::json ToJson(const Breakdown& b) {
  return {{"start", b.start},
          {"kernels", b.kernels},
          {"gaps", b.gaps},
          {"waiting_for_host", b.waiting},
          {"correction", b.correction}};
}

std::int64_t LaunchesOf(const GraphEstimate& e) {
  std::int64_t launches = 0;
  for (const GraphPart& part : e.parts) launches += part.count;
  return launches;
}

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
                       {"hidden", part.hidden},
                       {"latency_us", ToJson(part.estimate.latency_us)},
                       {"bound", Name(part.estimate.bound)},
                       {"provenance", Name(part.estimate.provenance)}});
  }
  return {{"device", answer.device},
          {"profile", {{"id", answer.profile_id}, {"version", answer.profile_version}}},
          {"latency_us", ToJson(e.latency_us)},
          {"breakdown_us", ToJson(BreakdownOf(e))},
          {"provenance", provenance},
          {"correction", e.correction},
          {"estimator", e.estimator},
          {"kernels", kernels},
          {"memory_bytes", e.memory_bytes},
          {"relatives", answer.relatives},
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
               terminal::FormatBytes(static_cast<double>(answer.estimate.memory_bytes)),
               ProvenanceText(answer.estimate), answer.profile_id.empty() ? "none" : answer.profile_id.substr(0, 8)});
  }
  fmt::print("{}", table.Render());
}

// The heaviest kernels first, with their share of the total; the lines of a
// full table add up to it.
void PrintParts(const DeviceAnswer& answer, bool all) {
  const GraphEstimate& estimate = answer.estimate;
  const auto weight = [](const GraphPart* part) { return part->ExposedUs(); };
  std::vector<const GraphPart*> parts;
  for (const GraphPart& part : estimate.parts) parts.push_back(&part);
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const GraphPart* a, const GraphPart* b) { return weight(a) > weight(b); });
  const Breakdown breakdown = BreakdownOf(estimate);
  terminal::TextTable table({"share", "", "count", "p50 each", "p90 each", "bound", "rests on", "form", "kernel"});
  const auto add = [&](double us, std::vector<std::string> cells) {
    const double share = us / estimate.latency_us.p50;
    cells.insert(cells.begin(), {terminal::FormatPercent(share),
                                 std::string(static_cast<std::size_t>(std::lround(share * kShareBarWidth)), '#')});
    table.Add(std::move(cells));
  };
  const std::size_t shown = all ? parts.size() : std::min(parts.size(), kShownParts);
  for (std::size_t i = 0; i < shown; ++i) {
    const GraphPart& part = *parts[i];
    add(weight(&part),
        {part.hidden > 0 ? fmt::format("{} ({} hidden)", part.count, part.hidden) : std::to_string(part.count),
         terminal::FormatUs(part.estimate.latency_us.p50), terminal::FormatUs(part.estimate.latency_us.p90),
         std::string(Name(part.estimate.bound)), std::string(Name(part.estimate.provenance)),
         std::string(part.estimate.estimator), Describe(part.kernel)});
  }
  if (breakdown.start > 0)
    add(breakdown.start, {"", "", "", "launch", "", "", "start of the step, copy of its inputs"});
  if (breakdown.gaps > 0) {
    const std::int64_t launches = LaunchesOf(estimate);
    add(breakdown.gaps, {std::to_string(launches), terminal::FormatUs(breakdown.gaps / static_cast<double>(launches)),
                         "", "", "", "", "gaps between kernels"});
  }
  if (breakdown.waiting > 0) add(breakdown.waiting, {"", "", "", "launch", "", "", "the device waits for the host"});
  if (breakdown.correction != 0) {
    table.Add({fmt::format("{:+.1f}%", 100 * breakdown.correction / estimate.latency_us.p50), "", "", "", "", "", "",
               "", "correction by what was observed of models"});
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
    // What the kernels' lines lack of the total.
    const Breakdown breakdown = BreakdownOf(answer.estimate);
    for (const auto& [name, us] :
         {std::pair("start", breakdown.start), std::pair("gaps", breakdown.gaps),
          std::pair("waiting for host", breakdown.waiting), std::pair("correction", breakdown.correction)}) {
      if (us != 0) fmt::print("{0},\"{1}\",,,1,{2:.6g},{2:.6g},{2:.6g},,,\n", answer.device, name, us);
    }
  }
}

absl::Status WriteTrace(const std::string& path, const OpenModel& model, const SymbolValues& dims,
                        const std::vector<DeviceAnswer>& answers) {
  std::vector<BoundGraph> bound;
  std::vector<Timeline> timelines;
  for (const DeviceAnswer& answer : answers) {
    GPUETA_ASSIGN_OR_RETURN(bound.emplace_back(), model.Bound(answer.spec, dims));
    GPUETA_ASSIGN_OR_RETURN(timelines.emplace_back(),
                            TimelineOf(bound.back().graph, bound.back().kernels, answer.estimate));
  }
  std::vector<report::TracedDevice> traced;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    traced.push_back({answers[i].device, bound[i].kernels, answers[i].estimate, timelines[i]});
  }
  return WriteWholeFile(path, report::ChromeTrace(traced));
}

}  // namespace

absl::Status PredictModel(const PredictModelArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const OpenModel model, OpenModel::Open(args.question, globals));
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, model.Dims());
  GPUETA_ASSIGN_OR_RETURN(const std::vector<DeviceAnswer> answers, model.Ask(args.question.devices, dims));
  if (!args.trace.empty()) {
    GPUETA_RETURN_IF_ERROR(WriteTrace(args.trace, model, dims, answers));
  }
  if (globals.json) {
    nlohmann::json devices = nlohmann::json::array();
    for (const DeviceAnswer& answer : answers) devices.push_back(ToJson(answer));
    nlohmann::json out = {{"model", args.question.model}, {"devices", devices}};
    if (args.explain) out["passes"] = model.graph().passes;
    fmt::print("{}\n", Dump(out));
    return absl::OkStatus();
  }
  if (args.csv) {
    PrintCsv(answers);
    return absl::OkStatus();
  }
  PrintTotals(answers);
  if (args.explain) {
    for (const std::string& pass : model.graph().passes) fmt::print("pass {}\n", pass);
  }
  if (answers.size() == 1 || args.explain) {
    for (const DeviceAnswer& answer : answers) {
      PrintParts(answer, args.explain);
      if (!args.explain || answer.relatives.empty()) continue;
      fmt::print("relatives of {}, with their weights:\n", answer.device);
      for (const std::string& line : answer.relatives) fmt::print("  {}\n", line);
    }
  }
  std::set<std::string> said;
  for (const DeviceAnswer& answer : answers) {
    for (const std::string& warning : answer.estimate.warnings) {
      if (said.insert(warning).second) fmt::print("note: {}\n", Printable(warning));
    }
  }
  if (!args.trace.empty()) fmt::print("time line written to {}\n", args.trace);
  return absl::OkStatus();
}

}  // namespace gpueta::cli
