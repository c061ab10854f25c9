// `gpueta eval`: predictions against measurements.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "client/cli/command.h"
#include "client/cli/eval_judge.h"
#include "client/cli/eval_models.h"
#include "client/cli/eval_print.h"
#include "client/cli/inputs.h"
#include "client/cli/json.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kWorstShown = 20;

struct EvalArgs {
  std::vector<std::string> profile_paths;
  std::vector<std::string> against;
  std::vector<std::string> measurements;
  std::vector<std::string> measured_with;
  ModelRunArgs models;
  EvalQuestion question;
  std::vector<std::string> estimators;  // several: each judged by itself
  std::string html;
};

// The profiles that answered, e.g. "t4 (profile 1a2b…)".
std::string Answering(const std::vector<JudgedRow>& rows) {
  std::set<std::string> names;
  for (const JudgedRow& row : rows) {
    const LoadedProfile* own = row.predictor->profile();
    names.insert(fmt::format("{} ({})", row.predictor->spec().slug,
                             own == nullptr ? "no profile of its own" : "profile " + own->id));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

absl::Status WriteReport(const EvalArgs& args, const Judged& judged, const std::vector<std::string>& notes) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> measured_with, ReadMeasurementFiles(args.measured_with));
  GPUETA_ASSIGN_OR_RETURN(report::EvalReport page, ReportOf(judged, args.question, kWorstShown, measured_with));
  page.facts.push_back(fmt::format("{} rows of {}.", judged.rows.size(), fmt::join(args.measurements, ", ")));
  page.facts.push_back(fmt::format("Predicted for {}.", Answering(judged.rows)));
  if (judged.compared) page.facts.push_back(fmt::format("The other is {}.", Answering(judged.against)));
  for (const std::string& note : notes) page.facts.push_back(note + ".");
  page.facts.push_back(fmt::format("gpueta {}, seed {}.", GPUETA_VERSION, args.question.seed));
  return WriteWholeFile(args.html, report::RenderEvalReport(page));
}

// An error if no row was judged.
absl::Status CheckAny(const EvalArgs& args, const std::vector<Measurement>& rows, const Judged& judged) {
  if (rows.empty()) return InvalidArgument("{}: no measurements to judge", fmt::join(args.measurements, ", "));
  if (!judged.rows.empty()) return absl::OkStatus();
  const Unanswered& side = judged.unanswered.front();
  return FailedPrecondition("no row can be answered by both sides; --{} fails on {} of {}, the first is {}", side.side,
                            side.rows, rows.size(), side.reason);
}

// What is judged by one estimator: rows of kernels or whole models.
using JudgeBy = std::function<absl::StatusOr<JudgedGroups>(const EvalQuestion&)>;

absl::Status Print(const std::vector<std::string>& columns, const std::vector<report::EvalGroup>& groups,
                   const std::vector<std::string>& notes, const Globals& globals) {
  if (globals.json) {
    fmt::print("{}\n", Dump(EvalJson(columns, groups, Judged{})));
    return absl::OkStatus();
  }
  fmt::print("{}", EvalText(columns, groups));
  for (const std::string& note : notes) fmt::print("note: {}\n", note);
  return absl::OkStatus();
}

// The rungs of a ladder side by side, on the rows that each can answer.
absl::Status EvalEstimators(const EvalArgs& args, const JudgeBy& judge, const Globals& globals) {
  std::vector<std::string> columns = {"asked"};
  columns.insert(columns.end(), args.question.by.begin(), args.question.by.end());
  std::vector<report::EvalGroup> all;
  std::vector<std::string> notes;
  for (const std::string& name : args.estimators) {
    EvalQuestion question = args.question;
    question.estimator = EstimatorName(name);
    question.leave_out = true;
    GPUETA_ASSIGN_OR_RETURN(JudgedGroups judged, judge(question));
    for (const Unanswered& left : judged.unanswered) {
      if (judged.groups.empty()) return FailedPrecondition("--estimator {}: answers no row: {}", name, left.reason);
      notes.push_back(
          fmt::format("rows left out as {} cannot answer them: {}; the first is {}", name, left.rows, left.reason));
    }
    for (report::EvalGroup& group : judged.groups) {
      group.by.insert(group.by.begin(), name);
      all.push_back(std::move(group));
    }
  }
  return Print(columns, all, notes, globals);
}

absl::Status EvalModels(const EvalArgs& args, const Globals& globals) {
  GPUETA_RETURN_IF_ERROR(CheckModelColumns(args.question.by));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<ModelRun> runs, ReadModelRuns(args.models));
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const Snapshot> snapshot, OpenSnapshot(globals, args.profile_paths));
  Predictors predictors(std::move(snapshot));
  const auto judge = [&](const EvalQuestion& question) { return JudgeModels(runs, question, predictors); };
  if (args.estimators.size() > 1) return EvalEstimators(args, judge, globals);
  GPUETA_ASSIGN_OR_RETURN(const JudgedGroups judged, judge(args.question));
  return Print(args.question.by, judged.groups, {}, globals);
}

