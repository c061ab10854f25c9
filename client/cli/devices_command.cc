#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"

namespace gpueta::cli {
namespace {

struct DevicesArgs {
  bool profiled_only = false;
};

nlohmann::json ToJson(const Table& table) {
  nlohmann::json relatives = nlohmann::json::object();
  for (const Relative& relative : table.relatives) relatives[relative.device] = relative.weight;
  return {{"table", Describe(table.key)},
          {"op", Name(table.key.op)},
          {"rows", table.rows},
          {"expected_error", table.cv_mape},
          {"relatives", relatives}};
}

// The devices that tables take most from, the heaviest first: each by its largest weight.
std::string RelativesOf(const Profile& profile) {
  constexpr std::size_t kNamed = 2;
  constexpr double kLeastWeight = 0.05;
  std::map<std::string, double> weights;
  for (const Table& table : profile.tables) {
    for (const Relative& relative : table.relatives)
      weights[relative.device] = std::max<double>(weights[relative.device], relative.weight);
  }
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [device, weight] : weights) sorted.emplace_back(-weight, device);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> named;
  for (const auto& [weight, device] : sorted) {
    if (named.size() < kNamed && -weight >= kLeastWeight) named.push_back(fmt::format("{} {:.2f}", device, -weight));
  }
  return named.empty() ? "other devices" : fmt::format("other devices ({})", fmt::join(named, ", "));
}

nlohmann::json ToJson(const DeviceSpec& spec, const std::vector<std::string>& aliases, const Predictor* predictor) {
  nlohmann::json out = {{"slug", spec.slug},           {"name", spec.name},
                        {"aliases", aliases},          {"architecture", spec.architecture},
                        {"sm_count", spec.sm_count},   {"mem_bandwidth_gb_s", spec.mem_bandwidth_gb_s},
                        {"memory_gb", spec.memory_gb}, {"fp32_tflops", spec.fp32_tflops},
                        {"profile", nullptr}};
  if (const Profile* transferred = predictor == nullptr ? nullptr : predictor->transferred(); transferred != nullptr) {
    nlohmann::json tables = nlohmann::json::array();
    for (const Table& table : transferred->tables) tables.push_back(ToJson(table));
    out["transferred"] = tables;
  }
  if (predictor != nullptr && predictor->profile() != nullptr) {
    nlohmann::json tables = nlohmann::json::array();
    for (const Table& table : predictor->profile()->profile.tables) tables.push_back(ToJson(table));
    nlohmann::json sources = nlohmann::json::array();
    for (const ProfileSource& source : predictor->profile()->profile.sources)
      sources.push_back({{"name", source.name}, {"rows", source.rows}});
    out["profile"] = {{"id", predictor->profile()->id},
                      {"created_unix_s", predictor->profile()->profile.created_unix_s},
                      {"sources", sources},
                      {"tables", tables}};
  }
  return out;
}

// "gemm 7%, conv2d 18%": the range over an op's tables. Of tables without
// deviations nobody knows.
std::string ErrorsByOp(const Profile& profile) {
  std::map<Op, std::pair<double, double>> ranges;
  for (const Table& table : profile.tables) {
    if (!(table.cv_mape > 0)) continue;
    const auto [it, fresh] = ranges.try_emplace(table.key.op, table.cv_mape, table.cv_mape);
    it->second = {std::min<double>(it->second.first, table.cv_mape),
                  std::max<double>(it->second.second, table.cv_mape)};
  }
  std::string out;
  for (const auto& [op, range] : ranges) {
    if (!out.empty()) out += ", ";
    out += range.second - range.first < 0.005
               ? fmt::format("{} {:.0f}%", Name(op), range.second * 100)
               : fmt::format("{} {:.0f}-{:.0f}%", Name(op), range.first * 100, range.second * 100);
  }
  return out;
}

absl::Status Devices(const DevicesArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const std::shared_ptr<const Snapshot> snapshot, OpenSnapshot(globals, {}));
  const std::vector<std::string> profiled = snapshot->ProfiledDevices();
  std::set<std::string> listed;
  nlohmann::json json = nlohmann::json::array();
  terminal::TextTable table({"device", "architecture", "SMs", "GB/s", "fp32 TFLOPS", "backed by", "expected error"});
  const auto add = [&](const DeviceSpec& spec, const std::vector<std::string>& aliases) -> absl::Status {
    listed.insert(spec.slug);
    const bool has_profile = std::binary_search(profiled.begin(), profiled.end(), spec.slug);
    if (args.profiled_only && !has_profile) return absl::OkStatus();
    GPUETA_ASSIGN_OR_RETURN(const std::shared_ptr<const Predictor> predictor, snapshot->Find(spec.slug));
    if (globals.json) {
      json.push_back(ToJson(spec, aliases, predictor.get()));
      return absl::OkStatus();
    }
    std::string backing = "data sheet";
    std::string errors;
    if (const Profile* transferred = predictor->transferred(); transferred != nullptr) {
      backing += ", " + RelativesOf(*transferred);
      errors = ErrorsByOp(*transferred);
    }
    if (has_profile) {
      errors = ErrorsByOp(predictor->profile()->profile);
      std::int64_t rows = 0;
      for (const Table& t : predictor->profile()->profile.tables) rows += t.rows;
      backing = fmt::format("profile {}, {} rows", predictor->profile()->id.substr(0, 8), rows);
    }
    table.Add({spec.slug, spec.architecture, spec.sm_count > 0 ? std::to_string(spec.sm_count) : "",
               fmt::format("{:.0f}", spec.mem_bandwidth_gb_s), fmt::format("{:.1f}", spec.fp32_tflops), backing,
               errors});
    return absl::OkStatus();
  };
  for (const std::string& slug : profiled) {
    GPUETA_ASSIGN_OR_RETURN(const std::shared_ptr<const Predictor> predictor, snapshot->Find(slug));
    const CatalogueEntry* known = Catalogue::BuiltIn().Find(slug);
    GPUETA_RETURN_IF_ERROR(add(predictor->spec(), known != nullptr ? known->aliases : std::vector<std::string>{}));
  }
  for (const CatalogueEntry& entry : Catalogue::BuiltIn().entries()) {
    if (!listed.contains(entry.spec.slug)) GPUETA_RETURN_IF_ERROR(add(entry.spec, entry.aliases));
  }
  fmt::print("{}", globals.json ? json.dump(2) + "\n" : table.Render());
  return absl::OkStatus();
}

}  // namespace

void AddDevices(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<DevicesArgs>();
  CLI::App* devices = app.add_subcommand("devices", "List every known device and what backs its estimates");
  devices->add_flag("--profiled", args->profiled_only, "Only devices with a profile of their own");
  devices->callback([args, &globals, &chosen] { chosen = [args, &globals] { return Devices(*args, globals); }; });
}

}  // namespace gpueta::cli
