#include "calibration/backends/cuda/simulated/simulated_driver.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "calibration/backends/cuda/simulated/simulated_kernels.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Host time of calls that do nothing on the device.
constexpr double kCallUs = 0.3;
constexpr double kNever = std::numeric_limits<double>::infinity();

const SimulatedStretch* StretchAt(const SimulatedGpu& gpu, double us) {
  const auto at = std::ranges::find_if(
      gpu.stretches, [us](const SimulatedStretch& stretch) { return us >= stretch.begin_us && us < stretch.end_us; });
  return at != gpu.stretches.end() ? &*at : nullptr;
}

class Device : public SimulatedDevice {
 public:
  Device(std::shared_ptr<SimulatedState> state, int sms, bool partition = false, int ordinal = 0)
      : state_(std::move(state)), properties_(Gpu().properties) {
    properties_.ordinal = ordinal;
    if (ordinal > 0) properties_.uuid += fmt::format("-{}", ordinal);
    properties_.sm_count = sms;
    properties_.partition = partition;
    if (!partition) state_->current = this;
  }

  const DeviceProperties& properties() const override { return properties_; }
  absl::Status Activate() override {
    state_->current = this;
    return absl::OkStatus();
  }
  SimulatedState& state() override { return *state_; }

  absl::StatusOr<DevicePointer> Allocate(std::size_t bytes) override {
    Call();
    Here();
    if (allocated_ + bytes > properties_.memory_bytes) {
      return ResourceExhausted("{} bytes: simulated device has {} free", bytes, properties_.memory_bytes - allocated_);
    }
    const DevicePointer pointer = next_pointer_;
    next_pointer_ += (bytes + 255) / 256 * 256 + 256;
    allocated_ += bytes;
    sizes_[pointer] = bytes;
    return pointer;
  }
  absl::Status Free(DevicePointer pointer) override {
    const auto at = sizes_.find(pointer);
    if (at == sizes_.end()) return InvalidArgument("{:#x} was not allocated", pointer);
    allocated_ -= at->second;
    sizes_.erase(at);
    return absl::OkStatus();
  }
  absl::Status CopyToDevice(DevicePointer to, std::span<const std::byte> from) override {
    return CheckRange(to, from.size());
  }
  absl::Status CopyToHost(std::span<std::byte> to, DevicePointer from) override {
    std::ranges::fill(to, std::byte{0});  // nothing is computed
    return CheckRange(from, to.size());
  }
  absl::Status Fill(DevicePointer to, std::uint8_t, std::size_t bytes, StreamHandle stream) override {
    GPUETA_RETURN_IF_ERROR(CheckRange(to, bytes));
    return Add({.name = "", .bytes = static_cast<double>(bytes)}, stream);
  }
  absl::StatusOr<std::size_t> FreeMemory() override { return properties_.memory_bytes - allocated_; }

