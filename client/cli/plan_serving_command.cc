#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "client/cli/inputs.h"
#include "client/cli/prices.h"
#include "client/cli/serving_input.h"
#include "client/report/chart.h"
#include "client/report/html.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"

namespace gpueta::cli {
namespace {

struct PlanServingArgs {
  ServingArgs serving;
  std::vector<std::string> devices;
  std::vector<std::int64_t> tensor_ranks = {1};
  std::int64_t isl = 1024;
  std::int64_t osl = 256;
  std::vector<std::string> prices;  // DEVICE=USD an hour
  std::string out;                  // a page to write
};

// One deployment under one load.
struct Point {
  SteadyState state;
  double tokens_per_gpu = 0;        // output tokens a second
  std::optional<double> usd_per_m;  // a million output tokens
  bool on_front = false;
};

struct Configuration {
  std::string device;
  std::int64_t tensor_ranks = 1;
  std::int64_t gpus = 1;
  double weight_bytes = 0;
  std::int64_t kv_blocks = 0;
  double table_error = 0;
  std::string problem;          // why it cannot serve
  std::vector<Point> points;    // by sequences, those within the limits
  const Point* best = nullptr;  // the largest rate
};

Configuration Sweep(const PlanServingArgs& args, LocalEngines& engines, const LatencyLimits& limits,
                    const Prices& prices, const std::string& device, std::int64_t tensor_ranks) {
  Configuration out{.device = device, .tensor_ranks = tensor_ranks, .gpus = tensor_ranks * args.serving.pp};
  const absl::StatusOr<EngineSetup> setup = SetupOf(args.serving, tensor_ranks);
  const auto served = setup.ok() ? engines.Serve(device, *setup, args.isl + args.osl) : setup.status();
  if (!served.ok()) {
    out.problem = MessageOf(served.status());
    return out;
  }
  const ServedModel& model = **served;
  out.gpus = model.gpus;
  out.weight_bytes = model.room.weight_bytes;
  out.kv_blocks = model.room.blocks;
  out.table_error = model.table.checked_error();
  if (model.room.cache_bytes <= 0) {
    out.problem = "does not fit into memory";
    return out;
  }
  const auto within = SteadyStatesWithin(*model.model, model.table.WithOverhead(setup->overhead), model.room, args.isl,
                                         args.osl, args.serving.token_budget, limits, setup->limits.speculation);
  if (!within.ok()) {
    out.problem = MessageOf(within.status());
    return out;
  }
  if (within->empty()) out.problem = "no load meets the limits";
  for (const SteadyState& state : *within) {
    Point point{.state = state, .tokens_per_gpu = state.output_tokens_per_s / static_cast<double>(out.gpus)};
    if (const auto price = prices.find(device); price != prices.end()) {
      point.usd_per_m = price->second / 3600 / point.tokens_per_gpu * 1e6;
    }
    out.points.push_back(point);
  }
  for (const Point& point : out.points) {
    if (out.best == nullptr || point.state.requests_per_s > out.best->state.requests_per_s) out.best = &point;
  }
  return out;
}

std::vector<Configuration> SweepAll(const PlanServingArgs& args, LocalEngines& engines, const LatencyLimits& limits,
                                    const Prices& prices) {
  std::vector<Configuration> all(args.devices.size() * args.tensor_ranks.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      all[i] = Sweep(args, engines, limits, prices, args.devices[i / args.tensor_ranks.size()],
                     args.tensor_ranks[i % args.tensor_ranks.size()]);
    }
  };
  const std::size_t threads = std::min<std::size_t>(all.size(), std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::jthread> pool;
  for (std::size_t t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  pool.clear();
  return all;
}

// Points that no other one beats in both: price of a token (or tokens a GPU,
// without prices) and time per output token.
void MarkFront(std::vector<Configuration>& all) {
  std::vector<Point*> points;
  for (Configuration& configuration : all) {
    for (Point& point : configuration.points) points.push_back(&point);
  }
  const bool priced = std::ranges::all_of(points, [](const Point* p) { return p->usd_per_m.has_value(); });
  const auto cost = [&](const Point* p) { return priced ? *p->usd_per_m : -p->tokens_per_gpu; };
  std::ranges::sort(points, [&](const Point* a, const Point* b) {
    return std::pair(a->state.tpot_us, cost(a)) < std::pair(b->state.tpot_us, cost(b));
  });
  const Point* last = nullptr;
  for (Point* point : points) {
    if (last != nullptr && cost(point) >= cost(last)) continue;
    point->on_front = true;
    last = point;
  }
}

nlohmann::json ToJson(const Configuration& c, const Point& p) {
  return {{"device", c.device},
          {"tp", c.tensor_ranks},
          {"gpus", c.gpus},
          {"sequences", p.state.sequences},
          {"requests_per_s", p.state.requests_per_s},
          {"output_tokens_per_s", p.state.output_tokens_per_s},
          {"output_tokens_per_s_per_gpu", p.tokens_per_gpu},
          {"ttft_us", p.state.ttft_us},
          {"tpot_us", p.state.tpot_us},
          {"usd_per_million_output_tokens", p.usd_per_m.has_value() ? nlohmann::json(*p.usd_per_m) : nullptr}};
}

void PrintJson(const std::vector<Configuration>& all, std::int64_t swept) {
  nlohmann::json configurations = nlohmann::json::array();
  std::vector<nlohmann::json> front;
  for (const Configuration& c : all) {
    nlohmann::json entry = {{"device", c.device}, {"tp", c.tensor_ranks}, {"gpus", c.gpus}};
    if (c.best != nullptr) entry = ToJson(c, *c.best);
    entry["weight_bytes"] = c.weight_bytes;
    entry["kv_blocks"] = c.kv_blocks;
    entry["table_error"] = c.table_error;
    entry["problem"] = c.problem.empty() ? nlohmann::json(nullptr) : nlohmann::json(c.problem);
    configurations.push_back(entry);
    for (const Point& p : c.points) {
      if (p.on_front) front.push_back(ToJson(c, p));
    }
  }
  std::ranges::sort(front, {}, [](const nlohmann::json& p) { return p["tpot_us"].get<double>(); });
  fmt::print("{}\n", nlohmann::json{{"swept", swept}, {"configurations", configurations}, {"front", front}}.dump(2));
}

void PrintTable(const std::vector<Configuration>& all, const ServingArgs& args) {
  constexpr int kBarWidth = 24;
  double most = 0;
  for (const Configuration& c : all) {
    if (c.best != nullptr) most = std::max(most, c.best->tokens_per_gpu);
  }
  terminal::TextTable table({"device", "GPUs", "sequences", "requests/s", "tokens/s", "tokens/s/GPU", "",
                             "TTFT " + QuantileOf(args, args.ttft), "TPOT " + QuantileOf(args, args.tpot),
                             "USD/M tokens", "front"});
  for (const Configuration& c : all) {
    if (c.best == nullptr) {
      table.Add({c.device, std::to_string(c.gpus), "–", "–", "–", "–", "", "–", "–", "–", c.problem});
      continue;
    }
    const Point& p = *c.best;
    const bool front = std::ranges::any_of(c.points, [](const Point& each) { return each.on_front; });
    const auto bar = static_cast<std::size_t>(p.tokens_per_gpu / most * kBarWidth + 0.5);
    table.Add({c.device, std::to_string(c.gpus), std::to_string(p.state.sequences),
               fmt::format("{:.3g}", p.state.requests_per_s), fmt::format("{:.4g}", p.state.output_tokens_per_s),
               fmt::format("{:.4g}", p.tokens_per_gpu), std::string(bar, '#'), terminal::FormatUs(p.state.ttft_us),
               terminal::FormatUs(p.state.tpot_us), p.usd_per_m.has_value() ? fmt::format("{:.3g}", *p.usd_per_m) : "–",
               front ? "*" : ""});
  }
  fmt::print("{}* on the Pareto front of cost and time per token; --json lists its points\n", table.Render());
}

std::string NameOf(const Configuration& c) { return fmt::format("{} × {}", c.gpus, c.device); }

// At most about `most` of many, evenly, the last one among them.
template <class Each>
std::vector<Each> Thinned(const std::vector<Each>& all, std::size_t most) {
  const std::size_t every = std::max<std::size_t>(1, all.size() / most);
  std::vector<Each> some;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % every == 0 || i + 1 == all.size()) some.push_back(all[i]);
  }
  return some;
}

// Throughput against latency: a line for each configuration over its numbers of
// sequences, and dots on the front.
std::string RenderPage(const PlanServingArgs& args, const std::vector<Configuration>& all) {
  constexpr std::size_t kMostPoints = 200;  // of a line
  std::vector<double> tpots, rates;
  for (const Configuration& c : all) {
    for (const Point& p : c.points) {
      tpots.push_back(p.state.tpot_us);
      rates.push_back(p.tokens_per_gpu);
    }
  }
  report::Chart chart(
      "output tokens a second and GPU against time per output token",
      report::Decades("time per output token", tpots, terminal::FormatUs),
      report::Decades("output tokens/s and GPU", rates, [](double x) { return fmt::format("{:g}", x); }));
  std::vector<std::vector<report::Cell>> rows;
  int colour = 0;
  for (const Configuration& c : all) {
    if (c.points.empty()) continue;
    std::vector<report::Point> line;
    std::vector<const Point*> front;
    for (const Point& p : c.points) {
      line.push_back({p.state.tpot_us, p.tokens_per_gpu});
      if (p.on_front) front.push_back(&p);
    }
    chart.Line(Thinned(line, kMostPoints), colour);
    for (const Point* p : Thinned(front, kMostPoints)) {
      chart.Dot(
          {p->state.tpot_us, p->tokens_per_gpu}, colour,
          fmt::format("{}: {} sequences, {:.4g} tokens/s and GPU, TPOT {}, TTFT {}", NameOf(c), p->state.sequences,
                      p->tokens_per_gpu, terminal::FormatUs(p->state.tpot_us), terminal::FormatUs(p->state.ttft_us)));
    }
    chart.Legend(NameOf(c), colour);
    const Point& best = *c.best;
    rows.push_back({{.text = NameOf(c), .colour = colour},
                    {.text = std::to_string(best.state.sequences), .number = true},
                    {.text = fmt::format("{:.4g}", best.tokens_per_gpu), .number = true},
                    {.text = terminal::FormatUs(best.state.tpot_us), .number = true},
                    {.text = terminal::FormatUs(best.state.ttft_us), .number = true},
                    {.text = best.usd_per_m.has_value() ? fmt::format("{:.3g}", *best.usd_per_m) : "–", .number = true},
                    {.text = std::to_string(front.size()), .number = true}});
    colour = (colour + 1) % report::kColours;
  }
  return report::Page(
      "gpueta plan: " + args.serving.model.model,
      report::Section("front", "Throughput against latency",
                      report::Paragraph("Lines: one configuration, more sequences at a time to the right. Dots: the "
                                        "Pareto front; point at one for its load.") +
                          chart.Render()) +
          report::Section("best", "The largest rate within the limits",
                          report::Table({"configuration", "sequences", "tokens/s and GPU", "TPOT", "TTFT",
                                         "USD/M tokens", "points on the front"},
                                        rows)));
}

absl::Status PlanServing(const PlanServingArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const LatencyLimits limits, LimitsOf(args.serving));
  GPUETA_ASSIGN_OR_RETURN(const Prices prices, ParsePrices(args.prices));
  for (const auto& [device, price] : prices) {
    if (std::ranges::find(args.devices, device) == args.devices.end()) {
      return InvalidArgument("--price {}={}: --devices does not name it", device, price);
    }
  }
  GPUETA_ASSIGN_OR_RETURN(LocalEngines engines,
                          LocalEngines::Open(args.serving.model.model, args.serving.model.profile_paths, globals));
  for (const std::string& device : args.devices) {
    const auto known = engines.snapshot().Find(device);
    if (!known.ok()) return Prefixed(known.status(), "--devices");
  }
  std::vector<Configuration> all = SweepAll(args, engines, limits, prices);
  const bool none = std::ranges::none_of(all, [](const Configuration& c) { return c.weight_bytes > 0; });
  if (none) return InvalidArgument("{}", all.front().problem);
  MarkFront(all);
  if (!args.out.empty()) GPUETA_RETURN_IF_ERROR(WriteWholeFile(args.out, RenderPage(args, all)));
  if (globals.json) {
    PrintJson(all, static_cast<std::int64_t>(all.size()) * args.serving.max_sequences);
  } else {
    PrintTable(all, args.serving);
  }
  return absl::OkStatus();
}

}  // namespace

void AddPlanServing(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<PlanServingArgs>();
  CLI::App* command =
      app.add_subcommand("plan-serving", "Which devices serve an LLM within limits, how much, and at what cost");
  AddServingOptions(*command, args->serving);
  command->add_option("--devices", args->devices, "Slugs")->required()->delimiter(',');
  command->add_option("--tp", args->tensor_ranks, "Tensor-parallel ranks to try")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--isl", args->isl, "Tokens of a prompt")->check(CLI::Range(1, 1 << 24))->capture_default_str();
  command->add_option("--osl", args->osl, "Tokens of an output")->check(CLI::Range(1, 1 << 24))->capture_default_str();
  command->add_option("--out", args->out, "HTML file to write: throughput against latency, with the Pareto front");
  command->add_option("--price", args->prices, "DEVICE=USD of one GPU for an hour")->delimiter(',');
  command->callback([args, &globals, &chosen] { chosen = [args, &globals] { return PlanServing(*args, globals); }; });
}

}  // namespace gpueta::cli
