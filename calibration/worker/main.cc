// gpueta-calibrate: measures the device of this node and publishes its profile.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <filesystem>

#include "calibration/backends/backends.h"
#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/device_lock.h"
#include "calibration/backends/manifest/manifest_kernels.h"
#include "calibration/control/card/settings_journal.h"
#include "calibration/worker/calibrate.h"
#include "calibration/worker/candidates.h"
#include "calibration/worker/fleet.h"
#include "calibration/worker/journal.h"
#include "calibration/worker/node_class.h"
#include "calibration/worker/tasks.h"
#include "calibration/worker/turn.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/fit/fit.h"
#include "core/profile/transfer.h"
#include "gpueta/client.h"

namespace gpueta {
namespace {

struct Args {
  std::string device = "auto";
  std::string server;
  std::size_t budget = 400;
  double time_s = 600;
  std::vector<std::string> workload;
  bool train = false;
  std::vector<std::string> own_kernels;  // manifests
  bool collectives = false;
  std::size_t algorithms = 0;  // shapes
  std::string dtype = "fp32";
  std::string out;
  std::string measurements_out;
  std::string node;
  std::string timing;
  std::string l2 = std::string(Name(L2State::kAsInModel));
  double max_duty = 1;
  bool even_if_busy = false;
  std::string journal;
  std::string lock_dir = kLockDirectory;
  std::vector<std::string> combine;
  std::uint64_t seed = 0;
  bool once = false;
  bool watch = false;
  int tasks = 0;  // with watch: end after so many; 0: never
  bool no_activate = false;
};

// The kernels a replay can answer; generated shapes elsewhere.
absl::StatusOr<std::vector<Kernel>> CandidatesFor(const Args& args, ManifestKernels& own_kernels,
                                                  const Backend& backend, const DeviceSpec& spec,
                                                  const std::vector<std::vector<Kernel>>& workload) {
  constexpr std::string_view kReplay = "replay:";
  if (args.device.starts_with(kReplay)) {
    GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> rows,
                            ReadMeasurementFile(args.device.substr(kReplay.size()), {.ignore_latency = true}));
    std::vector<Kernel> kernels;
    for (const Measurement& row : rows) kernels.push_back(row.kernel);
    return kernels;
  }
  CandidateOptions options;
  options.ops = PlannedOps(spec, workload);
  options.dtype = ParseDType(args.dtype).value();
  options.seed = args.seed;
  GPUETA_ASSIGN_OR_RETURN(std::vector<Kernel> candidates, OwnKernelCandidates(own_kernels, backend, spec, options));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> generated, GenerateCandidates(backend, spec, options));
  candidates.insert(candidates.end(), generated.begin(), generated.end());
  if (args.collectives) {
    const std::vector<Kernel> collectives = CollectiveCandidates(backend, options);
    candidates.insert(candidates.end(), collectives.begin(), collectives.end());
  }
  return candidates;
}

absl::StatusOr<Client> Connect(const Args& args) {
  ClientOptions options;
  options.deadline = std::chrono::seconds(60);
  options.attempts = 10;
  return Client::Connect(args.server, options);
}

absl::Status Publish(const Args& args, const Profile& profile) {
  GPUETA_ASSIGN_OR_RETURN(Client client, Connect(args));
  const std::string parent =
      args.node.empty() ? "devices/" + profile.device : fmt::format("devices/{}/nodes/{}", profile.device, args.node);
  const absl::StatusOr<v1::ProfileInfo> info =
      client.PublishProfile(parent, SerializeProfile(profile), !args.no_activate);
  if (!info.ok()) return Prefixed(info.status(), "publishing");
  fmt::print("published {} ({}{})\n", info->name(), info->active() ? "active" : "stored",
             info->active() ? fmt::format(", version {}", info->version()) : "");
  return absl::OkStatus();
}

