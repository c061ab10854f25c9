#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "gpueta/client.h"

namespace gpueta::cli {
namespace {

struct Dimension {
  const char* name;
  v1::ErrorDimension value;
  const std::string& (v1::ObservedErrors::*get)() const;
};
const std::array<Dimension, 6> kDimensions = {{
    {"device", v1::ERROR_DIMENSION_DEVICE, &v1::ObservedErrors::device},
    {"op", v1::ERROR_DIMENSION_OP, &v1::ObservedErrors::op},
    {"dtype", v1::ERROR_DIMENSION_DTYPE, &v1::ObservedErrors::dtype},
    {"model", v1::ERROR_DIMENSION_MODEL, &v1::ObservedErrors::model},
    {"provenance", v1::ERROR_DIMENSION_PROVENANCE, &v1::ObservedErrors::provenance},
    {"node", v1::ERROR_DIMENSION_NODE, &v1::ObservedErrors::node},
}};

struct Args {
  std::string since = "24h";
  std::vector<std::string> by = {"device", "op"};
  std::string device, op, model, node;
};

// Seconds of "30m", "24h" or "7d".
absl::StatusOr<std::int64_t> ParseSince(const std::string& text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string unit(end, text.data() + text.size());
  const std::int64_t seconds = unit == "m" ? 60 : unit == "h" ? 3600 : unit == "d" ? 86400 : 0;
  constexpr std::int64_t kMostDays = 30;
  if (error != std::errc() || seconds == 0 || count < 1 || count > kMostDays * 86400 / seconds)
    return InvalidArgument("--since {}: give minutes, hours or days up to 30d, e.g. 30m, 24h or 7d", text);
  return count * seconds;
}

absl::StatusOr<v1::GetErrorSummaryRequest> RequestOf(const Args& args) {
  v1::GetErrorSummaryRequest request;
  GPUETA_ASSIGN_OR_RETURN(const std::int64_t seconds, ParseSince(args.since));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  request.set_since_unix_s(std::chrono::duration_cast<std::chrono::seconds>(now).count() - seconds);
  for (const std::string& name : args.by) {
    const auto it =
        std::find_if(kDimensions.begin(), kDimensions.end(), [&](const Dimension& d) { return d.name == name; });
    if (it == kDimensions.end())
      return InvalidArgument("--by {}: is not one of device, op, dtype, model, provenance and node", name);
    request.add_by(it->value);
  }
  request.set_device(args.device);
  request.set_op(args.op);
  request.set_model(args.model);
  request.set_node(args.node);
  return request;
}

std::string DriftName(v1::DriftState state) {
  switch (state) {
    case v1::DRIFT_STATE_LEARNING: return "learning";
    case v1::DRIFT_STATE_STABLE: return "stable";
    case v1::DRIFT_STATE_SLOWER: return "slower";
    case v1::DRIFT_STATE_FASTER: return "faster";
    default: return "";
  }
}

nlohmann::json ToJson(const v1::ObservedErrors& e, const std::vector<std::string>& by) {
  nlohmann::json json = {{"n", e.n()},
                         {"mape", e.mape()},
                         {"median", e.median()},
                         {"ape_p90", e.ape_p90()},
                         {"ape_p99", e.ape_p99()},
                         {"bias", e.bias()},
                         {"below_p50", e.below_p50()},
                         {"below_p90", e.below_p90()},
                         {"below_p99", e.below_p99()},
                         {"drift", DriftName(e.drift())},
                         {"corrections", std::vector<double>(e.corrections().begin(), e.corrections().end())}};
  for (const Dimension& dimension : kDimensions) {
    if (std::find(by.begin(), by.end(), dimension.name) != by.end()) json[dimension.name] = (e.*dimension.get)();
  }
  return json;
}

absl::Status Errors(const Args& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const v1::GetErrorSummaryRequest request, RequestOf(args));
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  GPUETA_ASSIGN_OR_RETURN(const v1::GetErrorSummaryResponse response, client.GetErrorSummary(request));
  if (globals.json) {
    nlohmann::json json = nlohmann::json::array();
    for (const v1::ObservedErrors& errors : response.summaries()) json.push_back(ToJson(errors, args.by));
    fmt::print("{}\n", json.dump(2));
    return absl::OkStatus();
  }
  if (response.summaries().empty()) {
    fmt::print("no observations in the last {}; report some with ObservationService.ReportObservations\n", args.since);
    return absl::OkStatus();
  }
  std::vector<std::string> header;
  for (const Dimension& dimension : kDimensions) {
    if (std::find(args.by.begin(), args.by.end(), dimension.name) != args.by.end()) header.push_back(dimension.name);
  }
  for (const char* name :
       {"n", "mape", "median", "ape_p90", "ape_p99", "bias", "below_p90", "below_p99", "drift", "correction"})
    header.emplace_back(name);
  terminal::TextTable table(header);
  for (const v1::ObservedErrors& e : response.summaries()) {
    std::vector<std::string> row;
    for (const Dimension& dimension : kDimensions) {
      if (std::find(args.by.begin(), args.by.end(), dimension.name) != args.by.end())
        row.push_back((e.*dimension.get)());
    }
    row.push_back(std::to_string(e.n()));
    for (const double share : {e.mape(), e.median(), e.ape_p90(), e.ape_p99(), e.bias(), e.below_p90(), e.below_p99()})
      row.push_back(terminal::FormatPercent(share));
    row.push_back(DriftName(e.drift()));
    std::string corrections;
    for (const double factor : e.corrections())
      corrections += fmt::format("{}{:.2f}", corrections.empty() ? "" : "/", factor);
    row.push_back(corrections);
    table.Add(std::move(row));
  }
  fmt::print("{}", table.Render());
  return absl::OkStatus();
}

}  // namespace

void AddErrors(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = app.add_subcommand("errors", "How far the server's predictions are from what was observed");
  command->add_option("--since", args->since, "Window: 30m, 24h, 7d, up to 30d")->capture_default_str();
  command->add_option("--by", args->by, "One row for each of these: device, op, dtype, model, provenance, node")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--device", args->device, "Only of this device");
  command->add_option("--op", args->op, "Only of this op, or graph");
  command->add_option("--model", args->model, "Only of this model");
  command->add_option("--node", args->node, "Only of this node");
  command->callback([args, &globals, &chosen] { chosen = [args, &globals] { return Errors(*args, globals); }; });
}

}  // namespace gpueta::cli
