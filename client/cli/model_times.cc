#include "client/cli/model_times.h"

#include <map>
#include <tuple>

#include "client/cli/model_input.h"
#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/graph/passes/eager.h"
#include "core/measurements/model_measurements.h"

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

// Each model is read once for a dtype and mode.
class Graphs {
 public:
  explicit Graphs(std::string attention) : attention_(std::move(attention)) {}

  absl::StatusOr<const Graph*> For(const std::string& path, const ModelMeasurement& row) {
    const std::tuple key(path, row.dtype, row.mode);
    const auto found = read_.find(key);
    if (found != read_.end()) return &found->second;
    RunArgs run;
    run.dtype = Name(row.dtype);
    run.train = row.mode == ModelMeasurement::Mode::kTrain;
    run.optimiser = "none";
    if (path.ends_with(".json")) run.attention = attention_;
    GPUETA_ASSIGN_OR_RETURN(Graph graph, ReadModelAsRun(path, run));
    RestoreFolded(graph);  // times are of frameworks on GPUs
    return &read_.emplace(key, std::move(graph)).first->second;
  }

 private:
  std::string attention_;
  std::map<std::tuple<std::string, DType, ModelMeasurement::Mode>, Graph> read_;
};

absl::StatusOr<ModelTime> TimeOf(const ModelMeasurement& row, const std::string& path, Graphs& graphs) {
  GPUETA_ASSIGN_OR_RETURN(const Graph* graph, graphs.For(path, row));
  DimArgs dims;
  dims.batch = row.batch;
  if (row.seq_len > 0) dims.seq = row.seq_len;
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues symbols, SymbolsOf(*graph, dims));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, KernelsThatRun(*graph, symbols));
  GPUETA_ASSIGN_OR_RETURN(const std::int64_t input_bytes, InputBytes(*graph, symbols));
  return ModelTime{.device = Catalogue::BuiltIn().CanonicalSlug(row.device),
                   .run = row.options.empty() ? row.source : row.source + " " + row.options,
                   .parts = PartsOf(kernels),
                   .input_bytes = static_cast<double>(input_bytes),
                   .latency_us = 1e3 * row.latency_ms};
}

absl::StatusOr<std::vector<ModelTime>> Read(const ModelTimeArgs& args, const std::string* slug) {
  GPUETA_ASSIGN_OR_RETURN(const auto paths, PathsByName(args.graphs));
  const Catalogue& catalogue = Catalogue::BuiltIn();
  std::map<std::string, int> used;
  Graphs graphs(args.attention);
  std::vector<ModelTime> times;
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
      absl::StatusOr<ModelTime> time = TimeOf(row, path->second, graphs);
      if (!time.ok()) return Prefixed(time.status(), fmt::format("{}:{}", file, row.line));
      times.push_back(*std::move(time));
    }
  }
  for (const auto& [name, path] : paths) {
    if (!used.contains(name))
      return InvalidArgument("--graph {}={}: no row of --model-measurements has this model", name, path);
  }
  if (times.empty()) return InvalidArgument("--model-measurements: give the models' graphs by --graph NAME=MODEL");
  return times;
}

}  // namespace

absl::StatusOr<std::vector<ModelTime>> ReadModelTimes(const ModelTimeArgs& args) { return Read(args, nullptr); }

absl::StatusOr<std::vector<ModelTime>> ReadModelTimesOf(const ModelTimeArgs& args, const std::string& slug) {
  return Read(args, &slug);
}

}  // namespace gpueta::cli
