#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/profile/ladder.h"
#include "core/profile/profile.h"
#include "core/wire/profile_codec.h"
#include "gpueta/client.h"

namespace gpueta::cli {
namespace {

std::string FormatTime(std::int64_t unix_s) {
  return unix_s == 0 ? "unknown" : fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(unix_s)));
}

nlohmann::json ToJson(const LoadedProfile& loaded) {
  nlohmann::json tables = nlohmann::json::array();
  for (const Table& table : loaded.profile.tables) {
    tables.push_back({{"table", Describe(table.key)},
                      {"rows", table.rows},
                      {"labels", table.variants.size() - 1},
                      {"measured_kernels", table.measured_hash.size()},
                      {"kernel_configurations", table.kernel_configs.size()},
                      {"expected_error", table.cv_mape},
                      {"floor_us", table.floor_us}});
  }
  nlohmann::json lines = nlohmann::json::array();
  for (const EndToEnd& line : loaded.profile.end_to_end)
    lines.push_back({{"steps", Describe(line)},
                     {"rows", line.rows},
                     {"us_per_flop", line.slope},
                     {"constant_us", line.constant_us},
                     {"error_ln", line.error_ln}});
  nlohmann::json sources = nlohmann::json::array();
  for (const ProfileSource& source : loaded.profile.sources)
    sources.push_back({{"name", source.name}, {"rows", source.rows}});
  return {{"id", loaded.id},
          {"device", loaded.profile.device},
          {"size_bytes", loaded.size_bytes},
          {"created_unix_s", loaded.profile.created_unix_s},
          {"labels", loaded.profile.labels},
          {"transfer", loaded.profile.transfer},
          {"sources", sources},
          {"tables", tables},
          {"end_to_end", lines}};
}

absl::Status Show(const std::string& path, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const LoadedProfile loaded, LoadProfile(path));
  if (globals.json) {
    fmt::print("{}\n", ToJson(loaded).dump(2));
    return absl::OkStatus();
  }
  const Profile& profile = loaded.profile;
  fmt::print("profile {} of {}, {} bytes, fitted {}\n", loaded.id, profile.device, loaded.size_bytes,
             FormatTime(profile.created_unix_s));
  for (const auto& [key, value] : profile.labels) fmt::print("  {} = {}\n", key, value);
  for (const ProfileSource& source : profile.sources) fmt::print("  from {}: {} rows\n", source.name, source.rows);
  terminal::TextTable table({"table", "rows", "labels", "expected error", "p90/p50", "floor"});
  for (const Table& t : profile.tables) {
    table.Add({Describe(t.key), std::to_string(t.rows), std::to_string(t.variants.size() - 1),
               terminal::FormatPercent(t.cv_mape), fmt::format("{:.2f}", std::exp(t.interval.p90_ln)),
               terminal::FormatUs(t.floor_us)});
  }
  fmt::print("{}", table.Render());
  for (const EndToEnd& line : profile.end_to_end) {
    fmt::print("end-to-end, {}: {} rows, {} and {} a TFLOP\n", Describe(line), line.rows,
               terminal::FormatUs(line.constant_us), terminal::FormatUs(1e12 * line.slope));
  }
  return absl::OkStatus();
}

absl::Status Verify(const std::vector<std::string>& paths, const Globals& globals) {
  nlohmann::json json = nlohmann::json::array();
  for (const std::string& path : paths) {
    GPUETA_ASSIGN_OR_RETURN(const LoadedProfile loaded, LoadProfile(path));
    json.push_back({{"path", path}, {"id", loaded.id}, {"device", loaded.profile.device}});
    if (!globals.json) fmt::print("{}: profile {} of {} is sound\n", path, loaded.id, loaded.profile.device);
  }
  if (globals.json) fmt::print("{}\n", json.dump(2));
  return absl::OkStatus();
}

