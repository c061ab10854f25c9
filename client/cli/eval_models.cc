#include "client/cli/eval_models.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "core/base/errors.h"

namespace gpueta::cli {
namespace {

constexpr std::array<std::string_view, 12> kColumns = {"device",     "source",     "model",     "mode",
                                                       "options",    "dtype",      "batch",     "seq_len",
                                                       "image_size", "provenance", "estimator", "size"};

GroupValue NumberValue(std::int64_t number) {
  return number > 0 ? NumberOrText(std::to_string(number)) : TextValue("");
}

// `name` as CheckModelColumns has passed it.
GroupValue ValueOf(std::string_view name, const ModelMeasurement& row, const GraphEstimate& estimate) {
  if (name == "device") return TextValue(row.device);
  if (name == "source") return TextValue(row.source);
  if (name == "model") return TextValue(row.model);
  if (name == "mode") return TextValue(Name(row.mode));
  if (name == "options") return TextValue(row.options);
  if (name == "dtype") return TextValue(Name(row.dtype));
  if (name == "batch") return NumberValue(row.batch);
  if (name == "seq_len") return NumberValue(row.seq_len);
  if (name == "image_size") return NumberValue(row.image_size);
  if (name == "size") return DecadeOf(1e3 * row.latency_ms);
  if (name == "estimator") return TextValue(estimate.estimator);
  const auto largest =
      std::ranges::max_element(estimate.provenance, {}, [](const auto& share) { return share.second; });
  return TextValue(largest == estimate.provenance.end() ? "" : Name(largest->first));
}

absl::StatusOr<GraphEstimate> Predict(const ModelRun& run, const EvalQuestion& question, Predictors& predictors) {
  GPUETA_ASSIGN_OR_RETURN(const Predictor* predictor,
                          predictors.For(question.device.empty() ? run.measured.device : question.device));
  return predictor->EstimateGraph(*run.graph, run.dims, {.estimator = question.estimator});
}

}  // namespace

absl::Status CheckModelColumns(const std::vector<std::string>& names) {
  return CheckNames(names, {kColumns.begin(), kColumns.end()});
}

absl::StatusOr<JudgedGroups> JudgeModels(const std::vector<ModelRun>& runs, const EvalQuestion& question,
                                         Predictors& predictors) {
  JudgedGroups judged;
  std::map<std::vector<GroupValue>, std::vector<PredictedAndObserved>> members;
  for (const ModelRun& run : runs) {
    const absl::StatusOr<GraphEstimate> estimate = Predict(run, question, predictors);
    if (!estimate.ok()) {
      const absl::Status status = Prefixed(estimate.status(), run.where);
      if (!question.leave_out) return status;
      CountUnanswered(status, "estimator " + question.estimator, judged.unanswered);
      continue;
    }
    std::vector<GroupValue> values;
    for (const std::string& column : question.by) values.push_back(ValueOf(column, run.measured, *estimate));
    // What is odd about a model is odd in any batch and on any device.
    const auto shape = static_cast<std::uint32_t>(std::hash<std::string>{}(run.measured.model));
    members[std::move(values)].push_back({estimate->latency_us, 1e3 * run.measured.latency_ms, shape});
  }
  for (const auto& [values, pairs] : members) {
    report::EvalGroup& group = judged.groups.emplace_back(SummaryOf(pairs, question.seed));
    group.spearman = RankCorrelation(pairs);
    for (const GroupValue& value : values) group.by.push_back(value.text);
  }
  return judged;
}

}  // namespace gpueta::cli
