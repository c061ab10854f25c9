#include "client/cli/report_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/base/errors.h"

namespace gpueta::cli {
namespace {

constexpr std::int64_t kLargestBatch = 256;  // of the what-if, unless more was asked about

// Powers of two around the batch asked about, and that one.
std::vector<std::int64_t> BatchesAround(std::int64_t asked) {
  std::vector<std::int64_t> batches = {asked};
  for (std::int64_t batch = 1; batch <= std::max(kLargestBatch, asked); batch *= 2) batches.push_back(batch);
  std::ranges::sort(batches);
  batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
  return batches;
}

std::vector<std::string> FactsOf(const ModelQuestion& question, const OpenModel& model, const SymbolValues& dims) {
  std::vector<std::string> facts;
  std::string asked = "Run " + question.run.mode;
  for (const auto& [symbol, value] : dims) asked += fmt::format(", {} = {}", symbol, value);
  if (!question.estimator.empty()) asked += ", estimated by " + question.estimator;
  facts.push_back(asked + ".");
  if (!model.graph().passes.empty()) facts.push_back(fmt::format("Passes: {}.", fmt::join(model.graph().passes, "; ")));
  facts.push_back(fmt::format("gpueta {}.", GPUETA_VERSION));
  return facts;
}

void AddWhatIf(const std::vector<DeviceAnswer>& answers, std::int64_t batch, report::ModelReport& page) {
  for (const DeviceAnswer& answer : answers)
    page.what_if.push_back(
        {answer.device, batch, answer.estimate.latency_us, HasRoomFor(answer.spec, answer.estimate.memory_bytes)});
}

}  // namespace

absl::StatusOr<report::ModelReport> MakeModelReport(ModelQuestion question, const Globals& globals) {
  std::vector<std::string> compared = question.devices;
  if (compared.size() < 2) {
    GPUETA_ASSIGN_OR_RETURN(const std::vector<std::string> profiled, ProfiledGpus(globals));
    for (const std::string& device : profiled) {
      if (std::ranges::find(compared, device) == compared.end()) compared.push_back(device);
    }
  }
  GPUETA_ASSIGN_OR_RETURN(const OpenModel model, OpenModel::Open(question, globals));
  GPUETA_ASSIGN_OR_RETURN(SymbolValues dims, model.Dims());
  report::ModelReport page;
  page.model = std::filesystem::path(question.model).filename().string();
  if (page.model == "config.json") page.model = std::filesystem::path(question.model).parent_path().filename().string();
  page.facts = FactsOf(question, model, dims);
  // Devices that are only compared may be unable to answer.
  std::vector<DeviceAnswer> answers;
  for (const std::string& device : compared) {
    absl::StatusOr<std::vector<DeviceAnswer>> answer = model.Ask({device}, dims);
    const bool named = std::ranges::find(question.devices, device) != question.devices.end();
    if (!answer.ok() && (named || compared.size() == 1)) return answer.status();
    if (answer.ok()) answers.push_back(std::move(answer->front()));
  }
  if (answers.empty()) return FailedPrecondition("no device with a profile can answer; name one with --device");
  std::vector<std::string> able;
  for (const DeviceAnswer& answer : answers) able.push_back(answer.device);
  if (question.devices.empty()) {
    question.devices = {
        std::ranges::min_element(answers, {}, [](const DeviceAnswer& a) { return a.estimate.latency_us.p50; })->device};
  }
  for (const std::string& device : question.devices) {
    const DeviceAnswer& answer = *std::ranges::find(answers, device, &DeviceAnswer::device);
    report::ModelOnDevice on{.device = device,
                             .spec = answer.spec,
                             .profile = answer.profile_id,
                             .estimate = answer.estimate,
                             .kernels = {},
                             .timeline = {}};
    if (!model.is_registered()) {
      GPUETA_ASSIGN_OR_RETURN(BoundGraph bound, model.Bound(answer.spec, dims));
      GPUETA_ASSIGN_OR_RETURN(on.timeline, TimelineOf(bound.graph, bound.kernels, answer.estimate));
      on.kernels = std::move(bound.kernels);
    }
    page.devices.push_back(std::move(on));
  }
  const auto batch = dims.find("batch");
  if (batch == dims.end()) {
    AddWhatIf(answers, 0, page);
    return page;
  }
  page.batch = batch->second;
  for (const std::int64_t other : BatchesAround(page.batch)) {
    if (other % model.batch_shares() != 0) continue;
    if (other == page.batch) {
      AddWhatIf(answers, other, page);
      continue;
    }
    batch->second = other;
    const absl::StatusOr<std::vector<DeviceAnswer>> there = model.Ask(able, dims);
    if (there.ok()) AddWhatIf(*there, other, page);  // a batch may be more than dims can hold
  }
  return page;
}

}  // namespace gpueta::cli