// What would otherwise fail only after minutes of measuring.
absl::Status CheckArgs(const Args& args) {
  if (!args.timing.empty() && !ParseTiming(args.timing).has_value())
    return InvalidArgument("--timing: \"{}\" is not eager, graph or kernel", args.timing);
  if (!ParseL2State(args.l2).has_value()) return InvalidArgument("--l2: \"{}\" is not model, warm or flushed", args.l2);
  if (!ParseDType(args.dtype).has_value()) return InvalidArgument("--dtype: \"{}\" is not a known dtype", args.dtype);
  for (const auto& [option, path] : {std::pair{"--out", &args.out}, {"--measurements-out", &args.measurements_out}}) {
    if (path->empty()) continue;
    const std::filesystem::path directory = std::filesystem::absolute(*path).parent_path();
    if (access(directory.c_str(), W_OK) != 0) {
      return Unavailable("{}: {} is no directory that can be written to", option, directory.string());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedProfile> ActiveProfile(Client& client, const std::string& device) {
  v1::GetProfileRequest request;
  request.set_name("devices/" + device + "/profiles/active");
  request.set_view(v1::GetProfileRequest::VIEW_FULL);
  const auto active = client.GetProfile(request);
  if (!active.ok()) return active.status();
  return ParseProfile(active->file());
}

void Tell(const std::vector<NodeDeviation>& deviations) {
  for (const NodeDeviation& deviation : deviations) {
    if (deviation.outlier) fmt::print("outlier: {}\n", Describe(deviation));
  }
}

// A node that is unlike the class of its device is worth a look.
absl::Status CompareWithClass(const Args& args, const std::vector<Measurement>& rows) {
  GPUETA_ASSIGN_OR_RETURN(Client client, Connect(args));
  const absl::StatusOr<LoadedProfile> of_class = ActiveProfile(client, rows.front().device);
  if (absl::IsNotFound(of_class.status())) return absl::OkStatus();
  if (!of_class.ok()) return of_class.status();
  Tell(DeviationsFrom(of_class->profile, {.node = args.node, .rows = rows}));
  return absl::OkStatus();
}

// Measures, fits and tells about it.
absl::StatusOr<Profile> Measure(Backend& backend, const DeviceSpec& spec, const std::vector<Kernel>& candidates,
                                CalibrationOptions options, const Args& args) {
  options.budget = args.budget;
  options.time_budget_us = args.time_s * 1e6;
  options.algorithm_shapes = args.algorithms;
  options.seed = args.seed;
  GPUETA_ASSIGN_OR_RETURN(const std::optional<Profile> base, TransferToLearnFrom(DefaultProfileDirectory(), spec));
  if (base.has_value()) options.base = &*base;
  WorkerTurn turn(backend, {.max_duty = args.max_duty, .wait_for_idle = !args.even_if_busy}, RealTime());
  options.wait_turn = [&turn] { return turn.Wait(); };
  absl::StatusOr<Calibration> calibration;
  {
    terminal::Progress progress;
    options.progress = [&](double share, const std::string& what) { progress.Update(share, what); };
    calibration = Calibrate(backend, spec, candidates, options, SteadyMicroseconds);
  }
  if (!calibration.ok()) return calibration.status();
  calibration->profile.created_unix_s = std::time(nullptr);
  fmt::print("measured {} kernels ({} disturbed at first, {} given up, {} could not run)\n",
             calibration->measurements.size(), calibration->disturbed, calibration->given_up,
             calibration->skipped.size());
  if (args.algorithms > 0) {
    fmt::print("{} more by algorithms that the library did not choose{}\n", calibration->alternatives.size(),
               calibration->alternatives.empty() ? ": it has no choice, or the time was up" : "");
  }
  if (calibration->slowed)
    fmt::print("the device was in a slower state than it can be; the profile describes that state\n");
  if (calibration->shared)
    fmt::print("something else ran all the time; the profile describes a device shared with it\n");
  terminal::TextTable table({"table", "rows", "held-out error"});
  for (const Table& t : calibration->profile.tables)
    table.Add({Describe(t.key), std::to_string(t.rows), terminal::FormatPercent(t.cv_mape)});
  fmt::print("{}", table.Render());
  if (!args.measurements_out.empty())
    GPUETA_RETURN_IF_ERROR(WriteMeasurementFiles(args.measurements_out, calibration->measurements));
  if (!args.measurements_out.empty() && !calibration->alternatives.empty())
    GPUETA_RETURN_IF_ERROR(WriteMeasurementFiles(args.measurements_out + ".algorithms", calibration->alternatives));
  if (!args.node.empty() && !args.server.empty()) {
    GPUETA_RETURN_IF_ERROR(CompareWithClass(args, calibration->measurements));
  }
  return std::move(calibration->profile);
}

// What two runs must have in common to go on with each other's journal.
std::string CampaignOf(const Args& args, const Backend& backend) {
  std::string text = fmt::format("{} budget {} seed {} dtype {} timing {}", backend.slug(), args.budget, args.seed,
                                 args.dtype, Name(backend.timing()));
  if (args.collectives) text += " collectives";
  for (const auto& [name, value] : backend.labels()) text += fmt::format(" {}={}", name, value);
  return text;
}

// nullopt where none is kept. `of` tells campaigns apart that are otherwise alike.
absl::StatusOr<std::optional<Journal>> OpenJournal(const Args& args, const Backend& backend, const std::string& of) {
  if (args.journal.empty()) return std::nullopt;
  GPUETA_ASSIGN_OR_RETURN(Journal journal, Journal::Open(args.journal, CampaignOf(args, backend) + of));
  if (journal.size() > 0)
    fmt::print("going on from {}: {} kernels were measured before\n", args.journal, journal.size());
  return journal;
}

// Measures what a task asks for and publishes the profile that is active with
// the new tables in it.
absl::Status Serve(const v1::CalibrationTask& task, Backend& backend, const DeviceSpec& spec,
                   const std::vector<Kernel>& candidates, const Args& args) {
  if (!task.node().empty() && task.node() != args.node) {
    fmt::print("{} is about node {}; not this one\n", task.name(), task.node());
    return absl::OkStatus();
  }
  fmt::print("{}: {} on {}, {} shapes asked for\n", task.name(), task.op(), task.device(), task.shapes_size());
  GPUETA_ASSIGN_OR_RETURN(const TaskKernels kernels, KernelsOf(task, candidates));
  CalibrationOptions options;
  options.asked = kernels.asked;
  GPUETA_ASSIGN_OR_RETURN(Client client, Connect(args));
  absl::StatusOr<LoadedProfile> base = ActiveProfile(client, task.device());
  if (!base.ok() && !absl::IsNotFound(base.status())) return base.status();
  // What a CPU can do is measured, and comes out otherwise each time.
  const DeviceSpec& fitted = base.ok() ? base->profile.spec : spec;
  GPUETA_ASSIGN_OR_RETURN(std::optional<Journal> journal, OpenJournal(args, backend, " " + task.name()));
  if (journal.has_value()) options.journal = &*journal;
  GPUETA_ASSIGN_OR_RETURN(const Profile fresh, Measure(backend, fitted, kernels.candidates, options, args));
  if (journal.has_value()) journal->Finish();
  base = ActiveProfile(client, task.device());  // somebody else may have published meanwhile
  if (absl::IsNotFound(base.status())) return Publish(args, fresh);
  if (!base.ok()) return base.status();
  GPUETA_ASSIGN_OR_RETURN(const Profile merged, WithTables(std::move(base->profile), fresh));
  return Publish(args, merged);
}

// Serves tasks until the server is gone, or as many as asked for. One that fails
// is told and left to others.
absl::Status Watch(Backend& backend, const DeviceSpec& spec, const std::vector<Kernel>& candidates, const Args& args) {
  GPUETA_ASSIGN_OR_RETURN(Client client, Connect(args));
  v1::WatchCalibrationTasksRequest request;
  request.set_parent("devices/" + spec.slug);
  fmt::print("watching tasks of {} at {}\n", spec.slug, args.server);
  std::fflush(stdout);
  int served = 0;
  return client.WatchCalibrationTasks(request, [&](const v1::CalibrationTask& task) {
    if (const absl::Status status = Serve(task, backend, spec, candidates, args); !status.ok())
      fmt::print(stderr, "gpueta-calibrate: {}: {}\n", task.name(), MessageOf(status));
    std::fflush(stdout);
    return ++served != args.tasks;
  });
}

// The class's profile of what its nodes measured: NODE=FILE.csv, several a node.
absl::Status Combine(const Args& args) {
  std::map<std::string, std::vector<Measurement>> by_node;
  std::string device;
  for (const std::string& argument : args.combine) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0)
      return InvalidArgument("--combine: \"{}\" is not NODE=FILE.csv", argument);
    GPUETA_ASSIGN_OR_RETURN(const std::vector<Measurement> rows, ReadMeasurementFile(argument.substr(equals + 1)));
    for (const Measurement& row : rows) {
      if (device.empty()) device = row.device;
      if (row.device != device) {
        return InvalidArgument("{}: line {}: device \"{}\" after \"{}\": nodes of one type have one", argument,
                               row.line, row.device, device);
      }
      by_node[argument.substr(0, equals)].push_back(row);
    }
  }
  std::vector<NodeMeasurements> nodes;
  for (auto& [node, rows] : by_node) nodes.push_back({.node = node, .rows = std::move(rows)});
  const NodeClass of_class = ClassOf(nodes);
  Tell(of_class.deviations);
  fmt::print("{} kernels of {} nodes\n", of_class.rows.size(), nodes.size());
  GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, Catalogue::BuiltIn().Get(device));
  GPUETA_ASSIGN_OR_RETURN(const std::optional<Profile> base, TransferToLearnFrom(DefaultProfileDirectory(), spec));
  GPUETA_ASSIGN_OR_RETURN(
      Profile profile,
      FitProfile(spec, of_class.rows, {.seed = args.seed, .base = base.has_value() ? &*base : nullptr}));
  profile.created_unix_s = std::time(nullptr);
  if (!args.out.empty()) GPUETA_RETURN_IF_ERROR(SaveProfile(profile, args.out).status());
  return args.server.empty() ? absl::OkStatus() : Publish(args, profile);
}

