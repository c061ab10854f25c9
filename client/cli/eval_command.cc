#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/feedback/error_summary.h"

namespace gpueta::cli {
namespace {

struct EvalArgs {
  std::vector<std::string> profile_paths;
  std::vector<std::string> measurements;
  std::vector<std::string> by;
  std::string device;
  std::string estimator;
};

// The value of a column for one row, as text.
absl::StatusOr<std::string> ColumnOf(const std::string& column, const Measurement& row, const Estimate& estimate) {
  if (column == "device") return row.device;
  if (column == "source") return row.source;
  if (column == "timing") return std::string(Name(row.timing));
  if (column == "op") return std::string(Name(row.kernel.op()));
  if (column == "dtype") return std::string(Name(row.kernel.dtype));
  if (column == "label") return LabelOf(row.kernel);
  if (column == "kernel") return row.kernel.launch.kernel;
  if (column == "table") return Describe(KeyOf(row.kernel, row.timing));
  if (column == "provenance") return std::string(Name(estimate.provenance));
  if (column == "estimator") return std::string(estimate.estimator);
  if (column == "bound") return std::string(Name(estimate.bound));
  if (column == "phase") return std::string(Name(KeyOf(row.kernel, row.timing).phase));
  if (const auto dim = FindDim(row.kernel.op(), column); dim.has_value())
    return std::to_string(GetDim(row.kernel, *dim));
  return InvalidArgument(
      "--by: {} rows have no column \"{}\"; choose device, source, timing, op, dtype, label, kernel, table, "
      "provenance, estimator, bound, "
      "phase or a dim",
      Name(row.kernel.op()), column);
}

nlohmann::json ToJson(const ErrorSummary& s) {
  return {{"n", s.n},
          {"mape", s.mape},
          {"median", s.median},
          {"ape_p90", s.ape_p90},
          {"ape_p99", s.ape_p99},
          {"bias", s.bias},
          {"below_p90", s.below_p90},
          {"below_p99", s.below_p99},
          {"p90_width", s.p90_width}};
}

absl::Status Eval(const EvalArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> rows, ReadMeasurementFiles(args.measurements));
  GPUETA_ASSIGN_OR_RETURN(const std::shared_ptr<const Snapshot> snapshot, OpenSnapshot(globals, args.profile_paths));
  std::map<std::string, std::shared_ptr<const Predictor>> predictors;
  std::map<std::vector<std::string>, std::vector<PredictedAndObserved>> groups;
  for (const Measurement& row : rows) {
    const std::string& slug = args.device.empty() ? row.device : args.device;
    auto& predictor = predictors[slug];
    if (predictor == nullptr) {
      GPUETA_ASSIGN_OR_RETURN(predictor, snapshot->Find(slug));
    }
    const absl::StatusOr<Estimate> estimate =
        predictor->EstimateKernel(row.kernel, {.timing = row.timing, .estimator = args.estimator});
    if (!estimate.ok()) return Prefixed(estimate.status(), fmt::format("line {}", row.line));
    std::vector<std::string> group;
    for (const std::string& column : args.by) {
      GPUETA_ASSIGN_OR_RETURN(std::string value, ColumnOf(column, row, *estimate));
      group.push_back(std::move(value));
    }
    groups[group].push_back({estimate->latency_us, row.latency_us});
  }
  if (globals.json) {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& [group, pairs] : groups) {
      nlohmann::json entry = ToJson(Summarise(pairs));
      for (std::size_t i = 0; i < group.size(); ++i) entry[args.by[i]] = group[i];
      out.push_back(std::move(entry));
    }
    fmt::print("{}\n", args.by.empty() && out.size() == 1 ? out[0].dump(2) : out.dump(2));
    return absl::OkStatus();
  }
  std::vector<std::string> header = args.by;
  for (const char* name : {"n", "mape", "median", "ape_p90", "ape_p99", "bias", "below_p90", "below_p99"})
    header.emplace_back(name);
  terminal::TextTable table(header);
  for (const auto& [group, pairs] : groups) {
    const ErrorSummary s = Summarise(pairs);
    std::vector<std::string> line = group;
    line.push_back(std::to_string(s.n));
    for (double v : {s.mape, s.median, s.ape_p90, s.ape_p99, s.bias, s.below_p90, s.below_p99})
      line.push_back(terminal::FormatPercent(v));
    table.Add(std::move(line));
  }
  fmt::print("{}", table.Render());
  return absl::OkStatus();
}

}  // namespace

void AddEval(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<EvalArgs>();
  CLI::App* eval = app.add_subcommand("eval", "Compare predictions with measurements");
  eval->add_option("--profile", args->profile_paths, "Profiles to judge (default: those of --profiles)")
      ->check(CLI::ExistingFile);
  eval->add_option("--measurements", args->measurements, "Measurement CSVs")->required()->check(CLI::ExistingFile);
  eval->add_option("--by", args->by, "Columns to group by, e.g. device,table")->delimiter(',');
  eval->add_option("--device", args->device, "Predict for this device whatever the rows say");
  eval->add_option("--estimator", args->estimator,
                   "A form by name: family, kernel-aware, roofline (default: the best one)");
  eval->callback([args, &globals, &chosen] { chosen = [args, &globals] { return Eval(*args, globals); }; });
}

}  // namespace gpueta::cli
