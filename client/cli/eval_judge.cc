#include "client/cli/eval_judge.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "core/base/errors.h"
#include "core/feedback/nearest.h"
#include "core/measurements/table_of.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kNeighbours = 3;

absl::StatusOr<JudgedRow> Predict(const Measurement& row, const EvalQuestion& question, Predictors& predictors) {
  JudgedRow judged{.measured = &row, .options = {.timing = row.timing, .estimator = question.estimator}};
  const std::string where = fmt::format("line {}", row.line);
  const auto predictor = predictors.For(question.device.empty() ? row.device : question.device);
  if (!predictor.ok()) return Prefixed(predictor.status(), where);
  judged.predictor = *predictor;
  const absl::StatusOr<Estimate> estimate = judged.predictor->EstimateKernel(row.kernel, judged.options);
  if (!estimate.ok()) return Prefixed(estimate.status(), where);
  judged.estimate = *estimate;
  return judged;
}

report::EvalGroup Summary(const Judged& judged, const std::vector<std::size_t>& members, std::uint64_t seed) {
  const auto pairs_of = [&](const std::vector<JudgedRow>& rows) {
    std::vector<PredictedAndObserved> pairs;
    for (const std::size_t i : members) pairs.push_back(PairOf(rows[i]));
    return pairs;
  };
  const std::vector<PredictedAndObserved> pairs = pairs_of(judged.rows);
  report::EvalGroup group = SummaryOf(pairs, seed);
  if (judged.compared) {
    const std::vector<PredictedAndObserved> others = pairs_of(judged.against);
    group.against = {Summarise(others), IntervalsOf(others, seed), ComparePaired(pairs, others, seed)};
  }
  return group;
}

double ApeOf(const JudgedRow& row) { return std::abs(row.estimate.latency_us.p50 / row.measured->latency_us - 1); }

absl::StatusOr<report::WorstShape> Describe(const JudgedRow& row, std::int64_t rows,
                                            const std::vector<Measurement>& measured_with) {
  const Measurement& measured = *row.measured;
  const std::string& device = row.predictor->spec().slug;
  report::WorstShape shape{.device = device,
                           .kernel = fmt::format("{}, {}", gpueta::Describe(measured.kernel), Name(measured.timing)),
                           .rows = rows,
                           .pair = PairOf(row),
                           .provenance = row.estimate.provenance};
  GPUETA_ASSIGN_OR_RETURN(shape.shares, row.predictor->Regime(measured.kernel, row.options));
  shape.regime = LargestOf(shape.shares, measured.kernel.op());
  GPUETA_ASSIGN_OR_RETURN(Explanation explanation, row.predictor->Explain(measured.kernel, row.options));
  shape.notes = std::move(explanation.notes);
  for (const NearMeasurement& near : NearestMeasurements(measured, device, measured_with, kNeighbours)) {
    GPUETA_ASSIGN_OR_RETURN(const Estimate estimate, row.predictor->EstimateKernel(near.row->kernel, row.options));
    shape.nearest.push_back(
        {gpueta::Describe(near.row->kernel), near.octaves, near.row->latency_us, estimate.latency_us.p50});
  }
  return shape;
}

}  // namespace

report::EvalGroup SummaryOf(const std::vector<PredictedAndObserved>& pairs, std::uint64_t seed) {
  report::EvalGroup group;
  group.errors = Summarise(pairs);
  group.intervals = IntervalsOf(pairs, seed);
  return group;
}

void CountUnanswered(const absl::Status& status, std::string_view side, std::vector<Unanswered>& unanswered) {
  const auto it = std::ranges::find(unanswered, side, &Unanswered::side);
  if (it != unanswered.end()) {
    ++it->rows;
  } else {
    unanswered.push_back({std::string(side), MessageOf(status), 1});
  }
}

PredictedAndObserved PairOf(const JudgedRow& row) {
  return {row.estimate.latency_us, row.measured->latency_us, HashOf(row.measured->kernel)};
}

