// `gpueta emulate`: a model's latency on a device that is not here, measured on
// this machine while it acts like that device.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "calibration/backends/device_lock.h"
#include "calibration/backends/timing.h"
#include "calibration/control/card/settings_journal.h"
#include "calibration/control/emulate.h"
#include "calibration/control/open_control.h"
#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/model_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/predict/compose.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kShown = 10;

struct EmulateArgs {
  std::string model;
  std::string device;
  std::string spec;
  std::string on = "auto";
  double launch_us = 0;
  bool allow_card_settings = false;
  std::string lock_dir = kLockDirectory;
  DimArgs dims;
};

nlohmann::json ToJson(const Quantiles& q) { return {{"p50", q.p50}, {"p90", q.p90}, {"p99", q.p99}}; }

nlohmann::json RateToJson(double rate) { return rate > 0 ? nlohmann::json(rate) : nlohmann::json(nullptr); }

// As `predict MODEL` answers, with how it came about.
nlohmann::json ToJson(const EmulateArgs& args, const Emulation& emulation) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const GraphPart& part : emulation.estimate.parts) {
    kernels.push_back({{"name", part.kernel.name},
                       {"op", Name(part.kernel.op())},
                       {"work", Describe(part.kernel)},
                       {"count", part.count},
                       {"latency_us", ToJson(part.estimate.latency_us)},
                       {"bound", Name(part.estimate.bound)},
                       {"provenance", Name(part.estimate.provenance)}});
  }
  nlohmann::json classes = nlohmann::json::array();
  for (const ClassMatch& match : emulation.classes) {
    classes.push_back({{"class", Describe(match.kernels)},
                       {"weight", match.weight},
                       {"host", RateToJson(match.host)},
                       {"target", RateToJson(match.target)},
                       {"reached", RateToJson(match.reached)}});
  }
  nlohmann::json tried = nlohmann::json::array();
  for (const TriedConfiguration& one : emulation.tried) {
    tried.push_back({{"configuration", one.text}, {"distance", one.distance}});
  }
  const GraphEstimate& estimate = emulation.estimate;
  nlohmann::json device = {{"device", args.device},
                           {"latency_us", ToJson(estimate.latency_us)},
                           {"provenance", {{Name(Provenance::kEmulated), 1}}},
                           {"correction", estimate.correction},
                           {"estimator", estimate.estimator},
                           {"kernels", kernels},
                           {"memory_bytes", estimate.memory_bytes},
                           {"warnings", estimate.warnings},
                           {"emulation",
                            {{"on", emulation.host},
                             {"configuration", emulation.configuration_text},
                             {"measured_us", emulation.measured_us},
                             {"distance", emulation.distance},
                             {"tried", tried},
                             {"neighbours", emulation.neighbours},
                             {"classes", classes}}}};
  return {{"model", args.model}, {"devices", nlohmann::json::array({std::move(device)})}};
}

std::string RateText(double rate) { return rate > 0 ? fmt::format("{:.4g}", rate) : "?"; }

void Print(const EmulateArgs& args, const Emulation& emulation) {
  const Quantiles& total = emulation.estimate.latency_us;
  fmt::print("{} on {}: p50 {}, p90 {}, p99 {}\n", args.model, args.device, terminal::FormatUs(total.p50),
             terminal::FormatUs(total.p90), terminal::FormatUs(total.p99));
  fmt::print("measured {} on {} with {} ({} configurations tried), {:+.1f}% for what it does not reach\n\n",
             terminal::FormatUs(emulation.measured_us), emulation.host, emulation.configuration_text,
             emulation.tried.size(), 100 * (total.p50 / emulation.measured_us - 1));
  terminal::TextTable rates({"limited by", "of the time", "host", "target", "reached", "off"});
  for (const ClassMatch& match : emulation.classes) {
    rates.Add({Describe(match.kernels), terminal::FormatPercent(match.weight), RateText(match.host),
               RateText(match.target), RateText(match.reached),
               match.target > 0 ? fmt::format("{:+.1f}%", 100 * (match.reached / match.target - 1)) : "?"});
  }
  fmt::print("{}(TFLOPS, GB/s, MB of cache, launches a µs)\n\n", rates.Render());
  std::vector<GraphPart> parts = emulation.estimate.parts;
  const auto weight = [](const GraphPart& part) {
    return static_cast<double>(part.count) * part.estimate.latency_us.p50;
  };
  std::ranges::stable_sort(parts, std::greater<>(), weight);
  double sum = 0;
  for (const GraphPart& part : parts) sum += weight(part);
  terminal::TextTable kernels({"share", "count", "p50 each", "p90 each", "bound", "kernel"});
  const std::size_t shown = std::min(parts.size(), kShown);
  for (const GraphPart& part : std::span(parts).first(shown)) {
    kernels.Add({terminal::FormatPercent(weight(part) / sum), std::to_string(part.count),
                 terminal::FormatUs(part.estimate.latency_us.p50), terminal::FormatUs(part.estimate.latency_us.p90),
                 std::string(Name(part.estimate.bound)), Describe(part.kernel)});
  }
  fmt::print("{}", kernels.Render());
  if (shown < parts.size()) fmt::print("… and {} more kinds of kernels; --json has all\n", parts.size() - shown);
  for (const std::string& warning : emulation.estimate.warnings) fmt::print("note: {}\n", warning);
}

