#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "calibration/backends/backends.h"
#include "calibration/backends/measure.h"
#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/json.h"
#include "client/cli/model_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"

namespace gpueta::cli {
namespace {

struct MeasureArgs {
  std::string model;
  std::string kernels;
  DimArgs dims;
  std::string device = "cpu";
  std::string out;
};

absl::Status MeasureKernels(const MeasureArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> rows,
                          ReadMeasurementFile(args.kernels, {.ignore_latency = true}));
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, OpenBackend(args.device));
  std::vector<Measurement> measured;
  std::size_t disturbed = 0;
  {
    terminal::Progress progress;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      progress.Update(static_cast<double>(i) / static_cast<double>(rows.size()), Describe(rows[i].kernel));
      const absl::StatusOr<MeasuredKernel> result = MeasureKernel(*backend, rows[i].kernel, {}, SteadyMicroseconds);
      if (!result.ok()) return Prefixed(result.status(), fmt::format("{}:{}", args.kernels, rows[i].line));
      measured.push_back(result->measurement);
      disturbed += result->timing.disturbed ? 1 : 0;
    }
  }
  GPUETA_RETURN_IF_ERROR(WriteMeasurementFiles(args.out, measured));
  if (globals.json) {
    fmt::print("{}\n", nlohmann::json{{"rows", measured.size()}, {"disturbed", disturbed}, {"path", args.out}}.dump());
  } else {
    fmt::print("{} kernels measured ({} disturbed), written to {}\n", measured.size(), disturbed, args.out);
  }
  return absl::OkStatus();
}

absl::Status MeasureModel(const MeasureArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const Graph graph, ReadModel(args.model));
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, SymbolsOf(graph, args.dims));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, KernelsThatRun(graph, dims));
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, OpenBackend(args.device));
  GPUETA_ASSIGN_OR_RETURN(const MeasuredGraph measured, MeasureGraph(*backend, kernels, {}, SteadyMicroseconds));
  std::vector<Measurement> rows;
  nlohmann::json json = nlohmann::json::array();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    Measurement row;
    row.device = backend->slug();
    row.source = "gpueta";
    row.timing = measured.timing;
    row.kernel = kernels[i];
    row.latency_us = measured.kernels[i].latency_us;
    rows.push_back(row);
    json.push_back({{"name", kernels[i].name},
                    {"op", Name(kernels[i].op())},
                    {"work", Describe(kernels[i])},
                    {"latency_us", row.latency_us}});
  }
  if (!args.out.empty()) GPUETA_RETURN_IF_ERROR(WriteMeasurementFiles(args.out, rows));
  if (globals.json) {
    fmt::print("{}\n", Dump(nlohmann::json{{"model", args.model},
                                           {"device", backend->slug()},
                                           {"total_us", measured.total.latency_us},
                                           {"spread_us", measured.total.spread_us},
                                           {"disturbed", measured.total.disturbed},
                                           {"kernels", json}}));
    return absl::OkStatus();
  }
  fmt::print("{} on {}: {} for {} kernels back to back (± {}{})\n", args.model, backend->slug(),
             terminal::FormatUs(measured.total.latency_us), kernels.size(),
             terminal::FormatUs(measured.total.spread_us), measured.total.disturbed ? ", disturbed" : "");
  return absl::OkStatus();
}

}  // namespace

void AddMeasure(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<MeasureArgs>();
  CLI::App* measure = app.add_subcommand("measure", "Run a model's kernels, or those of a CSV, on a real device");
  auto* model = measure->add_option("MODEL", args->model, ".onnx or graph file")->check(CLI::ExistingFile);
  auto* kernels = measure->add_option("--kernels", args->kernels, "CSV of kernels; a latency column is not read")
                      ->check(CLI::ExistingFile);
  measure->add_option("--device", args->device, "cpu, cuda:N or replay:F.csv")->capture_default_str();
  auto* out = measure->add_option("--out", args->out, "CSV to write; of a model with several ops PREFIX.OP.csv");
  AddDimOptions(*measure, args->dims);
  kernels->excludes(model);
  kernels->needs(out);
  measure->callback([args, model, kernels, &globals, &chosen] {
    if (model->count() + kernels->count() == 0) throw CLI::RequiredError("MODEL or --kernels");
    chosen = [args, &globals] {
      return args->model.empty() ? MeasureKernels(*args, globals) : MeasureModel(*args, globals);
    };
  });
}

}  // namespace gpueta::cli