constexpr std::string_view kAllGpus = "cuda:all";

// One worker a GPU of this node, each called as this one was.
absl::Status RunForAllGpus(const Args& args, const std::vector<std::string>& arguments) {
  if (args.collectives) return InvalidArgument("--collectives: one worker measures those of a node; give cuda:N");
  const absl::StatusOr<std::unique_ptr<CudaDriver>> driver = OpenCudaDriver();
  if (!driver.ok())
    return FailedPrecondition("{}: {}; use cpu or replay:FILE.csv", kAllGpus, MessageOf(driver.status()));
  std::vector<std::vector<std::string>> workers;
  for (int ordinal = 0; ordinal < (*driver)->DeviceCount(); ++ordinal) {
    std::vector<std::string>& worker = workers.emplace_back(arguments);
    const std::vector<std::string> own = ArgumentsOfGpu(
        ordinal,
        {.node = args.node, .out = args.out, .measurements_out = args.measurements_out, .journal = args.journal});
    worker.insert(worker.end(), own.begin(), own.end());
  }
  return RunFleet("/proc/self/exe", workers, {.restart = args.watch});
}

absl::Status Run(const Args& args, const std::vector<std::string>& arguments) {
  if (args.server.empty() && args.out.empty())
    return InvalidArgument("nothing to do with the profile: give --server or --out");
  if (args.watch && (args.server.empty() || !args.out.empty() || args.once))
    return InvalidArgument("--watch takes its tasks from a server: give --server, and neither --out nor --once");
  GPUETA_RETURN_IF_ERROR(CheckArgs(args));
  if (!args.combine.empty()) return Combine(args);
  if (args.device == kAllGpus) return RunForAllGpus(args, arguments);
  GPUETA_ASSIGN_OR_RETURN(const int replayed, ReplayStaleJournals(DefaultStateDirectory()));
  if (replayed > 0) fmt::print("settings that an emulation left behind were restored\n");
  std::string device = args.device;
  if (device == "auto") {
    const ChosenDevice chosen = ChooseDevice();
    device = chosen.device;
    fmt::print("auto: {}, because {}\n", device, chosen.reason);
  }
  GPUETA_ASSIGN_OR_RETURN(ManifestKernels own_kernels, ManifestKernels::Read(args.own_kernels));
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                          OpenBackend(device, {.timing = ParseTiming(args.timing),
                                               .own_kernels = own_kernels.empty() ? nullptr : &own_kernels,
                                               .collectives = args.collectives,
                                               .l2 = ParseL2State(args.l2).value()}));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<DeviceLock> locks, LockDevicesOf(*backend, args.lock_dir));
  for (const std::string& note : backend->notes()) fmt::print("{}\n", note);
  fmt::print("device {}: looking at its peaks and bandwidth\n", backend->slug());
  GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, backend->Describe());
  fmt::print("{} SMs or cores, {:.3g} TFLOPS fp32, {:.3g} GB/s, {:.3g} MB last-level cache\n", spec.sm_count,
             spec.fp32_tflops, spec.mem_bandwidth_gb_s, spec.l2_mb);
  CalibrationOptions options;
  std::map<std::string, std::size_t> left_out;
  GPUETA_ASSIGN_OR_RETURN(options.workload, WorkloadModels(*backend, args.workload, {.train = args.train}, &left_out));
  for (const auto& [kind, times] : left_out)
    fmt::print("not measured, for want of a kernel: {} ({} in the workload)\n", kind, times);
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> candidates,
                          CandidatesFor(args, own_kernels, *backend, spec, options.workload));
  if (args.watch) return Watch(*backend, spec, candidates, args);
  GPUETA_ASSIGN_OR_RETURN(std::optional<Journal> journal, OpenJournal(args, *backend, ""));
  if (journal.has_value()) options.journal = &*journal;
  GPUETA_ASSIGN_OR_RETURN(const Profile profile, Measure(*backend, spec, candidates, options, args));
  if (journal.has_value()) journal->Finish();
  if (!args.out.empty()) {
    GPUETA_ASSIGN_OR_RETURN(const std::string id, SaveProfile(profile, args.out));
    fmt::print("profile {} of {} written to {}\n", id, profile.device, args.out);
  }
  return args.server.empty() ? absl::OkStatus() : Publish(args, profile);
}

}  // namespace
}  // namespace gpueta

