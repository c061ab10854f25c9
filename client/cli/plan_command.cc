#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/model_input.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/measurements/copy_lines.h"
#include "core/ops/table_key.h"
#include "core/sampling/sampling.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kGeneratedPerChosen = 20;  // candidates for each row to choose

// Nobody measures more in one go; choosing takes time with the square of it.
constexpr std::size_t kMostRows = 20000;

struct PlanArgs {
  std::string op;
  std::string device;
  std::string dtype;
  std::size_t budget = 0;
  std::string candidates;
  std::vector<std::string> measured;
  std::vector<std::string> workload;
  std::string lines;
  std::string spec;
  std::string out;

  bool on_lines() const { return !workload.empty() || !lines.empty(); }
};

// What was chosen, ready to write.
struct Planned {
  std::string csv;
  std::size_t count = 0;
  std::vector<Expectation> expected;
};

absl::StatusOr<ActiveChoice> Choose(const PlanArgs& args, const std::vector<Measurement>& candidates,
                                    const std::vector<Measurement>& measured, std::uint64_t seed) {
  if (measured.empty()) {
    ActiveChoice choice;
    GPUETA_ASSIGN_OR_RETURN(choice.rows, ChooseSpaceFilling(candidates, measured, args.budget, seed));
    return choice;
  }
  GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, ReadSpec(args.device, args.spec));
  return ChooseActive(candidates, measured, spec, args.budget, seed);
}

// The lines of the models and the file; none: everything is asked for.
absl::StatusOr<std::vector<Line>> LinesAskedFor(const PlanArgs& args, Op op) {
  std::vector<Line> lines;
  for (const std::string& path : args.workload) {
    GPUETA_ASSIGN_OR_RETURN(const Graph graph, ReadModel(path));
    const std::vector<Line> of_model = LinesOf(graph, op);
    lines.insert(lines.end(), of_model.begin(), of_model.end());
  }
  if (!args.workload.empty() && lines.empty())
    return InvalidArgument("--workload: no {} in {}", Name(op), fmt::join(args.workload, ", "));
  if (!args.lines.empty()) {
    std::ifstream in(args.lines, std::ios::binary);
    GPUETA_ASSIGN_OR_RETURN(const std::vector<Line> of_file, ReadLines(in, args.lines, op, args.device));
    lines.insert(lines.end(), of_file.begin(), of_file.end());
  }
  return lines;
}

absl::StatusOr<Planned> ChooseFromFile(const PlanArgs& args, Op op, const std::vector<Line>& lines,
                                       const std::vector<Measurement>& measured, std::uint64_t seed) {
  GPUETA_ASSIGN_OR_RETURN(std::vector<Measurement> rows,
                          ReadMeasurementFile(args.candidates, {.ignore_latency = true}));
  for (const Measurement& row : rows) {
    if (row.kernel.op() != op)
      return InvalidArgument("{}: holds {} rows, but --op is {}", args.candidates, Name(row.kernel.op()), args.op);
  }
  if (!lines.empty()) {
    std::vector<Measurement> on;
    for (std::size_t i : RowsOn(lines, rows)) on.push_back(std::move(rows[i]));
    if (on.empty()) {
      return InvalidArgument(
          "{}: none of its rows is on the {} lines asked for; without --candidates shapes on them "
          "are generated",
          args.candidates, lines.size());
    }
    rows = std::move(on);
  }
  GPUETA_ASSIGN_OR_RETURN(ActiveChoice choice, Choose(args, rows, measured, seed));
  std::vector<std::int64_t> chosen;
  for (std::size_t i : choice.rows) chosen.push_back(rows[i].line);
  std::ifstream in(args.candidates, std::ios::binary);
  std::ostringstream out;
  GPUETA_RETURN_IF_ERROR(CopyLines(in, chosen, out));
  return Planned{out.str(), chosen.size(), std::move(choice.expected)};
}

absl::StatusOr<Planned> Generate(const PlanArgs& args, Op op, const std::vector<Line>& lines,
                                 const std::vector<Measurement>& measured, std::uint64_t seed) {
  std::vector<Line> on = lines;
  if (on.empty()) on.push_back({.op = op});
  DType dtype = DType::kFp32;
  if (!args.dtype.empty()) {
    const auto parsed = ParseDType(args.dtype);
    if (!parsed.has_value()) return InvalidArgument("--dtype: \"{}\" is not a known dtype", args.dtype);
    dtype = *parsed;
    for (Line& line : on) line.dtype = dtype;
  }
  // Without a data sheet the shapes are as good, but for the edges.
  const absl::StatusOr<DeviceSpec> spec = ReadSpec(args.device, args.spec);
  if (!spec.ok() && !args.spec.empty()) return spec.status();
  GPUETA_ASSIGN_OR_RETURN(
      const std::vector<Kernel> kernels,
      GenerateShapesOn(on, dtype, args.budget * kGeneratedPerChosen, seed, spec.ok() ? &*spec : nullptr));
  std::vector<Measurement> rows;
  std::set<std::pair<TableKey, std::uint32_t>> seen;  // lines with few free dims repeat themselves
  for (const Kernel& kernel : kernels) {
    if (!seen.emplace(KeyOf(kernel, Timing::kKernel), HashOf(kernel)).second) continue;
    rows.push_back({.device = args.device, .source = "generated", .timing = Timing::kKernel, .kernel = kernel});
  }
  GPUETA_ASSIGN_OR_RETURN(ActiveChoice choice, Choose(args, rows, measured, seed));
  std::vector<Measurement> picked;
  for (std::size_t i : choice.rows) picked.push_back(rows[i]);
  std::ostringstream out;
  // A plan of no rows has a header, too.
  GPUETA_RETURN_IF_ERROR(WriteMeasurements(out, picked.empty() ? rows : picked));
  std::string csv = out.str();
  if (picked.empty()) csv.resize(csv.find('\n') + 1);
  return Planned{std::move(csv), picked.size(), std::move(choice.expected)};
}

