#include "client/cli/predict_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "client/cli/json.h"
#include "client/report/chrome_trace.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/printable.h"
#include "core/base/whole_file.h"
#include "core/predict/shares.h"
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
  for (std::size_t i = 0; i < e.parts.size(); ++i) {
    const GraphPart& part = e.parts[i];
    kernels.push_back({{"name", part.kernel.name},
                       {"op", Name(part.kernel.op())},
                       {"work", Describe(part.kernel)},
                       {"count", part.count},
                       {"hidden", part.hidden},
                       {"latency_us", ToJson(part.estimate.latency_us)},
                       {"bound", Name(part.estimate.bound)},
                       {"provenance", Name(part.estimate.provenance)}});
    const KernelRun run = i < answer.runs.size() ? answer.runs[i] : KernelRun{};
    if (!run.configuration.empty()) kernels.back()["configuration"] = run.configuration;
    if (run.waves > 0) kernels.back()["waves"] = run.waves;
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

// Cells of a line behind its share and bar.
using Cells = std::vector<std::string>;

// Lines with their share of a total, and a bar of it.
class ShareTable {
 public:
  ShareTable(double total_us, Cells header) : total_us_(total_us), table_(WithShare("share", "", std::move(header))) {}
  void Add(double us, Cells cells) {
    const double share = us / total_us_;
    table_.Add(WithShare(terminal::FormatPercent(share),
                         std::string(static_cast<std::size_t>(std::lround(share * kShareBarWidth)), '#'),
                         std::move(cells)));
  }
  void AddSigned(double us, Cells cells) {
    table_.Add(WithShare(fmt::format("{:+.1f}%", 100 * us / total_us_), "", std::move(cells)));
  }
  std::string Render() const { return table_.Render(); }

 private:
  static Cells WithShare(std::string share, std::string bar, Cells cells) {
    cells.insert(cells.begin(), {std::move(share), std::move(bar)});
    return cells;
  }
  double total_us_;
  terminal::TextTable table_;
};

std::string CountText(std::int64_t count, std::int64_t hidden) {
  return hidden > 0 ? fmt::format("{} ({} hidden)", count, hidden) : std::to_string(count);
}

// What the total has besides kernels. `cells` makes a line's, of its count, its
// time each, its bound and its name.
void AddRest(
    const GraphEstimate& estimate,
    const std::function<Cells(std::string count, std::string each, std::string bound, std::string name)>& cells,
    ShareTable& table) {
  const Breakdown breakdown = BreakdownOf(estimate);
  if (breakdown.start > 0) table.Add(breakdown.start, cells("", "", "launch", "start of the step, copy of its inputs"));
  if (breakdown.gaps > 0) {
    const std::int64_t launches = LaunchesOf(estimate);
    table.Add(breakdown.gaps,
              cells(std::to_string(launches), terminal::FormatUs(breakdown.gaps / static_cast<double>(launches)), "",
                    "gaps between kernels"));
  }
  if (breakdown.waiting > 0) table.Add(breakdown.waiting, cells("", "", "launch", "the device waits for the host"));
  if (breakdown.correction != 0)
    table.AddSigned(breakdown.correction, cells("", "", "", "correction by what was observed of models"));
}

// The heaviest kernels first, with their share of the total; the lines of a
// full table add up to it. All of them with how they run, where that is known.
void PrintParts(const DeviceAnswer& answer, bool all) {
  const GraphEstimate& estimate = answer.estimate;
  std::vector<std::size_t> order(estimate.parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return estimate.parts[i].ExposedUs(); });
  const bool runs = all && std::ranges::any_of(answer.runs, [](const KernelRun& run) {
                      return run.waves > 0 || !run.configuration.empty();
                    });
  // Everything but the share, in one order.
  const auto cells = [&](Cells known, Cells quantiles, Cells how, Cells run, std::string kernel) {
    known.insert(known.end(), quantiles.begin(), quantiles.begin() + (all ? 3 : 2));
    known.insert(known.end(), how.begin(), how.end());
    if (runs) known.insert(known.end(), run.begin(), run.end());
    known.push_back(std::move(kernel));
    return known;
  };
  ShareTable table(estimate.latency_us.p50, cells({"count"}, {"p50 each", "p90 each", "p99 each"},
                                                  {"bound", "rests on", "form"}, {"waves", "configuration"}, "kernel"));
  const std::size_t shown = all ? order.size() : std::min(order.size(), kShownParts);
  for (std::size_t i = 0; i < shown; ++i) {
    const GraphPart& part = estimate.parts[order[i]];
    const Estimate& of = part.estimate;
    const KernelRun run = order[i] < answer.runs.size() ? answer.runs[order[i]] : KernelRun{};
    table.Add(part.ExposedUs(),
              cells({CountText(part.count, part.hidden)},
                    {terminal::FormatUs(of.latency_us.p50), terminal::FormatUs(of.latency_us.p90),
                     terminal::FormatUs(of.latency_us.p99)},
                    {std::string(Name(of.bound)), std::string(Name(of.provenance)), std::string(of.estimator)},
                    {run.waves > 0 ? fmt::format("{:.0f}", run.waves) : "", run.configuration}, Describe(part.kernel)));
  }
  AddRest(
      estimate,
      [&](std::string count, std::string each, std::string bound, std::string name) {
        return cells({std::move(count)}, {std::move(each), "", ""}, {std::move(bound), "", ""}, {"", ""},
                     std::move(name));
      },
      table);
  fmt::print("\n{}\n{}", answer.device, table.Render());
  if (shown < order.size()) fmt::print("… and {} more kinds of kernels; --explain shows all\n", order.size() - shown);
}

