#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/cli/command.h"
#include "client/terminal/terminal.h"
#include "core/base/csv.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/device/catalogue.h"
#include "core/kernels/kernel_code.h"
#include "core/kernels/kernel_launch.h"
#include "core/measurements/measurements.h"
#include "core/wire/manifest_codec.h"

namespace gpueta::cli {
namespace {

struct KernelsArgs {
  std::string manifest;
  std::vector<std::string> shape;  // "m=512"
  std::string shapes;              // a CSV
  std::string device;
  std::string timing = "kernel";
  std::size_t count = 300;
  std::string out;
};

constexpr double kBytesOfGb = 1e9;
// Of a device's memory: what kernels beside this one may take is left to them.
constexpr double kMemoryShare = 0.5;
constexpr std::int64_t kAnyMemory = std::int64_t{1} << 62;
constexpr char kLatencyColumn[] = "latency_us";

absl::StatusOr<SymbolValues> ParseShape(const std::vector<std::string>& texts) {
  SymbolValues shape;
  for (const std::string& text : texts) {
    const std::size_t equals = std::min(text.find('='), text.size());
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const char* const begin = std::min(text.data() + equals + 1, end);
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (equals == 0 || error != std::errc() || stop != end)
      return InvalidArgument("\"{}\" is no dim with a value; write e.g. m=512", text);
    if (!shape.emplace(text.substr(0, equals), value).second)
      return InvalidArgument("{} is given twice", text.substr(0, equals));
  }
  return shape;
}

// What can be said of the code without a driver.
absl::StatusOr<std::string> CheckCode(const KernelManifest& manifest, const std::string& manifest_path) {
  if (manifest.file.empty()) return "none: it can be described, but not run";
  GPUETA_ASSIGN_OR_RETURN(const KernelCode code, ReadKernelCode(manifest, manifest_path));
  if (!code.ptx.has_value())
    return fmt::format("{}: a {}; the driver checks its parameters", code.path, Name(code.kind));
  return fmt::format("{}: PTX {} for {} and newer; {} takes these {} arguments", code.path, code.ptx->version,
                     code.ptx->target, manifest.entry, manifest.arguments.size());
}

std::string Text(const std::array<std::uint32_t, 3>& extent) { return fmt::format("{}", fmt::join(extent, " x ")); }

std::string Text(const LaunchArgument& argument) {
  if (argument.is_buffer) return fmt::format("buffer of {} bytes", argument.buffer_bytes);
  std::string hex;
  for (auto byte = argument.value.rbegin(); byte != argument.value.rend(); ++byte)
    hex += fmt::format("{:02x}", static_cast<unsigned>(*byte));
  return fmt::format("{} bytes 0x{}", argument.value.size(), hex);
}

nlohmann::json Json(const KernelLaunch& launch) {
  const Custom& work = std::get<Custom>(launch.kernel.work);
  nlohmann::json arguments = nlohmann::json::array();
  for (const LaunchArgument& argument : launch.arguments) {
    arguments.push_back({{"name", argument.name}, {"bytes", argument.size()}});
    if (argument.is_buffer) arguments.back()["buffer_bytes"] = argument.buffer_bytes;
  }
  return {{"grid", launch.grid}, {"block", launch.block}, {"shared_bytes", launch.shared_bytes},
          {"flops", work.flops}, {"bytes", work.bytes},   {"arguments", arguments}};
}

void PrintLaunch(const KernelLaunch& launch) {
  const Custom& work = std::get<Custom>(launch.kernel.work);
  fmt::print("  grid    {} blocks of {} threads, {} bytes of dynamic shared memory\n", Text(launch.grid),
             Text(launch.block), launch.shared_bytes);
  fmt::print("  work    {:L} FLOPs, {:L} bytes\n", work.flops, work.bytes);
  if (launch.arguments.empty()) return;
  terminal::TextTable table({"argument", "value"});
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const LaunchArgument& argument = launch.arguments[i];
    table.Add({argument.name.empty() ? fmt::format("[{}]", i) : argument.name, Text(argument)});
  }
  fmt::print("\n{}", table.Render());
}

// The shape that is given, else one within the ranges.
absl::Status Check(const KernelsArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const KernelManifest manifest, wire::ReadManifestFile(args.manifest));
  GPUETA_ASSIGN_OR_RETURN(const std::string code, CheckCode(manifest, args.manifest));
  GPUETA_ASSIGN_OR_RETURN(SymbolValues shape, ParseShape(args.shape));
  if (shape.empty()) {
    const auto sampled = SampleShapes(manifest, 1, kAnyMemory, globals.seed);
    if (!sampled.ok()) return Prefixed(sampled.status(), args.manifest);
    shape = sampled->front();
  }
  const absl::StatusOr<KernelLaunch> launch = LaunchOf(manifest, shape);
  if (!launch.ok()) return Prefixed(launch.status(), args.manifest);
  if (globals.json) {
    nlohmann::json out = Json(*launch);
    out.update({{"name", manifest.name}, {"dtype", Name(manifest.dtype)}, {"code", code}, {"shape", shape}});
    fmt::print("{}\n", out.dump(2));
    return absl::OkStatus();
  }
  fmt::print("{}, {}\n  code    {}\n  shape   {}{}\n", manifest.name, Name(manifest.dtype), code,
             DescribeShape(manifest, shape), args.shape.empty() ? " (an example; give others as DIM=N)" : "");
  PrintLaunch(*launch);
  return absl::OkStatus();
}