void PrintJson(const PlanArgs& args, const Planned& planned, std::size_t lines) {
  nlohmann::json json = {{"chosen", planned.count}, {"path", args.out}};
  if (args.on_lines()) json["lines"] = lines;
  for (const Expectation& table : planned.expected) {
    json["tables"].push_back({{"table", Describe(table.key)},
                              {"measured", table.measured},
                              {"chosen", table.chosen},
                              {"noise", table.noise_ln},
                              {"model_error_before", table.before_ln},
                              {"model_error_after", table.after_ln},
                              {"settled", table.settled}});
  }
  fmt::print("{}\n", json.dump());
}

void PrintText(const PlanArgs& args, const Planned& planned, std::size_t lines) {
  fmt::print("{} rows to measure written to {}", planned.count, args.out);
  if (args.on_lines()) fmt::print(" (on {} lines)", lines);
  fmt::print("\n");
  if (planned.count == 0 && planned.expected.empty()) fmt::print("every candidate is measured already\n");
  for (const Expectation& table : planned.expected) {
    fmt::print(
        "{}: with {} more than the {} measured the model's own error is expected to fall from {:.1f} to {:.1f} %; "
        "noise {:.1f} %\n",
        Describe(table.key), table.chosen, table.measured, 100 * table.before_ln, 100 * table.after_ln,
        100 * table.noise_ln);
    if (table.settled) {
      fmt::print("  stopped below the budget: what the model does not know is small against the noise\n");
    }
  }
}

absl::Status Plan(const PlanArgs& args, const Globals& globals) {
  const auto op = ParseOp(args.op);
  if (!op.has_value())
    return InvalidArgument("--op: \"{}\" is not one of gemm, conv2d, attention, moe, vector, collective, custom",
                           args.op);
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> measured, ReadMeasurementFilesOf(args.measured, args.device));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Line> lines, LinesAskedFor(args, *op));
  GPUETA_ASSIGN_OR_RETURN(const Planned planned, args.candidates.empty()
                                                     ? Generate(args, *op, lines, measured, globals.seed)
                                                     : ChooseFromFile(args, *op, lines, measured, globals.seed));
  GPUETA_RETURN_IF_ERROR(WriteWholeFile(args.out, planned.csv));
  globals.json ? PrintJson(args, planned, lines.size()) : PrintText(args, planned, lines.size());
  return absl::OkStatus();
}

}  // namespace

void AddPlan(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<PlanArgs>();
  CLI::App* plan = app.add_subcommand("plan", "Choose which kernels to measure next");
  plan->add_option("--op", args->op, "gemm, conv2d, attention, moe, vector, collective or custom")->required();
  plan->add_option("--device", args->device, "Slug of the device")->required();
  plan->add_option("--budget", args->budget, "How many rows to choose")
      ->required()
      ->check(CLI::Range(std::size_t{1}, kMostRows));
  plan->add_option("--candidates", args->candidates,
                   "CSV to choose from; a latency column is ignored (default: generated shapes)")
      ->check(CLI::ExistingFile);
  plan->add_option("--workload", args->workload,
                   "Models (.onnx, config.json or graph files): only shapes on the lines they run on are chosen")
      ->check(CLI::ExistingFile);
  plan->add_option("--lines", args->lines,
                   "CSV of lines: only shapes on them are chosen; dims named in a row are fixed, empty ones vary")
      ->check(CLI::ExistingFile);
  plan->add_option("--dtype", args->dtype, "Of generated shapes (default: fp32, or the models')");
  plan->add_option("--measured", args->measured, "What was measured so far")->check(CLI::ExistingFile);
  plan->add_option("--spec", args->spec, "CSV with a spec row, for a device outside the catalogue")
      ->check(CLI::ExistingFile);
  plan->add_option("--out", args->out, "CSV to write: the candidates' lines verbatim")->required();
  plan->callback([args, &globals, &chosen] { chosen = [args, &globals] { return Plan(*args, globals); }; });
}

}  // namespace gpueta::cli
