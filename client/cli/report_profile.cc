#include "client/cli/report_profile.h"

#include <fmt/format.h>

#include "client/cli/eval_judge.h"
#include "client/cli/inputs.h"
#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/sampling/sampling.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kShapesOfATable = 150;
constexpr std::size_t kMostPoints = 2000;  // of the roofline

// Shapes as models have them, at the latencies that the profile predicts.
std::vector<report::RooflinePoint> PredictedPoints(const Profile& profile, const Predictor& predictor,
                                                   std::uint64_t seed) {
  std::vector<report::RooflinePoint> points;
  for (const Table& table : profile.tables) {
    const absl::StatusOr<std::vector<Kernel>> shapes =
        GenerateShapes(table.key.op, table.key.dtype, kShapesOfATable, seed, &profile.spec);
    if (!shapes.ok()) continue;  // collectives and custom kernels have no generator
    for (const Kernel& kernel : *shapes) {
      if (KeyOf(kernel, table.key.timing) != table.key) continue;
      const absl::StatusOr<Estimate> estimate = predictor.EstimateKernel(kernel, {.timing = table.key.timing});
      if (estimate.ok()) points.push_back({kernel, estimate->latency_us.p50});
    }
  }
  return points;
}

// Evenly over the rows, at most kMostPoints.
std::vector<report::RooflinePoint> MeasuredPoints(const std::vector<JudgedRow>& rows) {
  std::vector<report::RooflinePoint> points;
  const std::size_t shown = std::min(rows.size(), kMostPoints);
  for (std::size_t i = 0; i < shown; ++i) {
    const Measurement& row = *rows[i * rows.size() / shown].measured;
    points.push_back({row.kernel, row.latency_us});
  }
  return points;
}

std::string LabelsOf(const Profile& profile) {
  std::string text;
  for (const auto& [key, value] : profile.labels) text += fmt::format("; {} = {}", key, value);
  return text;
}

}  // namespace

absl::StatusOr<report::ProfileReport> MakeProfileReport(const std::string& path,
                                                        const std::vector<std::string>& measurements,
                                                        const Globals& globals) {
  report::ProfileReport page;
  GPUETA_ASSIGN_OR_RETURN(page.loaded, LoadProfile(path));
  const Profile& profile = page.loaded.profile;
  page.facts.push_back(fmt::format("Profile {} of {}, {} bytes{}. gpueta {}.", page.loaded.id, profile.device,
                                   page.loaded.size_bytes, LabelsOf(profile), GPUETA_VERSION));
  if (profile.transfer) {
    if (!measurements.empty()) {
      return InvalidArgument("--measurements: {} is of {} devices and answers for none by itself", path,
                             profile.pool.size());
    }
    page.facts.push_back(fmt::format(
        "It is pooled over {} devices and answers for those without a profile of their own.", profile.pool.size()));
    return page;
  }
  std::vector<ActiveProfile> active;
  active.push_back({page.loaded, "", 0});
  GPUETA_ASSIGN_OR_RETURN(const std::shared_ptr<const Snapshot> snapshot, Snapshot::Build(std::move(active)));
  Predictors predictors(snapshot);
  GPUETA_ASSIGN_OR_RETURN(const Predictor* predictor, predictors.For(profile.device));
  if (measurements.empty()) {
    page.points = PredictedPoints(profile, *predictor, globals.seed);
    return page;
  }
  GPUETA_ASSIGN_OR_RETURN(std::vector<Measurement> rows, ReadMeasurementFiles(measurements));
  const Catalogue& catalogue = Catalogue::BuiltIn();
  const std::size_t all = rows.size();
  std::erase_if(rows, [&](const Measurement& row) {
    return catalogue.CanonicalSlug(row.device) != catalogue.CanonicalSlug(profile.device);
  });
  if (rows.empty()) {
    return InvalidArgument("{}: none of the {} rows is of {}, the profile's device", fmt::join(measurements, ", "), all,
                           profile.device);
  }
  EvalQuestion question;
  question.device = profile.device;
  question.seed = globals.seed;
  question.by = {"table", "provenance"};
  GPUETA_ASSIGN_OR_RETURN(const Judged judged, Judge(rows, question, predictors, nullptr));
  constexpr std::size_t kWorstShown = 20;
  GPUETA_ASSIGN_OR_RETURN(page.judged, ReportOf(judged, question, kWorstShown, {}));
  page.facts.push_back(
      fmt::format("Judged on {} rows of {}. Those called measured it remembers one by one; of the others it may have "
                  "been fitted to "
                  "some.",
                  rows.size(), fmt::join(measurements, ", ")));
  page.points = MeasuredPoints(judged.rows);
  return page;
}

}  // namespace gpueta::cli