absl::Status EmulateModel(const EmulateArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const DeviceSpec target, ReadSpec(args.device, args.spec));
  GPUETA_ASSIGN_OR_RETURN(const Graph graph, ReadModel(args.model));
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, SymbolsOf(graph, args.dims));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, KernelsThatRun(graph, dims));
  GPUETA_ASSIGN_OR_RETURN(const int replayed, ReplayStaleJournals(DefaultStateDirectory()));
  if (replayed > 0) fmt::print(stderr, "settings that an earlier run left behind were restored\n");
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceControl> control,
                          OpenDeviceControl(args.on, {.allow_card_settings = args.allow_card_settings}));
  const std::string locked[] = {control->device()};
  GPUETA_ASSIGN_OR_RETURN(const std::vector<DeviceLock> locks, LockDevices(locked, args.lock_dir));
  absl::StatusOr<Emulation> emulation;
  {
    terminal::Progress progress;
    EmulationOptions options;
    options.progress = [&](double share, const std::string& what) { progress.Update(share, what); };
    emulation = Emulate(*control, {.spec = target, .launch_us = args.launch_us}, kernels, options, SteadyMicroseconds);
  }
  if (!emulation.ok()) return emulation.status();
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> all, Bind(graph, dims));
  emulation->estimate.memory_bytes = MemoryBytes(graph, all);
  std::vector<std::string>& warnings = emulation->estimate.warnings;
  warnings.insert(warnings.begin(), graph.warnings.begin(), graph.warnings.end());
  if (globals.json) {
    fmt::print("{}\n", ToJson(args, *emulation).dump(2));
  } else {
    Print(args, *emulation);
  }
  return absl::OkStatus();
}

}  // namespace

void AddEmulate(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<EmulateArgs>();
  CLI::App* emulate = app.add_subcommand(
      "emulate", "Restrict this machine until it acts like a weaker device, and measure a model there");
  emulate->add_option("MODEL", args->model, ".onnx or graph file")->required()->check(CLI::ExistingFile);
  emulate->add_option("--device", args->device, "Slug of the device to act like")->required();
  emulate
      ->add_option("--spec", args->spec,
                   "Its spec: header and one row, as `gpueta measure --capabilities` writes it on that device "
                   "[the catalogue's]")
      ->check(CLI::ExistingFile);
  emulate->add_option("--on", args->on, "Device of this machine to restrict: auto, cpu or cuda:N")
      ->capture_default_str();
  emulate->add_option("--launch-us", args->launch_us, "What a kernel that does nothing takes on it, where known")
      ->check(CLI::PositiveNumber);
  emulate->add_flag("--allow-card-settings", args->allow_card_settings,
                    "Also set clocks, which everybody on the device notices; they are restored whatever happens");
  emulate->add_option("--lock-dir", args->lock_dir, "Where those who measure on one GPU find each other's locks")
      ->envname("GPUETA_LOCK_DIR")
      ->capture_default_str();
  AddDimOptions(*emulate, args->dims);
  emulate->callback([args, &globals, &chosen] { chosen = [args, &globals] { return EmulateModel(*args, globals); }; });
}

}  // namespace gpueta::cli
