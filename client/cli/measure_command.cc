#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "calibration/backends/backends.h"
#include "calibration/backends/device_lock.h"
#include "calibration/backends/measure.h"
#include "calibration/control/rates.h"
#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/json.h"
#include "client/cli/model_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/device/catalogue.h"

namespace gpueta::cli {
namespace {

struct MeasureArgs {
  std::string model;
  std::string kernels;
  bool capabilities = false;
  DimArgs dims;
  std::string device = "cpu";
  std::string out;
  std::string lock_dir = kLockDirectory;
};

absl::Status MeasureKernels(const MeasureArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> rows,
                          ReadMeasurementFile(args.kernels, {.ignore_latency = true}));
  const bool collectives =
      std::ranges::any_of(rows, [](const Measurement& row) { return row.kernel.op() == Op::kCollective; });
  GPUETA_ASSIGN_OR_RETURN(
      const std::unique_ptr<Backend> backend,
      OpenBackend(args.device, {.collectives = collectives && CudaOrdinalOf(args.device).has_value()}));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<DeviceLock> locks, LockDevicesOf(*backend, args.lock_dir));
  std::vector<Measurement> measured;
  std::size_t disturbed = 0;
  {
    terminal::Progress progress;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      progress.Update(static_cast<double>(i) / static_cast<double>(rows.size()), Describe(rows[i].kernel));
      const absl::StatusOr<MeasuredKernel> result =
          MeasureKernel(*backend, rows[i].kernel, backend->timing_policy(), SteadyMicroseconds);
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
  GPUETA_ASSIGN_OR_RETURN(const std::vector<DeviceLock> locks, LockDevicesOf(*backend, args.lock_dir));
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

// What the device can do at most, as a spec that other commands take.
absl::Status MeasureSpec(const MeasureArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, OpenBackend(args.device));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<DeviceLock> locks, LockDevicesOf(*backend, args.lock_dir));
  GPUETA_ASSIGN_OR_RETURN(const DeviceRates measured, MeasureRates(*backend, SteadyMicroseconds));
  const DeviceSpec& spec = measured.spec;
  std::map<std::string, double> limits;
  if (auto measured_limits = backend->MeasureLimits(); measured_limits.ok()) {
    limits = *std::move(measured_limits);
  } else if (!absl::IsUnimplemented(measured_limits.status())) {
    return measured_limits.status();
  }
  GPUETA_ASSIGN_OR_RETURN(const std::string row, SpecRow(spec));
  GPUETA_RETURN_IF_ERROR(WriteWholeFile(args.out, row));
  if (globals.json) {
    fmt::print("{}\n", nlohmann::json{{"device", spec.slug},
                                      {"fp32_tflops", spec.fp32_tflops},
                                      {"mem_bandwidth_gb_s", spec.mem_bandwidth_gb_s},
                                      {"launch_us", measured.launch_us},
                                      {"limits", limits},
                                      {"path", args.out}}
                           .dump());
  } else {
    fmt::print("{}: {} SMs or cores, {:.3g} TFLOPS fp32, {:.3g} GB/s, a launch {:.3g} us; written to {}\n", spec.slug,
               spec.sm_count, spec.fp32_tflops, spec.mem_bandwidth_gb_s, measured.launch_us, args.out);
    for (const auto& [name, figure] : limits) fmt::print("  {} {:.4g}\n", name, figure);
  }
  return absl::OkStatus();
}

}  // namespace

void AddMeasure(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<MeasureArgs>();
  CLI::App* measure = app.add_subcommand(
      "measure", "Run a model's kernels, or those of a CSV, on a real device; or find out what it can do at most");
  auto* model = measure->add_option("MODEL", args->model, ".onnx or graph file")->check(CLI::ExistingFile);
  auto* kernels = measure->add_option("--kernels", args->kernels, "CSV of kernels; a latency column is not read")
                      ->check(CLI::ExistingFile);
  auto* capabilities = measure->add_flag("--capabilities", args->capabilities,
                                         "Peak rates and bandwidth, written as a row that --spec takes");
  measure->add_option("--device", args->device, "cpu, cuda:N or replay:F.csv")->capture_default_str();
  auto* out = measure->add_option("--out", args->out, "CSV to write; of a model with several ops PREFIX.OP.csv");
  measure->add_option("--lock-dir", args->lock_dir, "Where those who measure on one GPU find each other's locks")
      ->envname("GPUETA_LOCK_DIR")
      ->capture_default_str();
  AddDimOptions(*measure, args->dims);
  kernels->excludes(model);
  kernels->needs(out);
  capabilities->excludes(model)->excludes(kernels)->needs(out);
  measure->callback([args, model, kernels, capabilities, &globals, &chosen] {
    if (model->count() + kernels->count() + capabilities->count() == 0) {
      throw CLI::RequiredError("MODEL, --kernels or --capabilities");
    }
    chosen = [args, &globals] {
      if (args->capabilities) return MeasureSpec(*args, globals);
      return args->model.empty() ? MeasureKernels(*args, globals) : MeasureModel(*args, globals);
    };
  });
}

}  // namespace gpueta::cli
