#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "core/base/errors.h"
#include "core/importers/traces/trace_importer.h"

namespace gpueta::cli {
namespace {

struct ImportTraceArgs {
  std::vector<std::string> traces;
  std::string device;
  std::string out;
};

// The device that --device names, else the one that the trace does; the CPU's
// local alias for a trace without a device.
absl::StatusOr<std::string> DeviceOf(const Trace& trace, const ImportTraceArgs& args, const std::string& path) {
  if (!args.device.empty()) return args.device;
  if (trace.kernels.empty()) return "cpu";
  std::vector<std::string> cards = CardsCalled(trace.device);
  if (cards.size() == 1) return std::move(cards.front());
  if (!cards.empty()) {
    return InvalidArgument("{}: \"{}\" may be any of {}; name it with --device", path, trace.device.name,
                           fmt::join(cards, ", "));
  }
  return InvalidArgument("{}: \"{}\" is no device of the catalogue; name it with --device", path, trace.device.name);
}

absl::Status ImportTrace(const ImportTraceArgs& args, const Globals& globals) {
  std::vector<Measurement> rows;
  for (const std::string& path : args.traces) {
    GPUETA_ASSIGN_OR_RETURN(const Trace trace, ReadTraceFile(path));
    GPUETA_ASSIGN_OR_RETURN(const std::string device, DeviceOf(trace, args, path));
    const std::string source = std::filesystem::path(path).filename().string();
    absl::StatusOr<std::vector<Measurement>> read = MeasurementsOfTrace(trace, device, source);
    if (!read.ok()) return Prefixed(read.status(), path);
    rows.insert(rows.end(), read->begin(), read->end());
  }
  GPUETA_RETURN_IF_ERROR(WriteMeasurementFiles(args.out, rows));
  if (globals.json) {
    fmt::print("{}\n", nlohmann::json{{"rows", rows.size()}, {"path", args.out}}.dump());
  } else {
    fmt::print("{} kernels measured in {} traces, written to {}\n", rows.size(), args.traces.size(), args.out);
  }
  return absl::OkStatus();
}

}  // namespace

void AddImportTrace(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<ImportTraceArgs>();
  CLI::App* command = app.add_subcommand("import-trace", "Profiler traces to measurements");
  command->add_option("TRACE", args->traces, "PyTorch profiler .json or .json.gz, or Nsight Systems .sqlite")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--device", args->device, "Slug of the traced device (default: what the trace says)");
  command->add_option("--out", args->out, "CSV to write; of several ops PREFIX.OP.csv")->required();
  command->callback([args, &globals, &chosen] { chosen = [args, &globals] { return ImportTrace(*args, globals); }; });
}

}  // namespace gpueta::cli
