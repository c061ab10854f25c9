// `gpueta eval`: predictions against measurements.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "client/cli/command.h"
#include "client/cli/eval_judge.h"
#include "client/cli/eval_print.h"
#include "client/cli/inputs.h"
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
  EvalQuestion question;
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

absl::Status WriteReport(const EvalArgs& args, const Judged& judged, const std::vector<report::EvalGroup>& groups,
                         const std::vector<std::string>& notes) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> measured_with, ReadMeasurementFiles(args.measured_with));
  report::EvalReport page;
  page.facts.push_back(fmt::format("{} rows of {}.", judged.rows.size(), fmt::join(args.measurements, ", ")));
  page.facts.push_back(fmt::format("Predicted for {}.", Answering(judged.rows)));
  if (judged.compared) page.facts.push_back(fmt::format("The other is {}.", Answering(judged.against)));
  for (const std::string& note : notes) page.facts.push_back(note + ".");
  page.facts.push_back(fmt::format("gpueta {}, seed {}.", GPUETA_VERSION, args.question.seed));
  page.columns = args.question.by;
  page.groups = groups;
  page.all = Whole(judged, args.question);
  for (const JudgedRow& row : judged.rows) page.points.push_back({PairOf(row), row.estimate.provenance});
  page.knows_neighbours = !args.measured_with.empty();
  GPUETA_ASSIGN_OR_RETURN(page.worst, WorstShapes(judged, kWorstShown, measured_with));
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

absl::Status Eval(const EvalArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> rows, ReadMeasurementFiles(args.measurements));
  GPUETA_RETURN_IF_ERROR(CheckColumns(args.question.by, rows));
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const Snapshot> snapshot, OpenSnapshot(globals, args.profile_paths));
  Predictors predictors(std::move(snapshot));
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
  if (!args.html.empty() && judged_any.ok()) GPUETA_RETURN_IF_ERROR(WriteReport(args, judged, groups, notes));
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
  eval->add_option("--measurements", args->measurements, "Measurement CSVs")->required()->check(CLI::ExistingFile);
  eval->add_option("--by", args->question.by,
                   "Columns to group by, e.g. device,table: of the CSVs, or op, label, table, provenance, estimator, "
                   "bound, regime, size")
      ->delimiter(',');
  eval->add_option("--against", args->against, "Profiles to predict the same rows with, for comparison")
      ->check(CLI::ExistingFile);
  CLI::Option* html = eval->add_option("--html", args->html, "Write a report of one page here");
  eval->add_option("--measured-with", args->measured_with,
                   "CSVs the profile was fitted to: the report then lists the nearest measured shapes")
      ->check(CLI::ExistingFile)
      ->needs(html);
  eval->add_option("--device", args->question.device, "Predict for this device whatever the rows say");
  eval->add_option(
      "--estimator", args->question.estimator,
      "A form by name: family, launch, kernel-aware, whole-model, inter-gpu, roofline (default: the best one)");
  eval->callback([args, &globals, &chosen] {
    args->question.seed = globals.seed;
    chosen = [args, &globals] { return Eval(*args, globals); };
  });
}

}  // namespace gpueta::cli
