// `gpueta report`: one page about a model or a profile.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/report_model.h"
#include "client/cli/report_profile.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"

namespace gpueta::cli {
namespace {

struct ReportArgs {
  ModelQuestion question;
  std::vector<std::string> measurements;
  std::string out;
};

absl::Status Said(const ReportArgs& args, nlohmann::json about, const Globals& globals) {
  about["out"] = args.out;
  fmt::print("{}\n", globals.json ? Dump(about) : fmt::format("report written to {}", args.out));
  return absl::OkStatus();
}

absl::Status ReportModel(const ReportArgs& args, const Globals& globals) {
  if (!args.measurements.empty())
    return InvalidArgument("--measurements: are for the report of a .profile; compare runs models for real");
  GPUETA_ASSIGN_OR_RETURN(const report::ModelReport page, MakeModelReport(args.question, globals));
  GPUETA_RETURN_IF_ERROR(WriteWholeFile(args.out, report::RenderModelReport(page)));
  std::vector<std::string> devices;
  for (const report::ModelOnDevice& on : page.devices) devices.push_back(on.device);
  return Said(args, {{"model", args.question.model}, {"devices", devices}}, globals);
}

absl::Status ReportProfile(const ReportArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const report::ProfileReport page,
                          MakeProfileReport(args.question.model, args.measurements, globals));
  GPUETA_RETURN_IF_ERROR(WriteWholeFile(args.out, report::RenderProfileReport(page)));
  return Said(args, {{"profile", page.loaded.id}, {"devices", {page.loaded.profile.device}}}, globals);
}

}  // namespace

void AddReport(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<ReportArgs>();
  CLI::App* report = app.add_subcommand("report", "One page about a model's latency, or about a profile");
  report
      ->add_option("MODEL|PROFILE", args->question.model,
                   ".onnx, config.json, trace or graph file, a registered model's name, or a .profile file")
      ->required();
  report->add_option("--out", args->out, "HTML file to write")->required();
  report->add_option("--measurements", args->measurements, "Of a profile: CSVs to judge it on")
      ->check(CLI::ExistingFile);
  AddQuestionOptions(*report, args->question);
  report->callback([args, &globals, &chosen] {
    chosen = [args, &globals] {
      return args->question.model.ends_with(".profile") ? ReportProfile(*args, globals) : ReportModel(*args, globals);
    };
  });
}

}  // namespace gpueta::cli
