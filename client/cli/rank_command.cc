// `gpueta rank`: on which device to run a model.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "client/cli/ask.h"
#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/json.h"
#include "client/cli/prices.h"
#include "client/cli/serving_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/predict/rank.h"
#include "gpueta/client.h"

namespace gpueta::cli {
namespace {

struct RankArgs {
  ModelQuestion question;
  std::string limit;
  double confidence = 0.9;
  std::vector<std::string> prices;
};

// A device, and what is known of the model on it.
struct Ranked {
  std::string device;
  std::string problem;  // why it cannot answer; empty: it can
  Quantiles latency_us;
  bool fits = true;
  DevicePlace place;
};

std::string_view Name(MeetsLimit meets) {
  switch (meets) {
    case MeetsLimit::kYes: return "yes";
    case MeetsLimit::kPerhaps: return "perhaps";
    case MeetsLimit::kNo: return "no";
  }
  return "";
}

absl::StatusOr<std::vector<Ranked>> RankInProcess(const RankArgs& args, const RankOptions& options,
                                                  const Prices& prices, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const OpenModel model, OpenModel::Open(args.question, globals));
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, model.Dims());
  const auto gpus = static_cast<double>(DevicesOf(args.question.run));
  std::vector<Ranked> all;
  std::vector<RankedCandidate> candidates;
  std::vector<std::size_t> able;
  for (const std::string& device : args.question.devices) {
    Ranked& ranked = all.emplace_back(Ranked{.device = device});
    const absl::StatusOr<std::vector<DeviceAnswer>> answers = model.Ask({device}, dims);
    if (absl::IsFailedPrecondition(answers.status())) {
      ranked.problem = MessageOf(answers.status());
      continue;
    }
    GPUETA_RETURN_IF_ERROR(answers.status());
    const DeviceAnswer& answer = answers->front();
    ranked.latency_us = answer.estimate.latency_us;
    ranked.fits = HasRoomFor(answer.spec, answer.estimate.memory_bytes);
    RankedCandidate candidate{.latency_us = ranked.latency_us, .fits = ranked.fits, .price_per_hour = {}};
    if (const auto price = prices.find(device); price != prices.end()) candidate.price_per_hour = price->second * gpus;
    candidates.push_back(candidate);
    able.push_back(all.size() - 1);
  }
  const std::vector<DevicePlace> places = RankDevices(candidates, options);
  for (std::size_t i = 0; i < able.size(); ++i) all[able[i]].place = places[i];
  return all;
}

absl::StatusOr<std::vector<Ranked>> RankByServer(const RankArgs& args, const RankOptions& options, const Prices& prices,
                                                 const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const OpenModel model, OpenModel::Open(args.question, globals));
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues dims, model.Dims());
  v1::RankDevicesRequest request;
  model.Fill(dims, request);
  request.set_limit_us(options.limit_us.value_or(0));
  request.set_confidence(options.confidence);
  const auto gpus = static_cast<double>(DevicesOf(args.question.run));
  for (const std::string& device : args.question.devices) {
    v1::DeviceCandidate& candidate = *request.add_candidates();
    *candidate.mutable_device() = model.Selector(device);
    if (const auto price = prices.find(device); price != prices.end())
      candidate.set_price_per_hour(price->second * gpus);
  }
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  GPUETA_ASSIGN_OR_RETURN(const v1::RankDevicesResponse response, client.RankDevices(request));
  std::vector<Ranked> all;
  for (const v1::RankedDevice& device : response.devices()) {
    Ranked& ranked = all.emplace_back(Ranked{.device = device.device(), .problem = device.status().message()});
    ranked.latency_us = {device.latency_us().p50(), device.latency_us().p90(), device.latency_us().p99()};
    ranked.fits = !device.too_small();
    ranked.place = {.by_latency = device.by_latency(),
                    .by_cost = device.by_cost(),
                    .by_limit = device.by_limit(),
                    .cost = device.cost(),
                    .within_probability = device.within_probability(),
                    .meets = device.verdict() == v1::LIMIT_VERDICT_MET    ? MeetsLimit::kYes
                             : device.verdict() == v1::LIMIT_VERDICT_OPEN ? MeetsLimit::kPerhaps
                                                                          : MeetsLimit::kNo};
  }
  return all;
}

// "2", or "2 (tie)" where others have the same place.
std::string PlaceText(const std::vector<Ranked>& all, int DevicePlace::*place, const Ranked& ranked) {
  if (ranked.place.*place == 0) return "";
  const auto same =
      std::ranges::count_if(all, [&](const Ranked& other) { return other.place.*place == ranked.place.*place; });
  return fmt::format("{}{}", ranked.place.*place, same > 1 ? " (tie)" : "");
}