absl::Status Sample(const KernelsArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const KernelManifest manifest, wire::ReadManifestFile(args.manifest));
  std::int64_t memory_bytes = kAnyMemory;
  if (!args.device.empty()) {
    GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, Catalogue::BuiltIn().Get(args.device));
    if (spec.memory_gb > 0) memory_bytes = static_cast<std::int64_t>(kMemoryShare * spec.memory_gb * kBytesOfGb);
  }
  const auto shapes = SampleShapes(manifest, args.count, memory_bytes, globals.seed);
  if (!shapes.ok()) return Prefixed(shapes.status(), args.manifest);
  std::string csv;
  for (const KernelManifest::Dim& dim : manifest.dims) csv += (csv.empty() ? "" : ",") + dim.name;
  csv += '\n';
  for (const SymbolValues& shape : *shapes) {
    std::string line;
    for (const KernelManifest::Dim& dim : manifest.dims)
      line += fmt::format("{}{}", line.empty() ? "" : ",", shape.at(dim.name));
    csv += line + '\n';
  }
  GPUETA_RETURN_IF_ERROR(WriteWholeFile(args.out, csv));
  if (globals.json) {
    fmt::print("{}\n", nlohmann::json{{"shapes", shapes->size()}, {"path", args.out}}.dump());
  } else {
    fmt::print("{} shapes written to {}; measure them, add a column {}, and make rows of them by gpueta kernels rows\n",
               shapes->size(), args.out, kLatencyColumn);
  }
  return absl::OkStatus();
}

// One row of a CSV whose columns are dims and, maybe, the latency.
absl::StatusOr<Measurement> RowOf(const KernelManifest& manifest, const CsvReader& csv) {
  SymbolValues shape;
  std::optional<double> latency_us;
  for (std::size_t i = 0; i < csv.columns().size(); ++i) {
    const std::string& column = csv.columns()[i];
    if (column == kLatencyColumn) {
      GPUETA_ASSIGN_OR_RETURN(latency_us, csv.Number(i));
      if (!(*latency_us > 0) || *latency_us > kLargestLatencyUs)
        return csv.ErrorInCell(i, fmt::format("must be above 0 and at most {}", kLargestLatencyUs));
    } else {
      GPUETA_ASSIGN_OR_RETURN(shape[column], csv.Integer(i));
    }
  }
  const absl::StatusOr<KernelLaunch> launch = LaunchOf(manifest, shape);
  if (!launch.ok()) return csv.ErrorInRow(MessageOf(launch.status()));
  Measurement row;
  row.kernel = launch->kernel;
  row.latency_us = latency_us.value_or(0);
  row.kernels = latency_us.has_value() ? 1 : 0;
  return row;
}

absl::Status Rows(const KernelsArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const KernelManifest manifest, wire::ReadManifestFile(args.manifest));
  const auto timing = std::ranges::find(kAllTimings, args.timing, [](Timing t) { return Name(t); });
  std::ifstream in(args.shapes, std::ios::binary);
  if (!in) return NotFound("{}: cannot open", args.shapes);
  GPUETA_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(in, args.shapes));
  std::vector<Measurement> rows;
  while (csv.Next()) {
    GPUETA_ASSIGN_OR_RETURN(Measurement row, RowOf(manifest, csv));
    row.device = args.device;
    row.source = std::filesystem::path(args.shapes).filename().string();
    row.timing = *timing;
    rows.push_back(std::move(row));
  }
  GPUETA_RETURN_IF_ERROR(csv.status());
  GPUETA_RETURN_IF_ERROR(WriteMeasurementFiles(args.out, rows));
  if (globals.json) {
    fmt::print("{}\n", nlohmann::json{{"rows", rows.size()}, {"path", args.out}}.dump());
  } else {
    fmt::print("{} rows of {} written to {}\n", rows.size(), manifest.name, args.out);
  }
  return absl::OkStatus();
}

CLI::App* AddOne(CLI::App& kernels, const char* name, const char* what, KernelsArgs& args) {
  CLI::App* command = kernels.add_subcommand(name, what);
  command->add_option("MANIFEST", args.manifest, "The kernel's manifest, see examples/kernels")
      ->required()
      ->check(CLI::ExistingFile);
  return command;
}

}  // namespace

void AddKernels(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<KernelsArgs>();
  CLI::App* kernels = app.add_subcommand("kernels", "Kernels of your own, by their manifests");
  kernels->require_subcommand(1);
  const auto runs = [&](CLI::App* command, absl::Status (*run)(const KernelsArgs&, const Globals&)) {
    command->callback(
        [args, run, &globals, &chosen] { chosen = [args, run, &globals] { return run(*args, globals); }; });
  };

  CLI::App* check = AddOne(*kernels, "check", "Whether a manifest is right, and what it says of a shape", *args);
  check->add_option("SHAPE", args->shape, "Dims as DIM=N (default: a shape within their ranges)");
  runs(check, Check);

  CLI::App* sample = AddOne(*kernels, "sample", "Shapes to measure, as a CSV with a column for each dim", *args);
  sample->add_option("-n,--count", args->count, "How many")->capture_default_str()->check(CLI::Range(1, 1'000'000));
  sample->add_option("--device", args->device, "Shapes that fit into half of this device's memory");
  sample->add_option("--out", args->out, "CSV to write")->required();
  runs(sample, Sample);

  CLI::App* rows =
      AddOne(*kernels, "rows", "Shapes, measured or not, to rows for fit, eval and predict --kernels", *args);
  rows->add_option("SHAPES", args->shapes, "CSV with a column for each dim and, if measured, latency_us")
      ->required()
      ->check(CLI::ExistingFile);
  rows->add_option("--device", args->device, "Slug of the device")->required();
  rows->add_option("--timing", args->timing, "What the latencies include")
      ->capture_default_str()
      ->check(CLI::IsMember({"eager", "graph", "kernel"}));
  rows->add_option("--out", args->out, "CSV to write")->required();
  runs(rows, Rows);
}

}  // namespace gpueta::cli
