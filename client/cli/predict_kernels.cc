#include "client/cli/predict_kernels.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "client/cli/inputs.h"
#include "core/base/csv.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"

namespace gpueta::cli {
namespace {

// The file's lines as they stand, without line ends.
absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("{}: cannot open", path);
  std::vector<std::string> lines;
  LineReader reader(in);
  while (const auto line = reader.Next()) {
    lines.emplace_back(*line);
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
  }
  GPUETA_RETURN_IF_ERROR(reader.status());
  return lines;
}

}  // namespace

absl::Status PredictKernels(const PredictKernelsArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> rows,
                          ReadMeasurementFile(args.kernels, {.ignore_latency = true}));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(args.kernels));
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const Snapshot> snapshot, OpenSnapshot(globals, args.profile_paths));
  Predictors predictors(std::move(snapshot));
  if (!args.spec.empty()) {
    GPUETA_ASSIGN_OR_RETURN(DeviceSpec spec, ReadSpec("", args.spec));
    if (spec.slug.empty() && args.devices.size() == 1) spec.slug = args.devices.front();
    predictors.Add(spec);
  }
  const bool own_device = args.devices.empty();
  // A predicted device is a column of its own only where it is not the row's.
  std::string out = lines.front() + (own_device ? "" : ",predicted_device") +
                    ",p50_us,p90_us,p99_us,provenance,correction,estimator\n";
  const std::vector<std::string> once = {""};
  std::size_t predicted = 0;
  for (const std::string& device : own_device ? once : args.devices) {
    for (const Measurement& row : rows) {
      const std::string& slug = own_device ? row.device : device;
      if (slug.empty())
        return InvalidArgument("{}:{}: no device; add a device column or give --device", args.kernels, row.line);
      GPUETA_ASSIGN_OR_RETURN(const Predictor* predictor, predictors.For(slug));
      const absl::StatusOr<Estimate> estimate =
          predictor->EstimateKernel(row.kernel, {.timing = row.timing, .estimator = args.estimator});
      if (!estimate.ok()) return Prefixed(estimate.status(), fmt::format("{}:{}", args.kernels, row.line));
      const Quantiles& q = estimate->latency_us;
      out += lines[static_cast<std::size_t>(row.line - 1)];
      if (!own_device) out += "," + slug;
      out += fmt::format(",{:.6g},{:.6g},{:.6g},{},{:.6g},{}\n", q.p50, q.p90, q.p99, Name(estimate->provenance),
                         estimate->correction, estimate->estimator);
      ++predicted;
    }
  }
  GPUETA_RETURN_IF_ERROR(WriteWholeFile(args.out, out));
  if (globals.json) {
    fmt::print("{}\n", nlohmann::json{{"rows", predicted}, {"path", args.out}}.dump());
  } else {
    fmt::print("{} estimates written to {}\n", predicted, args.out);
  }
  return absl::OkStatus();
}

}  // namespace gpueta::cli