// Table by table: what one has and the other lacks, and how errors changed.
absl::Status Diff(const std::string& before_path, const std::string& after_path, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const LoadedProfile before, LoadProfile(before_path));
  GPUETA_ASSIGN_OR_RETURN(const LoadedProfile after, LoadProfile(after_path));
  std::map<std::string, std::pair<const Table*, const Table*>> tables;
  for (const Table& t : before.profile.tables) tables[Describe(t.key)].first = &t;
  for (const Table& t : after.profile.tables) tables[Describe(t.key)].second = &t;
  nlohmann::json json = nlohmann::json::array();
  terminal::TextTable table({"table", "rows before", "rows after", "error before", "error after", "parameters"});
  for (const auto& [name, pair] : tables) {
    const auto [a, b] = pair;
    const auto same_theta = [](const Variant& x, const Variant& y) { return x.label == y.label && x.theta == y.theta; };
    const bool same =
        a != nullptr && b != nullptr &&
        std::equal(a->variants.begin(), a->variants.end(), b->variants.begin(), b->variants.end(), same_theta) &&
        a->residual == b->residual;
    const char* change = a == nullptr ? "added" : b == nullptr ? "removed" : same ? "same" : "changed";
    json.push_back({{"table", name}, {"change", change}});
    table.Add({name, a != nullptr ? std::to_string(a->rows) : "", b != nullptr ? std::to_string(b->rows) : "",
               a != nullptr ? terminal::FormatPercent(a->cv_mape) : "",
               b != nullptr ? terminal::FormatPercent(b->cv_mape) : "", change});
  }
  fmt::print("{}", globals.json ? json.dump(2) + "\n" : table.Render());
  return absl::OkStatus();
}

nlohmann::json ToJson(const v1::ProfileInfo& info) {
  nlohmann::json tables = nlohmann::json::array();
  for (const v1::TableKey& key : info.tables()) {
    const auto decoded = wire::Decode(key);
    tables.push_back(decoded.ok() ? Describe(*decoded) : key.op());
  }
  return {{"name", info.name()},
          {"id", info.id()},
          {"device", info.device()},
          {"node", info.node()},
          {"active", info.active()},
          {"version", info.version()},
          {"rows", info.rows()},
          {"etag", info.etag()},
          {"created_unix_s", info.created_unix_s()},
          {"tables", tables},
          {"size_bytes", info.size_bytes()}};
}

void Print(const v1::ProfileInfo& info, std::string_view what, const Globals& globals) {
  if (globals.json) {
    fmt::print("{}\n", ToJson(info).dump(2));
  } else {
    fmt::print("{} {}{}\n", what, info.name(),
               info.active() ? fmt::format(" (active, version {})", info.version()) : "");
  }
}

absl::Status List(const std::string& device, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  nlohmann::json json = nlohmann::json::array();
  terminal::TextTable table({"device", "profile", "node", "active", "version", "rows", "fitted"});
  v1::ListProfilesRequest request;
  request.set_parent("devices/" + (device.empty() ? "-" : device));
  do {
    GPUETA_ASSIGN_OR_RETURN(const v1::ListProfilesResponse page, client.ListProfiles(request));
    for (const v1::ProfileInfo& info : page.profiles()) {
      json.push_back(ToJson(info));
      table.Add({info.device(), info.id(), info.node(), info.active() ? "yes" : "", std::to_string(info.version()),
                 std::to_string(info.rows()), FormatTime(info.created_unix_s())});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  fmt::print("{}", globals.json ? json.dump(2) + "\n" : table.Render());
  return absl::OkStatus();
}

absl::Status Get(const std::string& name, const std::string& out, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  v1::GetProfileRequest request;
  request.set_name(name);
  request.set_view(out.empty() ? v1::GetProfileRequest::VIEW_BASIC : v1::GetProfileRequest::VIEW_FULL);
  GPUETA_ASSIGN_OR_RETURN(const v1::GetProfileResponse response, client.GetProfile(request));
  if (!out.empty()) GPUETA_RETURN_IF_ERROR(WriteWholeFile(out, response.file()));
  Print(response.info(), out.empty() ? "found" : "wrote", globals);
  return absl::OkStatus();
}

absl::Status Publish(const std::string& path, const std::string& node, bool activate, bool shadow,
                     const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const LoadedProfile loaded, LoadProfile(path));  // fail here rather than at the server
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  GPUETA_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  const std::string parent = "devices/" + loaded.profile.device + (node.empty() ? "" : "/nodes/" + node);
  GPUETA_ASSIGN_OR_RETURN(const v1::ProfileInfo info, shadow ? client.PublishProfileInShadow(parent, bytes)
                                                             : client.PublishProfile(parent, bytes, activate));
  Print(info, shadow ? "compares in the shadow" : "published", globals);
  return absl::OkStatus();
}

absl::Status Activate(const std::string& name, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  v1::ActivateProfileRequest request;
  request.set_name(name);
  GPUETA_ASSIGN_OR_RETURN(const v1::ProfileInfo info, client.ActivateProfile(request));
  Print(info, "activated", globals);
  return absl::OkStatus();
}

absl::Status Rollback(const std::string& device, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  v1::RollbackProfileRequest request;
  request.set_parent("devices/" + device);
  GPUETA_ASSIGN_OR_RETURN(const v1::ProfileInfo info, client.RollbackProfile(request));
  Print(info, "rolled back to", globals);
  return absl::OkStatus();
}

struct Args {
  std::vector<std::string> paths;
  std::string name;
  std::string out;
  std::string node;
  bool no_activate = false;
  bool shadow = false;
};

}  // namespace

