#include "client/cli/model_times.h"

#include <CLI/CLI.hpp>
#include <map>
#include <tuple>

#include "client/cli/model_input.h"
#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/graph/passes/eager.h"

namespace gpueta::cli {
namespace {

absl::StatusOr<std::map<std::string, std::string>> PathsByName(const std::vector<std::string>& graphs) {
  std::map<std::string, std::string> paths;
  for (const std::string& text : graphs) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return InvalidArgument("--graph {}: must be NAME=MODEL", text);
    if (!paths.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      return InvalidArgument("--graph {}: the name is given twice", text);
  }
  return paths;
}

bool RunsOnCpu(const std::string& slug) {
  const CatalogueEntry* entry = Catalogue::BuiltIn().Find(slug);
  return entry != nullptr ? IsCpu(entry->spec) : slug.starts_with("cpu");
}

// Each model is read once for a dtype, mode and kind of device.
class Graphs {
 public:
  explicit Graphs(std::string attention) : attention_(std::move(attention)) {}

  absl::StatusOr<std::shared_ptr<const Graph>> For(const std::string& path, const ModelMeasurement& row) {
    const bool on_cpu = RunsOnCpu(row.device);
    const std::tuple key(path, row.dtype, row.mode, on_cpu);
    const auto found = read_.find(key);
    if (found != read_.end()) return found->second;
    RunArgs run;
    run.dtype = Name(row.dtype);
    run.train = row.mode == ModelMeasurement::Mode::kTrain;
    run.optimiser = "none";
    if (path.ends_with(".json")) run.attention = attention_;
    GPUETA_ASSIGN_OR_RETURN(Graph graph, ReadModelAsRun(path, run));
    if (!on_cpu) RestoreFolded(graph);
    return read_.emplace(key, std::make_shared<const Graph>(std::move(graph))).first->second;
  }

 private:
  std::string attention_;
  std::map<std::tuple<std::string, DType, ModelMeasurement::Mode, bool>, std::shared_ptr<const Graph>> read_;
};

absl::StatusOr<ModelRun> RunOf(ModelMeasurement row, const std::string& file, const std::string& path, Graphs& graphs) {
  ModelRun run;
  run.where = fmt::format("{}:{}", file, row.line);
  GPUETA_ASSIGN_OR_RETURN(run.graph, graphs.For(path, row));
  DimArgs dims;
  dims.batch = row.batch;
  if (row.seq_len > 0) dims.seq = row.seq_len;
  GPUETA_ASSIGN_OR_RETURN(run.dims, SymbolsOf(*run.graph, dims));
  run.measured = std::move(row);
  run.measured.device = Catalogue::BuiltIn().CanonicalSlug(run.measured.device);
  return run;
}

absl::StatusOr<std::vector<ModelRun>> Read(const ModelRunArgs& args, const std::string* slug) {
  GPUETA_ASSIGN_OR_RETURN(const auto paths, PathsByName(args.graphs));
  const Catalogue& catalogue = Catalogue::BuiltIn();
  std::map<std::string, int> used;
  Graphs graphs(args.attention);
  std::vector<ModelRun> runs;
  for (const std::string& file : args.files) {
    GPUETA_ASSIGN_OR_RETURN(const std::vector<ModelMeasurement> rows, ReadModelMeasurementFile(file));
    for (const ModelMeasurement& row : rows) {
      if (slug != nullptr && catalogue.CanonicalSlug(row.device) != catalogue.CanonicalSlug(*slug)) {
        return InvalidArgument("{}:{}:device: is {}, but --device is {}; keep only its rows", file, row.line,
                               row.device, *slug);
      }
      const auto path = paths.find(row.model);
      if (path == paths.end()) continue;
      ++used[row.model];
      absl::StatusOr<ModelRun> run = RunOf(row, file, path->second, graphs);
      if (!run.ok()) return Prefixed(run.status(), fmt::format("{}:{}", file, row.line));
      runs.push_back(*std::move(run));
    }
  }
  for (const auto& [name, path] : paths) {
    if (!used.contains(name))
      return InvalidArgument("--graph {}={}: no row of --model-measurements has this model", name, path);
  }
  if (runs.empty()) return InvalidArgument("--model-measurements: give the models' graphs by --graph NAME=MODEL");
  return runs;
}

absl::StatusOr<ModelTime> TimeOf(const ModelRun& run) {
  const ModelMeasurement& row = run.measured;
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, KernelsThatRun(*run.graph, run.dims));
  GPUETA_ASSIGN_OR_RETURN(const std::int64_t input_bytes, InputBytes(*run.graph, run.dims));
  return ModelTime{.device = row.device,
                   .run = row.options.empty() ? row.source : row.source + " " + row.options,
                   .parts = PartsOf(kernels),
                   .work = StepWorkOf(kernels),
                   .input_bytes = static_cast<double>(input_bytes),
                   .latency_us = 1e3 * row.latency_ms};
}

absl::StatusOr<std::vector<ModelTime>> TimesOf(const ModelRunArgs& args, const std::string* slug) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<ModelRun> runs, Read(args, slug));
  std::vector<ModelTime> times;
  for (const ModelRun& run : runs) {
    absl::StatusOr<ModelTime> time = TimeOf(run);
    if (!time.ok()) return Prefixed(time.status(), run.where);
    times.push_back(*std::move(time));
  }
  return times;
}

}  // namespace

void AddModelRunOptions(CLI::App& command, CLI::Option* files, ModelRunArgs& args) {
  command
      .add_option(
          "--graph", args.graphs,
          "NAME=MODEL: the .onnx, config.json or graph file of a model in --model-measurements; may be repeated")
      ->needs(files);
  command.add_option("--attention", args.attention, "Of models from a config.json: fused or written-out")
      ->capture_default_str()
      ->needs(files);
}

absl::StatusOr<std::vector<ModelRun>> ReadModelRuns(const ModelRunArgs& args) { return Read(args, nullptr); }

absl::StatusOr<std::vector<ModelTime>> ReadModelTimes(const ModelRunArgs& args) { return TimesOf(args, nullptr); }

absl::StatusOr<std::vector<ModelTime>> ReadModelTimesOf(const ModelRunArgs& args, const std::string& slug) {
  return TimesOf(args, &slug);
}

}  // namespace gpueta::cli