int main(int argc, char** argv) {
  CLI::App app{"Measures the device of this node, fits its profile and publishes it to a gpueta server."};
  app.set_version_flag("--version", GPUETA_VERSION);
  gpueta::Args args;
  // Those that a worker of one GPU is given once more win.
  const auto last = CLI::MultiOptionPolicy::TakeLast;
  app.add_option("--device", args.device,
                 "auto, cpu, cuda:N, replay:F.csv, or cuda:all: a process for each GPU, files named .gpuN, nodes but "
                 "the first -gpuN")
      ->capture_default_str()
      ->multi_option_policy(last);
  app.add_option("--server", args.server, "Server to publish to, e.g. 127.0.0.1:7410")->envname("GPUETA_SERVER");
  app.add_option("--budget", args.budget, "Kernels to measure")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--time", args.time_s, "Stop measuring after this long, e.g. 90s or 10m [600s]")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}},
                                        CLI::AsNumberWithUnit::CASE_INSENSITIVE))
      ->check(CLI::PositiveNumber);
  auto* workload =
      app.add_option("--workload", args.workload, "Models (ONNX) that are run first, each kernel timed in place")
          ->check(CLI::ExistingFile);
  app.add_flag("--train", args.train, "Run a training step of each: forward, backward, optimiser")->needs(workload);
  app.add_option("--kernels", args.own_kernels, "Manifests of kernels of your own to measure as well (CUDA)")
      ->check(CLI::ExistingFile);
  app.add_flag("--collectives", args.collectives,
               "Measure collectives, too, over this GPU and the others of its kind here, which no other worker may "
               "measure meanwhile (NCCL)");
  app.add_option(
      "--algorithms", args.algorithms,
      "Of products of so many shapes measure, besides what the library chooses, up to three other algorithms "
      "each, on top of --budget and within --time (cuBLASLt) [none]");
  app.add_option("--dtype", args.dtype, "Of the generated kernels")->capture_default_str();
  app.add_option("--out", args.out, "Write the profile to a file")->multi_option_policy(last);
  app.add_option("--measurements-out", args.measurements_out,
                 "Write what was measured to PREFIX.OP.csv, of one op to PREFIX itself; what --algorithms adds to "
                 "PREFIX.algorithms, which is no part of what the device takes for a shape")
      ->multi_option_policy(last);
  app.add_option("--node", args.node, "Publish as the profile of this node, not of the device class")
      ->multi_option_policy(last);
  app.add_option("--timing", args.timing, "What is measured: eager, graph or kernel [as the device does it]");
  app.add_option("--l2", args.l2,
                 "What the cache holds when a kernel timed alone starts (CUDA): model (weights cold, activations "
                 "warm), warm or flushed")
      ->capture_default_str();
  app.add_option("--max-duty", args.max_duty, "Largest share of time to use the device")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 1.0));
  app.add_flag("--even-if-busy", args.even_if_busy, "Measure also while something else uses the device");
  app.add_option("--journal", args.journal,
                 "Keep what is measured here, of one campaign or task at a time, and go on from it after a restart")
      ->multi_option_policy(last);
  app.add_option("--lock-dir", args.lock_dir, "Where those who measure on one GPU find each other's locks")
      ->envname("GPUETA_LOCK_DIR")
      ->capture_default_str();
  app.add_option("--combine", args.combine,
                 "Measure nothing: fit the class's profile to what its nodes measured, each as NODE=FILE.csv, and tell "
                 "which node is an outlier");
  app.add_option("--seed", args.seed, "Seed of the sampling")->capture_default_str();
  app.add_flag("--once", args.once, "Calibrate once and exit (the default)");
  app.add_flag(
      "--watch", args.watch,
      "Wait for what the server wishes to be measured, measure that (--budget, --time for each) and publish it");
  app.add_option("--tasks", args.tasks, "With --watch: exit after so many tasks [never]")->check(CLI::PositiveNumber);
  app.add_flag("--no-activate", args.no_activate, "Publish without making the profile active");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int kUsage = 2;
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (const absl::Status status = gpueta::Run(args, {argv + 1, argv + argc}); !status.ok()) {
    fmt::print(stderr, "gpueta-calibrate: {}\n", gpueta::MessageOf(status));
    return 1;
  }
  return 0;
}
