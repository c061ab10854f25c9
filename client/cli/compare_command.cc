// `gpueta compare`: predicted against measured, kernel by kernel.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "calibration/backends/backends.h"
#include "calibration/backends/measure.h"
#include "client/cli/ask.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/feedback/error_summary.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kShown = 10;

struct CompareArgs {
  ModelQuestion question;
  std::string device;
  std::string on = "cpu";
};

struct ComparedKernel {
  const GraphPart* part = nullptr;
  double measured_us = 0;  // mean over its occurrences
};

// The measured occurrences of each predicted part.
std::vector<ComparedKernel> Match(const GraphEstimate& predicted, const std::vector<MeasuredKernel>& measured) {
  std::map<std::string, double> latency_us;  // by the kernel's description
  for (const MeasuredKernel& kernel : measured) {
    latency_us[Describe(kernel.measurement.kernel)] = kernel.measurement.latency_us;
  }
  std::vector<ComparedKernel> compared;
  for (const GraphPart& part : predicted.parts) {
    const auto it = latency_us.find(Describe(part.kernel));
    if (it != latency_us.end()) compared.push_back({&part, it->second});
  }
  std::stable_sort(compared.begin(), compared.end(), [](const ComparedKernel& a, const ComparedKernel& b) {
    return static_cast<double>(a.part->count) * a.measured_us > static_cast<double>(b.part->count) * b.measured_us;
  });
  return compared;
}

nlohmann::json ToJson(const ErrorSummary& s) {
  return {{"n", s.n}, {"mape", s.mape}, {"median", s.median}, {"below_p90", s.below_p90}};
}

absl::Status Compare(const CompareArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const OpenModel model, OpenModel::Open(args.question, globals));
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, model.Dims());
  GPUETA_ASSIGN_OR_RETURN(const std::vector<DeviceAnswer> answers, model.Ask(args.question.devices, dims));
  const GraphEstimate& predicted = answers.front().estimate;
  GPUETA_ASSIGN_OR_RETURN(const BoundGraph bound, model.Bound(answers.front().spec, dims));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, KernelsThatRun(bound.graph, dims));
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, OpenBackend(args.on));
  GPUETA_ASSIGN_OR_RETURN(const MeasuredGraph measured, MeasureGraph(*backend, kernels, {}, SteadyMicroseconds));
  const std::vector<ComparedKernel> compared = Match(predicted, MeanOfOccurrences(*backend, kernels, measured));
  std::vector<PredictedAndObserved> pairs;
  for (const ComparedKernel& kernel : compared) {
    if (kernel.measured_us > 0) pairs.push_back({kernel.part->estimate.latency_us, kernel.measured_us});
  }
  const ErrorSummary errors = Summarise(pairs);
  const double total_error = predicted.latency_us.p50 / measured.total.latency_us - 1;
  if (globals.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const ComparedKernel& kernel : compared) {
      list.push_back({{"name", kernel.part->kernel.name},
                      {"work", Describe(kernel.part->kernel)},
                      {"count", kernel.part->count},
                      {"predicted_us", kernel.part->estimate.latency_us.p50},
                      {"measured_us", kernel.measured_us},
                      {"provenance", Name(kernel.part->estimate.provenance)}});
    }
    fmt::print("{}\n", Dump(nlohmann::json{{"model", args.question.model},
                                           {"device", args.device},
                                           {"predicted_us", predicted.latency_us.p50},
                                           {"measured_us", measured.total.latency_us},
                                           {"error", total_error},
                                           {"disturbed", measured.total.disturbed},
                                           {"slowed", measured.total.slowed},
                                           {"kernel_errors", ToJson(errors)},
                                           {"kernels", list}}));
    return absl::OkStatus();
  }
  terminal::TextTable table({"count", "predicted", "measured", "error", "rests on", "kernel"});
  for (std::size_t i = 0; i < std::min(kShown, compared.size()); ++i) {
    const Estimate& estimate = compared[i].part->estimate;
    table.Add({std::to_string(compared[i].part->count), terminal::FormatUs(estimate.latency_us.p50),
               terminal::FormatUs(compared[i].measured_us),
               fmt::format("{:+.1f}%", 100 * (estimate.latency_us.p50 / compared[i].measured_us - 1)),
               std::string(Name(estimate.provenance)), Describe(compared[i].part->kernel)});
  }
  fmt::print("{}", table.Render());
  fmt::print("total: predicted {} (p90 {}), measured {} back to back{}: {:+.1f}%\n",
             terminal::FormatUs(predicted.latency_us.p50), terminal::FormatUs(predicted.latency_us.p90),
             terminal::FormatUs(measured.total.latency_us),
             measured.total.disturbed ? " (the machine was busy)"
             : measured.total.slowed  ? " (the device was in a slower state)"
                                      : "",
             100 * total_error);
  fmt::print("kernels: median error {}, mean {}, {} of {} at or below their p90\n",
             terminal::FormatPercent(errors.median), terminal::FormatPercent(errors.mape),
             terminal::FormatPercent(errors.below_p90), errors.n);
  return absl::OkStatus();
}

}  // namespace

void AddCompare(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<CompareArgs>();
  CLI::App* compare =
      app.add_subcommand("compare", "Predict a model for a device of this machine, run it there, show the error");
  compare->add_option("MODEL", args->question.model, ".onnx or graph file")->required()->check(CLI::ExistingFile);
  compare->add_option("--device", args->device, "Slug to predict for")->required();
  compare->add_option("--on", args->on, "Device to run on: cpu, cuda:N or replay:F.csv")->capture_default_str();
  compare->add_option("--profile", args->question.profile_paths, "Profiles to use in place of a directory")
      ->check(CLI::ExistingFile);
  AddDimOptions(*compare, args->question.dims);
  compare->callback([args, &globals, &chosen] {
    args->question.devices = {args->device};
    chosen = [args, &globals] { return Compare(*args, globals); };
  });
}

}  // namespace gpueta::cli