  // Text with ".entry NAME(" is taken for PTX.
  absl::StatusOr<ModuleHandle> LoadModule(std::span<const std::byte> image) override {
    const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
    std::set<std::string> entries;
    constexpr std::string_view kEntry = ".entry ";
    for (std::size_t at = text.find(kEntry); at != std::string_view::npos; at = text.find(kEntry, at + 1)) {
      const std::size_t begin = at + kEntry.size();
      entries.emplace(text.substr(begin, text.find_first_of("( \n", begin) - begin));
    }
    if (entries.empty()) return InvalidArgument("the simulated device finds no PTX entry in the module");
    modules_.push_back(std::move(entries));
    return static_cast<ModuleHandle>(modules_.size());
  }
  absl::Status UnloadModule(ModuleHandle) override { return absl::OkStatus(); }
  absl::StatusOr<FunctionHandle> FindFunction(ModuleHandle module, const std::string& name) override {
    if (!modules_[static_cast<std::size_t>(module) - 1].contains(name)) return NotFound("{}: not in the module", name);
    functions_.push_back(name);
    return static_cast<FunctionHandle>(functions_.size());
  }
  absl::StatusOr<FunctionResources> ResourcesOf(FunctionHandle) override {
    return FunctionResources{.registers_per_thread = 32, .max_threads_per_block = 1024};
  }
  absl::StatusOr<int> ResidentBlocks(FunctionHandle, int threads, std::size_t dynamic_shared) override {
    if (threads < 1 || threads > 1024) return InvalidArgument("blocks of {} threads", threads);
    const int by_threads = std::min(properties_.threads_per_sm / threads, properties_.blocks_per_sm);
    if (dynamic_shared == 0) return by_threads;
    return std::min(by_threads, static_cast<int>(properties_.shared_per_sm_bytes / dynamic_shared));
  }
  absl::Status Launch(FunctionHandle function, const LaunchGeometry& geometry, std::span<void* const> arguments,
                      StreamHandle stream) override {
    if (geometry.grid.count() == 0) return InvalidArgument("a grid without blocks");
    GPUETA_ASSIGN_OR_RETURN(const int resident, ResidentBlocks(function, static_cast<int>(geometry.block.count()),
                                                               geometry.dynamic_shared));
    if (resident < 1) return InvalidArgument("{} bytes of shared memory", geometry.dynamic_shared);
    SimulatedWork work{
        .name = functions_[static_cast<std::size_t>(function) - 1], .geometry = geometry, .resident_blocks = resident};
    DescribeMicroKernel(work, arguments);
    return Enqueue(work, stream);
  }
  absl::Status Enqueue(const SimulatedWork& work, StreamHandle stream) override { return Add(work, stream); }
  void Meet(std::shared_ptr<SimulatedMeeting> meeting, SimulatedMeeting::GoOn go_on, StreamHandle stream) override {
    if (capturing_) {
      captured_.emplace_back(Appointment{std::move(meeting), std::move(go_on)});
      return;
    }
    state_->host_us += Gpu().host_issue_us;
    On(stream, [this, stream, appointment = Appointment{std::move(meeting), std::move(go_on)},
                now_us = state_->host_us](double& ready_us) {
      ready_us = std::max(ready_us, now_us + Gpu().launch_latency_us);
      Wait(appointment, stream, [] {});
    });
  }
  bool HasGraphOf(const void* convener) const override {
    return std::ranges::any_of(graphs_, [convener](const auto& graph) {
      return std::ranges::any_of(graph.second, [convener](const Node& node) {
        const auto* appointment = std::get_if<Appointment>(&node);
        return appointment != nullptr && appointment->meeting->convener == convener;
      });
    });
  }

  absl::StatusOr<StreamHandle> CreateStream() override {
    Here();
    streams_[next_handle_] = {};
    return static_cast<StreamHandle>(next_handle_++);
  }
  absl::Status DestroyStream(StreamHandle stream) override {
    streams_.erase(static_cast<std::uint64_t>(stream));
    return absl::OkStatus();
  }
  absl::Status Synchronize(StreamHandle stream) override {
    const double ready_us = ReadyUs(stream);
    if (ready_us == kNever) return Internal("a simulated kernel hangs: Synchronize would never return");
    state_->host_us = std::max(state_->host_us, ready_us) + kCallUs;
    return absl::OkStatus();
  }
  void* NativeStream(StreamHandle) override { return nullptr; }

