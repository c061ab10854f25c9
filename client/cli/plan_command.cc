#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/measurements/copy_lines.h"
#include "core/sampling/sampling.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kGeneratedPerChosen = 20;  // candidates for each row to choose

struct PlanArgs {
  std::string op;
  std::string device;
  std::string dtype = "fp32";
  std::size_t budget = 0;
  std::string candidates;
  std::vector<std::string> measured;
  std::string spec;
  std::string out;
};

absl::StatusOr<std::vector<std::size_t>> Choose(const PlanArgs& args, const std::vector<Measurement>& candidates,
                                                const std::vector<Measurement>& measured, std::uint64_t seed) {
  if (measured.empty()) return ChooseSpaceFilling(candidates, measured, args.budget, seed);
  GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, ReadSpec(args.device, args.spec));
  return ChooseActive(candidates, measured, spec, args.budget, seed);
}

absl::StatusOr<std::string> ChooseFromFile(const PlanArgs& args, Op op, const std::vector<Measurement>& measured,
                                           std::uint64_t seed, std::size_t& count) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> rows,
                          ReadMeasurementFile(args.candidates, {.ignore_latency = true}));
  for (const Measurement& row : rows) {
    if (row.kernel.op() != op)
      return InvalidArgument("{}: holds {} rows, but --op is {}", args.candidates, Name(row.kernel.op()), args.op);
  }
  GPUETA_ASSIGN_OR_RETURN(const std::vector<std::size_t> chosen, Choose(args, rows, measured, seed));
  std::vector<std::int64_t> lines;
  for (std::size_t i : chosen) lines.push_back(rows[i].line);
  count = lines.size();
  std::ifstream in(args.candidates, std::ios::binary);
  std::ostringstream out;
  GPUETA_RETURN_IF_ERROR(CopyLines(in, lines, out));
  return out.str();
}

absl::StatusOr<std::string> Generate(const PlanArgs& args, Op op, const std::vector<Measurement>& measured,
                                     std::uint64_t seed, std::size_t& count) {
  const auto dtype = ParseDType(args.dtype);
  if (!dtype.has_value()) return InvalidArgument("--dtype: \"{}\" is not a known dtype", args.dtype);
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels,
                          GenerateShapes(op, *dtype, args.budget * kGeneratedPerChosen, seed));
  std::vector<Measurement> rows;
  for (const Kernel& kernel : kernels) {
    rows.push_back({.device = args.device, .source = "generated", .timing = Timing::kKernel, .kernel = kernel});
  }
  GPUETA_ASSIGN_OR_RETURN(const std::vector<std::size_t> chosen, Choose(args, rows, measured, seed));
  std::vector<Measurement> picked;
  for (std::size_t i : chosen) picked.push_back(rows[i]);
  count = picked.size();
  std::ostringstream out;
  GPUETA_RETURN_IF_ERROR(WriteMeasurements(out, picked));
  return out.str();
}

absl::Status Plan(const PlanArgs& args, const Globals& globals) {
  const auto op = ParseOp(args.op);
  if (!op.has_value())
    return InvalidArgument("--op: \"{}\" is not one of gemm, conv2d, attention, moe, vector, collective, custom",
                           args.op);
  std::vector<Measurement> measured;
  for (const std::string& path : args.measured) {
    GPUETA_ASSIGN_OR_RETURN(std::vector<Measurement> rows, ReadMeasurementFile(path));
    measured.insert(measured.end(), rows.begin(), rows.end());
  }
  std::size_t count = 0;
  absl::StatusOr<std::string> text = args.candidates.empty() ? Generate(args, *op, measured, globals.seed, count)
                                                             : ChooseFromFile(args, *op, measured, globals.seed, count);
  if (!text.ok()) return text.status();
  GPUETA_RETURN_IF_ERROR(WriteWholeFile(args.out, *text));
  if (globals.json) {
    fmt::print("{}\n", nlohmann::json{{"chosen", count}, {"path", args.out}}.dump());
  } else {
    fmt::print("{} rows to measure written to {}\n", count, args.out);
  }
  return absl::OkStatus();
}

}  // namespace

void AddPlan(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<PlanArgs>();
  CLI::App* plan = app.add_subcommand("plan", "Choose which kernels to measure next");
  plan->add_option("--op", args->op, "gemm, conv2d, attention, moe, vector, collective or custom")->required();
  plan->add_option("--device", args->device, "Slug of the device")->required();
  plan->add_option("--budget", args->budget, "How many rows to choose")->required()->check(CLI::PositiveNumber);
  plan->add_option("--candidates", args->candidates,
                   "CSV to choose from; a latency column is ignored (default: generated shapes)")
      ->check(CLI::ExistingFile);
  plan->add_option("--dtype", args->dtype, "Of generated shapes")->capture_default_str();
  plan->add_option("--measured", args->measured, "What was measured so far")->check(CLI::ExistingFile);
  plan->add_option("--spec", args->spec, "CSV with a spec row, for a device outside the catalogue")
      ->check(CLI::ExistingFile);
  plan->add_option("--out", args->out, "CSV to write: the candidates' lines verbatim")->required();
  plan->callback([args, &globals, &chosen] { chosen = [args, &globals] { return Plan(*args, globals); }; });
}

}  // namespace gpueta::cli