absl::StatusOr<Judged> Judge(const std::vector<Measurement>& rows, const EvalQuestion& question, Predictors& predictors,
                             Predictors* against) {
  Judged judged{.compared = against != nullptr};
  for (const Measurement& row : rows) {
    if (!TableOf(row).has_value()) {
      CountUnanswered(absl::UnimplementedError(fmt::format("line {}: {}: a gradient, of which there are no tables",
                                                           row.line, gpueta::Describe(row.kernel))),
                      "profile", judged.unanswered);
      continue;
    }
    absl::StatusOr<JudgedRow> first = Predict(row, question, predictors);
    if (!judged.compared) {
      if (question.leave_out && !first.ok()) {
        CountUnanswered(first.status(), "estimator " + question.estimator, judged.unanswered);
        continue;
      }
      GPUETA_RETURN_IF_ERROR(first.status());
      judged.rows.push_back(*std::move(first));
      continue;
    }
    absl::StatusOr<JudgedRow> second = Predict(row, question, *against);
    if (!first.ok()) CountUnanswered(first.status(), "profile", judged.unanswered);
    if (!second.ok()) CountUnanswered(second.status(), "against", judged.unanswered);
    if (!first.ok() || !second.ok()) continue;
    judged.rows.push_back(*std::move(first));
    judged.against.push_back(*std::move(second));
  }
  return judged;
}

absl::StatusOr<std::vector<report::EvalGroup>> Group(const Judged& judged, const EvalQuestion& question) {
  if (question.by.empty()) return std::vector{Whole(judged, question)};
  std::map<std::vector<GroupValue>, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < judged.rows.size(); ++i) {
    std::vector<GroupValue> values;
    for (const std::string& column : question.by) {
      GPUETA_ASSIGN_OR_RETURN(GroupValue value, ValueOf(column, judged.rows[i]));
      values.push_back(std::move(value));
    }
    members[std::move(values)].push_back(i);
  }
  std::vector<report::EvalGroup> groups;
  for (const auto& [values, rows] : members) {
    groups.push_back(Summary(judged, rows, question.seed));
    for (const GroupValue& value : values) groups.back().by.push_back(value.text);
  }
  return groups;
}

report::EvalGroup Whole(const Judged& judged, const EvalQuestion& question) {
  std::vector<std::size_t> members(judged.rows.size());
  std::iota(members.begin(), members.end(), std::size_t{0});
  return Summary(judged, members, question.seed);
}

absl::StatusOr<std::vector<report::WorstShape>> WorstShapes(const Judged& judged, std::size_t count,
                                                            const std::vector<Measurement>& measured_with) {
  struct Shape {
    const JudgedRow* worst = nullptr;
    std::int64_t rows = 0;
  };
  std::map<std::tuple<const Predictor*, TableKey, std::uint32_t>, std::size_t> index;
  std::vector<Shape> shapes;  // in order of first occurrence, so that ties stay in the order of the rows
  for (const JudgedRow& row : judged.rows) {
    const Measurement& measured = *row.measured;
    const auto [it, is_new] = index.try_emplace(
        {row.predictor, KeyOf(measured.kernel, measured.timing), HashOf(measured.kernel)}, shapes.size());
    if (is_new) shapes.push_back({&row, 0});
    Shape& shape = shapes[it->second];
    ++shape.rows;
    if (ApeOf(row) > ApeOf(*shape.worst)) shape.worst = &row;
  }
  std::stable_sort(shapes.begin(), shapes.end(),
                   [](const Shape& a, const Shape& b) { return ApeOf(*a.worst) > ApeOf(*b.worst); });
  shapes.resize(std::min(shapes.size(), count));
  std::vector<report::WorstShape> out;
  for (const Shape& shape : shapes) {
    GPUETA_ASSIGN_OR_RETURN(report::WorstShape described, Describe(*shape.worst, shape.rows, measured_with));
    out.push_back(std::move(described));
  }
  return out;
}

absl::StatusOr<report::EvalReport> ReportOf(const Judged& judged, const EvalQuestion& question, std::size_t worst,
                                            const std::vector<Measurement>& measured_with) {
  report::EvalReport page;
  page.columns = question.by;
  GPUETA_ASSIGN_OR_RETURN(page.groups, Group(judged, question));
  page.all = Whole(judged, question);
  for (const JudgedRow& row : judged.rows) page.points.push_back({PairOf(row), row.estimate.provenance});
  page.knows_neighbours = !measured_with.empty();
  GPUETA_ASSIGN_OR_RETURN(page.worst, WorstShapes(judged, worst, measured_with));
  return page;
}

}  // namespace gpueta::cli