void AddProfile(CLI::App& app, const Globals& globals, Chosen& chosen) {
  CLI::App* profile = app.add_subcommand("profile", "Profiles in files and on a server");
  profile->require_subcommand(1);
  auto args = std::make_shared<Args>();
  const auto add = [&](const char* name, const char* help, std::function<absl::Status()> run) {
    CLI::App* command = profile->add_subcommand(name, help);
    command->callback([run = std::move(run), &chosen] { chosen = run; });
    return command;
  };
  add("show", "What a profile file holds", [args, &globals] { return Show(args->paths[0], globals); })
      ->add_option("FILE", args->paths)
      ->required()
      ->expected(1)
      ->check(CLI::ExistingFile);
  add("verify", "Check profile files", [args, &globals] { return Verify(args->paths, globals); })
      ->add_option("FILE", args->paths)
      ->required()
      ->check(CLI::ExistingFile);
  add("diff", "Compare two profile files", [args, &globals] { return Diff(args->paths[0], args->paths[1], globals); })
      ->add_option("FILE", args->paths)
      ->required()
      ->expected(2)
      ->check(CLI::ExistingFile);
  add("list", "Profiles on the server", [args, &globals] {
    return List(args->name, globals);
  })->add_option("DEVICE", args->name, "Only of this device");
  CLI::App* get = add("get", "Look at or fetch a profile of the server",
                      [args, &globals] { return Get(args->name, args->out, globals); });
  get->add_option("NAME", args->name, "devices/SLUG/profiles/ID, or devices/SLUG/profiles/active")->required();
  get->add_option("--out", args->out, "Write the profile file");
  CLI::App* publish = add("publish", "Publish a profile file", [args, &globals] {
    return Publish(args->paths[0], args->node, !args->no_activate, args->shadow, globals);
  });
  publish->add_option("FILE", args->paths)->required()->expected(1)->check(CLI::ExistingFile);
  CLI::Option* node = publish->add_option("--node", args->node, "As the profile of this node");
  CLI::Option* stored = publish->add_flag("--no-activate", args->no_activate, "Store it without making it active");
  publish
      ->add_flag("--shadow", args->shadow,
                 "Compare it with the active one on what is observed, before it answers; --profile-policy of the "
                 "server says what follows")
      ->excludes(node)
      ->excludes(stored);
  add("activate", "Make a stored profile the active one", [args, &globals] { return Activate(args->name, globals); })
      ->add_option("NAME", args->name, "devices/SLUG/profiles/ID")
      ->required();
  add("rollback", "Go back to the profile that was active before",
      [args, &globals] { return Rollback(args->name, globals); })
      ->add_option("DEVICE", args->name, "Slug of the device")
      ->required();
}

}  // namespace gpueta::cli