  absl::StatusOr<EventHandle> CreateEvent() override {
    Here();
    events_[next_handle_] = {};
    return static_cast<EventHandle>(next_handle_++);
  }
  absl::Status DestroyEvent(EventHandle event) override {
    events_.erase(static_cast<std::uint64_t>(event));
    return absl::OkStatus();
  }
  absl::Status Record(EventHandle event, StreamHandle stream) override {
    if (capturing_) {
      captured_.emplace_back(event);
      return absl::OkStatus();
    }
    Call();
    const auto key = static_cast<std::uint64_t>(event);
    events_[key] = kNever;
    On(stream, [this, key, now_us = state_->host_us](double& ready_us) { events_[key] = std::max(ready_us, now_us); });
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Reached(EventHandle event) override {
    Call();
    const std::optional<double> at = events_.at(static_cast<std::uint64_t>(event));
    // A poll that waits in vain is where simulated time must not stand still.
    if (at.has_value() && *at > state_->host_us && *at != kNever) {
      state_->host_us = std::min(*at, state_->host_us + 50);
    }
    return at.has_value() && *at <= state_->host_us;
  }
  absl::StatusOr<double> ElapsedUs(EventHandle begin, EventHandle end) override {
    const std::optional<double> from = events_.at(static_cast<std::uint64_t>(begin));
    const std::optional<double> to = events_.at(static_cast<std::uint64_t>(end));
    if (!from.has_value() || !to.has_value()) return FailedPrecondition("an event that was never recorded");
    return *to - *from;
  }

  absl::Status BeginCapture(StreamHandle) override {
    captured_.clear();
    capturing_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<GraphHandle> EndCapture(StreamHandle) override {
    capturing_ = false;
    graphs_[next_handle_] = std::move(captured_);
    return static_cast<GraphHandle>(next_handle_++);
  }
  absl::Status LaunchGraph(GraphHandle graph, StreamHandle stream) override {
    Here();
    state_->host_us += Gpu().graph_launch_us;
    const auto nodes = std::make_shared<const std::vector<Node>>(graphs_.at(static_cast<std::uint64_t>(graph)));
    On(stream, [this, nodes, stream, now_us = state_->host_us](double& ready_us) {
      ready_us = std::max(ready_us, now_us + Gpu().launch_latency_us);
      Play(nodes, 0, stream);
    });
    return absl::OkStatus();
  }
  absl::Status DestroyGraph(GraphHandle graph) override {
    graphs_.erase(static_cast<std::uint64_t>(graph));
    return absl::OkStatus();
  }

  absl::StatusOr<SmPartitions> SplitSms(int sms) override {
    constexpr int kGranularity = 4;
    if (sms < 1 || sms > properties_.sm_count) {
      return absl::OutOfRangeError(fmt::format("{} SMs of {}", sms, properties_.sm_count));
    }
    const int chosen = std::min((sms + kGranularity - 1) / kGranularity * kGranularity, properties_.sm_count);
    SmPartitions partitions{.chosen = std::make_unique<Device>(state_, chosen, true)};
    if (chosen < properties_.sm_count)
      partitions.rest = std::make_unique<Device>(state_, properties_.sm_count - chosen, true);
    return partitions;
  }
  absl::Status SetAsideL2(std::size_t bytes) override {
    return bytes <= properties_.persisting_l2_bytes ? absl::OkStatus()
                                                    : InvalidArgument("{} bytes of L2 to set aside", bytes);
  }

 private:
  struct Appointment {
    std::shared_ptr<SimulatedMeeting> meeting;
    SimulatedMeeting::GoOn go_on;
  };
  using Node = std::variant<EventHandle, SimulatedWork, Appointment>;
  struct Stream {
    double ready_us = 0;                                       // when what is enqueued ends
    bool waits = false;                                        // for other devices
    std::deque<std::function<void(double& ready_us)>> behind;  // what is enqueued meanwhile
  };

  const SimulatedGpu& Gpu() const { return state_->gpu; }
  void Call() { state_->host_us += kCallUs; }
  // For calls that need the device to be the thread's.
  void Here() {
    if (state_->current != this) ++state_->misplaced;
  }
  Stream& At(StreamHandle stream) { return streams_.at(static_cast<std::uint64_t>(stream)); }
  double ReadyUs(StreamHandle stream) {
    const Stream& at = At(stream);
    return at.waits ? kNever : at.ready_us;
  }

  // Now, or when the stream comes to it.
  void On(StreamHandle stream, std::function<void(double& ready_us)> what) {
    Stream& at = At(stream);
    if (at.waits) {
      at.behind.push_back(std::move(what));
    } else {
      what(at.ready_us);
    }
  }
  // `rest` comes before what was enqueued behind.
  void Wait(const Appointment& appointment, StreamHandle stream, std::function<void()> rest) {
    Stream& at = At(stream);
    at.waits = true;
    appointment.meeting->Come(at.ready_us,
                              [this, go_on = appointment.go_on, stream, rest = std::move(rest)](double met_us) {
                                Stream& on = At(stream);
                                on.waits = false;
                                on.ready_us = go_on(met_us);
                                rest();
                                while (!on.waits && !on.behind.empty()) {
                                  const auto next = std::move(on.behind.front());
                                  on.behind.pop_front();
                                  next(on.ready_us);
                                }
                              });
  }
  void Play(const std::shared_ptr<const std::vector<Node>>& nodes, std::size_t from, StreamHandle stream) {
    double& ready_us = At(stream).ready_us;
    for (std::size_t i = from; i < nodes->size(); ++i) {
      if (const auto* event = std::get_if<EventHandle>(&(*nodes)[i])) {
        events_[static_cast<std::uint64_t>(*event)] = ready_us;
      } else if (const auto* appointment = std::get_if<Appointment>(&(*nodes)[i])) {
        return Wait(*appointment, stream, [this, nodes, i, stream] {
          At(stream).ready_us += Gpu().graph_gap_us;
          Play(nodes, i + 1, stream);
        });
      } else {
        Run(std::get<SimulatedWork>((*nodes)[i]), ready_us);
        ready_us += Gpu().graph_gap_us;
      }
    }
  }

  absl::Status CheckRange(DevicePointer begin, std::size_t bytes) {
    Call();
    const auto after = sizes_.upper_bound(begin);
    if (after == sizes_.begin()) return InvalidArgument("{:#x} was not allocated", begin);
    const auto& [pointer, size] = *std::prev(after);
    if (begin + bytes > pointer + size) return InvalidArgument("{} bytes at {:#x} exceed the allocation", bytes, begin);
    return absl::OkStatus();
  }

  absl::Status Add(const SimulatedWork& work, StreamHandle stream) {
    if (capturing_) {
      captured_.emplace_back(work);
      return absl::OkStatus();
    }
    state_->host_us += Gpu().host_issue_us;
    On(stream, [this, work, now_us = state_->host_us](double& ready_us) {
      ready_us = std::max(ready_us, now_us + Gpu().launch_latency_us);
      Run(work, ready_us);
    });
    return absl::OkStatus();
  }

  // Moves the end of its stream.
  void Run(const SimulatedWork& work, double& ready_us) {
    ++state_->launches;
    if (!Gpu().hangs.empty() && work.name.find(Gpu().hangs) != std::string::npos) ready_us = kNever;
    if (ready_us == kNever) return;
    const double start_us = ready_us;
    const CardState card = state_->CardAt(start_us);
    SimulatedGpu part = Gpu();
    const double share = static_cast<double>(properties_.sm_count) / part.properties.sm_count;
    part.properties.sm_count = properties_.sm_count;
    part.bandwidth_gb_s *= 1 - Gpu().contended_share * state_->contention;
    part.bandwidth_gb_s *= card.memory_clock_mhz / Gpu().properties.memory_clock_mhz;
    for (auto& [dtype, tflops] : part.tflops) tflops *= share;
    double us = SimulatedDurationUs(part, work, card.sm_clock_mhz / Gpu().properties.sm_clock_mhz);
    us *= work.placement_factor * std::exp(Gpu().noise * normal_(state_->random));
    if (Gpu().spike_probability > 0 && std::bernoulli_distribution(Gpu().spike_probability)(state_->random)) {
      us += Gpu().spike_us;
    }
    ready_us = start_us + us;
    state_->busy_until_us = std::max(state_->busy_until_us, ready_us);
    if (state_->recording && !work.name.empty()) {
      state_->activities.push_back({work.name, work.geometry.grid, work.geometry.block, start_us, ready_us});
    }
  }

  std::shared_ptr<SimulatedState> state_;
  DeviceProperties properties_;
  std::normal_distribution<double> normal_;
  std::size_t allocated_ = 0;
  DevicePointer next_pointer_ = 0x7f00'0000'0000;
  std::map<DevicePointer, std::size_t> sizes_;
  std::uint64_t next_handle_ = 1;
  std::map<std::uint64_t, Stream> streams_;
  std::map<std::uint64_t, std::optional<double>> events_;  // when they are reached
  std::map<std::uint64_t, std::vector<Node>> graphs_;
  std::vector<std::set<std::string>> modules_;
  std::vector<std::string> functions_;
  bool capturing_ = false;
  std::vector<Node> captured_;
};

class SimulatedCard : public Card {
 public:
  explicit SimulatedCard(std::shared_ptr<SimulatedState> state) : state_(std::move(state)) {}

  absl::StatusOr<CardInfo> Info() override { return state_->gpu.card; }
  absl::StatusOr<CardState> State() override {
    state_->host_us += kCallUs;
    return state_->CardAt(state_->host_us);
  }
  absl::StatusOr<std::vector<CardProcess>> Processes() override { return state_->gpu.others; }
  absl::StatusOr<std::vector<double>> MemoryClocks() override { return state_->gpu.memory_clocks_mhz; }
  absl::StatusOr<std::vector<double>> SmClocks(double memory_clock_mhz) override {
    std::vector<double> clocks;
    constexpr double kStepMhz = 15;
    const double share = memory_clock_mhz < SimulatedGpu::kFreeMemoryMhz ? 0.5 : 1;
    for (double mhz = share * state_->gpu.properties.sm_clock_mhz; mhz >= 10 * kStepMhz; mhz -= kStepMhz)
      clocks.push_back(mhz);
    return clocks;
  }
  absl::Status LockSmClocks(double, double highest_mhz) override {
    if (!state_->gpu.sm_lock_allowed) return absl::PermissionDeniedError("SM clocks of a simulated card");
    state_->locked_sm_mhz = highest_mhz;
    return absl::OkStatus();
  }
  absl::Status ResetSmClocks() override {
    if (!state_->gpu.sm_lock_allowed) return absl::PermissionDeniedError("SM clocks of a simulated card");
    state_->locked_sm_mhz = 0;
    return absl::OkStatus();
  }
  absl::Status LockMemoryClocks(double, double highest_mhz) override {
    if (!state_->gpu.memory_lock_allowed) return absl::PermissionDeniedError("memory clocks of a simulated card");
    state_->locked_memory_mhz = highest_mhz;
    return absl::OkStatus();
  }
  absl::Status ResetMemoryClocks() override {
    if (!state_->gpu.memory_lock_allowed) return absl::PermissionDeniedError("memory clocks of a simulated card");
    state_->locked_memory_mhz = 0;
    return absl::OkStatus();
  }
  absl::Status SetPowerLimit(double watts) override {
    CardInfo& card = state_->gpu.card;
    if (watts < card.min_power_limit_w || watts > card.max_power_limit_w) return InvalidArgument("{} W", watts);
    card.power_limit_w = watts;
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<SimulatedState> state_;
};

class SimulatedRecorder : public ActivityRecorder {
 public:
  explicit SimulatedRecorder(std::shared_ptr<SimulatedState> state) : state_(std::move(state)) {}
  absl::Status Start() override {
    state_->recording = true;
    state_->activities.clear();
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<KernelActivity>> Stop() override {
    state_->recording = false;
    return std::move(state_->activities);
  }

 private:
  std::shared_ptr<SimulatedState> state_;
};

}  // namespace

void SimulatedMeeting::Come(double at_us, std::function<void(double met_us)> go_on) {
  latest_us = std::max(latest_us, at_us);
  waiting.push_back(std::move(go_on));
  if (waiting.size() < devices) return;
  const auto all = std::exchange(waiting, {});
  const double met_us = std::exchange(latest_us, 0);
  for (const auto& each : all) each(met_us);
}

CardState SimulatedState::CardAt(double us) const {
  CardState card{.sm_clock_mhz = gpu.properties.sm_clock_mhz,
                 .memory_clock_mhz = gpu.properties.memory_clock_mhz,
                 .power_w = 100,
                 .temperature_c = 50,
                 .busy = us < busy_until_us ? 1 : gpu.others_busy};
  if (const SimulatedStretch* stretch = StretchAt(gpu, us); stretch != nullptr) {
    card.sm_clock_mhz *= stretch->clock_share;
    card.limits = stretch->limits;
  }
  if (locked_memory_mhz > 0) {
    card.memory_clock_mhz = locked_memory_mhz;
    card.limits |= static_cast<std::uint32_t>(ClockLimit::kSetting);
  }
  if (locked_sm_mhz > 0 && locked_sm_mhz < card.sm_clock_mhz) {
    card.sm_clock_mhz = locked_sm_mhz;
    card.limits |= static_cast<std::uint32_t>(ClockLimit::kSetting);
  }
  return card;
}

absl::StatusOr<DeviceProperties> SimulatedDriver::PropertiesOf(int ordinal) {
  if (ordinal != 0) return NotFound("cuda:{}: there is only the simulated cuda:0", ordinal);
  return state_->gpu.properties;
}

absl::StatusOr<std::unique_ptr<CudaDevice>> SimulatedDriver::Open(int ordinal) {
  GPUETA_RETURN_IF_ERROR(PropertiesOf(ordinal).status());
  return OpenSimulated();
}

absl::StatusOr<std::unique_ptr<Card>> SimulatedDriver::OpenCard(int ordinal) {
  GPUETA_RETURN_IF_ERROR(PropertiesOf(ordinal).status());
  return std::make_unique<SimulatedCard>(state_);
}

std::unique_ptr<SimulatedDevice> SimulatedDriver::OpenSimulated() {
  return std::make_unique<Device>(state_, state_->gpu.properties.sm_count, false, opened_++);
}

std::unique_ptr<ActivityRecorder> SimulatedDriver::OpenRecorder() {
  return std::make_unique<SimulatedRecorder>(state_);
}

HostTime SimulatedDriver::Time() {
  return {.now = [state = state_] { return state->host_us; },
          .pause = [state = state_](double us) { state->host_us += us; }};
}

}  // namespace gpueta