constexpr std::string_view kByKernel = "kernel", kByKind = "kind", kByLayer = "layer";

// In the order of first occurrence, of layers that in which they run.
absl::StatusOr<std::vector<TimeShare>> SharesBy(const std::string& by, const OpenModel& model, const SymbolValues& dims,
                                                const DeviceAnswer& answer) {
  if (by == kByKind) return SharesByKind(answer.estimate);
  GPUETA_ASSIGN_OR_RETURN(const BoundGraph bound, model.Bound(answer.spec, dims));
  return SharesByLayer(bound.graph, bound.kernels, answer.estimate);
}

// Kinds by weight, layers in the order in which they run. Unless all are asked
// for, the lightest are left out.
void PrintShares(const DeviceAnswer& answer, const std::string& by, const std::vector<TimeShare>& shares, bool all) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return shares[i].us; });
  if (!all && order.size() > kShownParts) order.resize(kShownParts);
  if (by == kByLayer) std::ranges::sort(order);
  ShareTable table(answer.estimate.latency_us.p50, {"count", "p50", "bound", by});
  for (const std::size_t i : order) {
    const TimeShare& share = shares[i];
    table.Add(share.us, {CountText(share.count, share.hidden), terminal::FormatUs(share.us),
                         std::string(Name(share.bound)), share.name});
  }
  AddRest(
      answer.estimate,
      [](std::string count, const std::string&, std::string bound, std::string name) {
        return Cells{std::move(count), "", std::move(bound), std::move(name)};
      },
      table);
  fmt::print("\n{}\n{}", answer.device, table.Render());
  if (order.size() < shares.size()) fmt::print("… and {} more; --explain shows all\n", shares.size() - order.size());
}

nlohmann::json ToJson(const std::vector<TimeShare>& shares, const GraphEstimate& estimate) {
  nlohmann::json lines = nlohmann::json::array();
  for (const TimeShare& share : shares) {
    lines.push_back({{"name", share.name},
                     {"count", share.count},
                     {"hidden", share.hidden},
                     {"us", share.us},
                     {"share", share.us / estimate.latency_us.p50},
                     {"bound", Name(share.bound)}});
  }
  return lines;
}