absl::Status Eval(const EvalArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> rows, ReadMeasurementFiles(args.measurements));
  GPUETA_RETURN_IF_ERROR(CheckColumns(args.question.by, rows));
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const Snapshot> snapshot, OpenSnapshot(globals, args.profile_paths));
  Predictors predictors(std::move(snapshot));
  if (args.estimators.size() > 1) {
    if (rows.empty()) return InvalidArgument("{}: no measurements to judge", fmt::join(args.measurements, ", "));
    const auto judge = [&](const EvalQuestion& question) -> absl::StatusOr<JudgedGroups> {
      GPUETA_ASSIGN_OR_RETURN(const Judged judged, Judge(rows, question, predictors, nullptr));
      if (judged.rows.empty()) return JudgedGroups{{}, judged.unanswered};
      GPUETA_ASSIGN_OR_RETURN(std::vector<report::EvalGroup> groups, Group(judged, question));
      return JudgedGroups{std::move(groups), judged.unanswered};
    };
    return EvalEstimators(args, judge, globals);
  }
  std::optional<Predictors> others;
  if (!args.against.empty()) {
    GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const Snapshot> other, OpenSnapshot(globals, args.against));
    others.emplace(std::move(other));
  }
  GPUETA_ASSIGN_OR_RETURN(const Judged judged,
                          Judge(rows, args.question, predictors, others.has_value() ? &*others : nullptr));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<report::EvalGroup> groups, Group(judged, args.question));
  const std::vector<std::string> notes = NotesOf(judged);
  absl::Status judged_any = CheckAny(args, rows, judged);
  if (!args.html.empty() && judged_any.ok()) GPUETA_RETURN_IF_ERROR(WriteReport(args, judged, notes));
  if (globals.json) {
    fmt::print("{}\n", EvalJson(args.question.by, groups, judged).dump(2));
  } else if (judged_any.ok()) {
    fmt::print("{}", EvalText(args.question.by, groups));
    for (const std::string& note : notes) fmt::print("note: {}\n", note);
  }
  return judged_any;
}

}  // namespace

void AddEval(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<EvalArgs>();
  CLI::App* eval = app.add_subcommand("eval", "Compare predictions with measurements");
  eval->add_option("--profile", args->profile_paths, "Profiles to judge (default: those of --profiles)")
      ->check(CLI::ExistingFile);
  CLI::Option* rows =
      eval->add_option("--measurements", args->measurements, "Measurement CSVs")->check(CLI::ExistingFile);
  CLI::Option* models =
      eval->add_option("--model-measurements", args->models.files, "CSVs of times of whole models, in their place")
          ->check(CLI::ExistingFile)
          ->excludes(rows);
  AddModelRunOptions(*eval, models, args->models);
  eval->add_option("--by", args->question.by,
                   "Columns to group by, e.g. device,table: of the CSVs, or op, label, table, provenance, estimator, "
                   "bound, regime, size; of whole models provenance, estimator, size")
      ->delimiter(',');
  eval->add_option("--against", args->against, "Profiles to predict the same rows with, for comparison")
      ->check(CLI::ExistingFile)
      ->needs(rows);
  CLI::Option* html = eval->add_option("--html", args->html, "Write a report of one page here")->needs(rows);
  eval->add_option("--measured-with", args->measured_with,
                   "CSVs the profile was fitted to: the report then lists the nearest measured shapes")
      ->check(CLI::ExistingFile)
      ->needs(html);
  eval->add_option("--device", args->question.device, "Predict for this device whatever the rows say");
  eval->add_option("--estimator", args->estimators,
                   fmt::format("A form by name, or several by commas to compare them: {} (default), {}",
                               kDefaultEstimator, fmt::join(EstimatorNames(), ", ")))
      ->delimiter(',')
      ->allow_extra_args(false);
  eval->callback([args, &globals, &chosen] {
    args->question.seed = globals.seed;
    if (args->estimators.size() == 1) args->question.estimator = EstimatorName(args->estimators.front());
    if (args->estimators.size() > 1 && (!args->html.empty() || !args->against.empty()))
      throw CLI::ValidationError("--estimator", "only one with --html or --against");
    if (args->measurements.empty() && args->models.files.empty())
      throw CLI::RequiredError("--measurements or --model-measurements");
    chosen = [args, &globals] {
      return args->models.files.empty() ? Eval(*args, globals) : EvalModels(*args, globals);
    };
  });
}

}  // namespace gpueta::cli