nlohmann::json ToJson(const Ranked& ranked, bool limited) {
  const DevicePlace& place = ranked.place;
  nlohmann::json out = {{"device", ranked.device}};
  if (!ranked.problem.empty()) {
    out["problem"] = ranked.problem;
    return out;
  }
  const auto known = [](int number) { return number == 0 ? nlohmann::json() : nlohmann::json(number); };
  out["latency_us"] = {{"p50", ranked.latency_us.p50}, {"p90", ranked.latency_us.p90}, {"p99", ranked.latency_us.p99}};
  out["fits"] = ranked.fits;
  out["by_latency"] = known(place.by_latency);
  out["by_cost"] = known(place.by_cost);
  out["by_limit"] = known(place.by_limit);
  out["cost_per_1000"] = place.cost > 0 ? nlohmann::json(1000 * place.cost) : nlohmann::json();
  if (limited) {
    out["within_probability"] = place.within_probability;
    out["meets_limit"] = Name(place.meets);
  }
  return out;
}

void Print(const std::vector<Ranked>& all, bool limited) {
  const bool priced = std::ranges::any_of(all, [](const Ranked& r) { return r.place.cost > 0; });
  std::vector<std::string> header = {"device", "p50", "p90", "by latency"};
  if (priced) header.insert(header.end(), {"USD per 1000", "by cost"});
  if (limited) header.insert(header.end(), {"meets the limit", "probability", "by limit"});
  header.emplace_back("");
  terminal::TextTable table(header);
  for (const Ranked& ranked : all) {
    std::vector<std::string> row = {ranked.device};
    if (!ranked.problem.empty()) {
      row.resize(header.size() - 1);
      row.push_back(ranked.problem);
      table.Add(std::move(row));
      continue;
    }
    row.insert(row.end(), {terminal::FormatUs(ranked.latency_us.p50), terminal::FormatUs(ranked.latency_us.p90),
                           PlaceText(all, &DevicePlace::by_latency, ranked)});
    if (priced) {
      row.insert(row.end(), {ranked.place.cost > 0 ? fmt::format("{:.3g}", 1000 * ranked.place.cost) : "",
                             PlaceText(all, &DevicePlace::by_cost, ranked)});
    }
    if (limited) {
      row.insert(row.end(),
                 {std::string(Name(ranked.place.meets)), terminal::FormatPercent(ranked.place.within_probability),
                  PlaceText(all, &DevicePlace::by_limit, ranked)});
    }
    row.emplace_back(ranked.fits ? "" : "does not fit into its memory");
    table.Add(std::move(row));
  }
  fmt::print("{}", table.Render());
}

absl::Status Rank(const RankArgs& args, const Globals& globals) {
  RankOptions options{.limit_us = {}, .confidence = args.confidence};
  if (!args.limit.empty()) {
    GPUETA_ASSIGN_OR_RETURN(options.limit_us, ParseDuration("--limit", args.limit));
  }
  if (!(args.confidence > 0.5 && args.confidence < 1))
    return InvalidArgument("--confidence {}: must be above 0.5 and below 1", args.confidence);
  GPUETA_ASSIGN_OR_RETURN(const Prices prices, ParsePrices(args.prices));
  for (const auto& [device, price] : prices) {
    if (std::ranges::find(args.question.devices, device) == args.question.devices.end())
      return InvalidArgument("--price: {} is not among the devices of --device", device);
  }
  GPUETA_ASSIGN_OR_RETURN(std::vector<Ranked> all, globals.server.empty()
                                                       ? RankInProcess(args, options, prices, globals)
                                                       : RankByServer(args, options, prices, globals));
  const bool limited = options.limit_us.has_value();
  std::ranges::stable_sort(all, {}, [&](const Ranked& ranked) {
    return std::tuple(!ranked.problem.empty(), limited ? ranked.place.by_limit : ranked.place.by_latency,
                      ranked.latency_us.p50);
  });
  if (globals.json) {
    nlohmann::json devices = nlohmann::json::array();
    for (const Ranked& ranked : all) devices.push_back(ToJson(ranked, limited));
    nlohmann::json out = {{"model", args.question.model}, {"confidence", args.confidence}, {"devices", devices}};
    if (limited) out["limit_us"] = *options.limit_us;
    fmt::print("{}\n", Dump(out));
    return absl::OkStatus();
  }
  Print(all, limited);
  return absl::OkStatus();
}

}  // namespace

void AddRank(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<RankArgs>();
  CLI::App* rank = app.add_subcommand("rank", "Put devices in order for a model: by latency, cost, meeting a limit");
  rank->add_option("MODEL", args->question.model,
                   ".onnx, config.json, trace or graph file, or a registered model's name with --server")
      ->required();
  AddQuestionOptions(*rank, args->question);
  rank->get_option("--device")->required();
  rank->add_option("--limit", args->limit, "Latency to stay within, e.g. 20ms");
  rank->add_option("--confidence", args->confidence,
                   "How sure to be that a limit is met, and that devices differ; else they tie")
      ->capture_default_str();
  rank->add_option("--price", args->prices, "DEVICE=USD for one GPU for an hour, by commas")->delimiter(',');
  rank->callback([args, &globals, &chosen] { chosen = [args, &globals] { return Rank(*args, globals); }; });
}

}  // namespace gpueta::cli