// What the kernels' lines lack of the total.
template <class Print>
void ForEachRest(const GraphEstimate& estimate, const Print& print) {
  const Breakdown breakdown = BreakdownOf(estimate);
  for (const auto& [name, us] :
       {std::pair("start", breakdown.start), std::pair("gaps", breakdown.gaps),
        std::pair("waiting for host", breakdown.waiting), std::pair("correction", breakdown.correction)}) {
    if (us != 0) print(name, us);
  }
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
    ForEachRest(answer.estimate, [&](const char* name, double us) {
      fmt::print("{0},\"{1}\",,,1,{2:.6g},{2:.6g},{2:.6g},,,\n", answer.device, name, us);
    });
  }
}

void PrintCsv(const std::vector<DeviceAnswer>& answers, const std::string& by,
              const std::vector<std::vector<TimeShare>>& shares) {
  fmt::print("device,{},count,p50_us,bound\n", by);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    for (const TimeShare& share : shares[i]) {
      fmt::print("{},\"{}\",{},{:.6g},{}\n", answers[i].device, share.name, share.count, share.us, Name(share.bound));
    }
    ForEachRest(answers[i].estimate,
                [&](const char* name, double us) { fmt::print("{},\"{}\",1,{:.6g},\n", answers[i].device, name, us); });
  }
}

// Of the graph as each device runs it; of a registered model, whose graph is not
// known here, none.
absl::StatusOr<std::vector<std::vector<std::string>>> PassesOf(const OpenModel& model, const SymbolValues& dims,
                                                               const std::vector<DeviceAnswer>& answers) {
  std::vector<std::vector<std::string>> passes;
  for (const DeviceAnswer& answer : answers) {
    if (model.is_registered()) {
      passes.emplace_back();
      continue;
    }
    GPUETA_ASSIGN_OR_RETURN(const BoundGraph bound, model.Bound(answer.spec, dims));
    passes.push_back(bound.graph.passes);
  }
  return passes;
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
  if (args.by != kByKernel && args.by != kByKind && args.by != kByLayer)
    return InvalidArgument("--by: \"{}\" is not one of kernel, kind, layer", args.by);
  GPUETA_ASSIGN_OR_RETURN(const OpenModel model, OpenModel::Open(args.question, globals));
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, model.Dims());
  GPUETA_ASSIGN_OR_RETURN(const std::vector<DeviceAnswer> answers, model.Ask(args.question.devices, dims));
  if (!args.trace.empty()) {
    GPUETA_RETURN_IF_ERROR(WriteTrace(args.trace, model, dims, answers));
  }
  const bool grouped = args.by != kByKernel;
  std::vector<std::vector<TimeShare>> shares;
  for (const DeviceAnswer& answer : answers) {
    if (!grouped) break;
    GPUETA_ASSIGN_OR_RETURN(shares.emplace_back(), SharesBy(args.by, model, dims, answer));
  }
  std::vector<std::vector<std::string>> passes;  // shown with --explain
  if (args.explain) {
    GPUETA_ASSIGN_OR_RETURN(passes, PassesOf(model, dims, answers));
  }
  if (globals.json) {
    nlohmann::json devices = nlohmann::json::array();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      devices.push_back(ToJson(answers[i]));
      if (grouped) devices.back()[args.by + "s"] = ToJson(shares[i], answers[i].estimate);
    }
    nlohmann::json out = {{"model", args.question.model}, {"devices", devices}};
    if (args.explain) out["passes"] = model.graph().passes;
    for (std::size_t i = 0; i < passes.size(); ++i) out["devices"][i]["passes"] = passes[i];
    fmt::print("{}\n", Dump(out));
    return absl::OkStatus();
  }
  if (args.csv) {
    grouped ? PrintCsv(answers, args.by, shares) : PrintCsv(answers);
    return absl::OkStatus();
  }
  PrintTotals(answers);
  for (const std::string& pass : args.explain ? model.graph().passes : std::vector<std::string>{})
    fmt::print("pass {}\n", pass);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    for (std::size_t own = model.graph().passes.size(); own < passes[i].size(); ++own)
      fmt::print("pass {} on {}\n", passes[i][own], answers[i].device);
  }
  if (answers.size() == 1 || args.explain) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const DeviceAnswer& answer = answers[i];
      if (grouped) {
        PrintShares(answer, args.by, shares[i], args.explain);
      } else {
        PrintParts(answer, args.explain);
      }
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
