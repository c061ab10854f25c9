#include "core/importers/traces/kineto_reader.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/importers/traces/signature_table.h"

namespace gpueta {
namespace {

// Deeper than any trace: events are at 3, lists of tensors' dims at 7.
constexpr std::size_t kMaxDepth = 32;
// An operator's dims and values; a fused optimiser lists some thousand tensors.
constexpr std::size_t kMaxNumbersOfEvent = 1 << 18;
// Longest name or value that is kept.
constexpr std::size_t kMaxText = 4096;

// One event of the list, as far as it matters.
struct Event {
  std::string phase;
  std::string category;
  std::string name;
  std::string process;
  std::string thread;
  double start_us = 0;
  double duration_us = 0;
  std::int64_t external_id = 0;
  std::int64_t correlation = 0;
  std::int64_t device = 0;
  std::int64_t stream = 0;
  std::int64_t bytes = 0;
  std::vector<std::int64_t> grid;
  std::vector<std::int64_t> block;
  std::vector<std::vector<std::vector<std::int64_t>>> dims;  // of each argument's tensors
  std::vector<std::string> types;
  std::vector<std::string> concrete;
  std::size_t numbers = 0;
};

// Called by the JSON parser, piece by piece. `false` stops it.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Handler(Trace& trace) : trace_(trace), signatures_(trace) {}

  // What went wrong; the parser's own message if it did.
  const absl::Status& status() const { return status_; }
  bool has_events() const { return has_events_; }
  std::unordered_map<std::int64_t, std::pair<double, std::uint32_t>> TakeLaunches() { return std::move(launches_); }
  const std::vector<std::int64_t>& correlations() const { return correlations_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool number_integer(number_integer_t value) override { return Number(value, static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= static_cast<number_unsigned_t>(INT64_MAX);
    return Number(fits ? static_cast<std::int64_t>(value) : 0, static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    const bool fits = std::isfinite(value) && std::abs(value) < static_cast<double>(std::int64_t{1} << 62);
    return Number(fits ? static_cast<std::int64_t>(value) : 0, value);
  }

  bool string(string_t& value) override {
    if (value.size() > kMaxText) value.resize(kMaxText);
    if (!InEvent()) {
      if (OfFirstDevice("name") && trace_.device.name.empty()) trace_.device.name = value;
      return true;
    }
    const std::size_t depth = keys_.size() - event_depth_;
    if (depth == 1) {
      if (std::string* field = TextField(LastKey()); field != nullptr) *field = std::move(value);
      return true;
    }
    if (depth == 3 && Key(event_depth_) == "args") {
      const std::string& key = Key(event_depth_ + 1);
      if (++event_.numbers > kMaxNumbersOfEvent) return true;
      if (key == "Input type") {
        event_.types.push_back(std::move(value));
      } else if (key == "Concrete Inputs") {
        event_.concrete.push_back(std::move(value));
      }
    }
    return true;
  }

  bool start_object(std::size_t /*elements*/) override {
    if (keys_.size() >= kMaxDepth) return TooDeep();
    const bool listed = keys_.size() == 2 && Key(0) == "traceEvents";
    const bool bare = keys_.size() == 1 && bare_list_;
    keys_.emplace_back();
    if (!InEvent() && (listed || bare)) {
      event_depth_ = keys_.size() - 1;
      event_ = Event();
      has_events_ = true;
    }
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    if (!InEvent() || keys_.size() != event_depth_) return true;
    event_depth_ = 0;
    return Finish();
  }
  bool start_array(std::size_t /*elements*/) override {
    if (keys_.size() >= kMaxDepth) return TooDeep();
    if (keys_.empty()) bare_list_ = true;
    // An entry of "Input Dims" is a tensor's dims, or a list of such.
    if (InDims()) {
      const std::size_t depth = keys_.size() - event_depth_;
      const bool few = ++event_.numbers <= kMaxNumbersOfEvent;
      if (depth == 3 && few) event_.dims.emplace_back();
      if (depth == 4 && few && !event_.dims.empty()) event_.dims.back().emplace_back();
    }
    keys_.emplace_back();
    return true;
  }
  bool end_array() override {
    keys_.pop_back();
    return true;
  }
  bool key(string_t& value) override {
    if (value.size() > kMaxText) value.resize(kMaxText);
    keys_.back() = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    status_ = InvalidArgument("is no JSON at byte {}: {}", position, std::string(error.what()).substr(0, 200));
    return false;
  }

 private:
  bool InEvent() const { return event_depth_ != 0; }
  bool InDims() const {
    return InEvent() && keys_.size() > event_depth_ + 2 && Key(event_depth_) == "args" &&
           Key(event_depth_ + 1) == "Input Dims";
  }
  // Whether the value at hand is this property of a device; the first one given
  // counts.
  bool OfFirstDevice(std::string_view property) const {
    return keys_.size() == 3 && Key(0) == "deviceProperties" && LastKey() == property;
  }
  // The key at a depth, empty where there is none.
  const std::string& Key(std::size_t depth) const {
    static const std::string none;
    return depth < keys_.size() ? keys_[depth] : none;
  }
  const std::string& LastKey() const { return keys_.back(); }

  std::string* TextField(const std::string& key) {
    if (key == "ph") return &event_.phase;
    if (key == "cat") return &event_.category;
    if (key == "name") return &event_.name;
    if (key == "tid") return &event_.thread;
    if (key == "pid") return &event_.process;
    return nullptr;
  }
  std::int64_t* IntegerField(const std::string& key) {
    if (key == "External id") return &event_.external_id;
    if (key == "correlation") return &event_.correlation;
    if (key == "device") return &event_.device;
    if (key == "stream") return &event_.stream;
    if (key == "bytes") return &event_.bytes;
    return nullptr;
  }

  bool TooDeep() {
    status_ = InvalidArgument("is nested deeper than any trace");
    return false;
  }

  bool Number(std::int64_t whole, double value) {
    if (!InEvent()) {
      if (OfFirstDevice("numSms") && trace_.device.sm_count == 0) trace_.device.sm_count = whole;
      if (OfFirstDevice("totalGlobalMem") && trace_.device.memory_bytes == 0) trace_.device.memory_bytes = whole;
      return true;
    }
    const std::size_t depth = keys_.size() - event_depth_;
    if (depth == 1) {
      const std::string& key = LastKey();
      if (key == "ts") event_.start_us = value;
      if (key == "dur") event_.duration_us = value;
      if (key == "tid" || key == "pid") *TextField(key) = std::to_string(whole);
      return true;
    }
    if (Key(event_depth_) != "args") return true;
    const std::string& key = Key(event_depth_ + 1);
    if (depth == 2) {
      if (std::int64_t* field = IntegerField(key); field != nullptr) *field = whole;
      return true;
    }
    if (++event_.numbers > kMaxNumbersOfEvent) return true;
    if (depth == 3 && key == "grid") event_.grid.push_back(whole);
    if (depth == 3 && key == "block") event_.block.push_back(whole);
    if (key != "Input Dims" || event_.dims.empty()) return true;
    if (depth == 4 && event_.dims.back().empty()) event_.dims.back().emplace_back();
    if (depth == 4 || (depth == 5 && !event_.dims.back().empty())) event_.dims.back().back().push_back(whole);
    return true;
  }

  bool Finish() {
    if (event_.phase != "X") return true;
    const bool timed =
        std::abs(event_.start_us) < kLargestTimeUs && event_.duration_us >= 0 && event_.duration_us < kLargestTimeUs;
    if (!timed) {
      status_ = InvalidArgument("event \"{}\": ts {} and dur {} are no times in microseconds",
                                event_.name.substr(0, 100), event_.start_us, event_.duration_us);
      return false;
    }
    if (event_.category == "cpu_op") {
      AddCall();
    } else if (event_.category == "kernel" || event_.category == "gpu_memcpy" || event_.category == "gpu_memset") {
      AddKernel();
    } else if (event_.category == "cuda_runtime" || event_.category == "cuda_driver") {
      launches_[event_.correlation] = {event_.start_us, Thread()};
    } else if (event_.category == "user_annotation" && event_.name.starts_with("ProfilerStep#")) {
      ++trace_.steps;
    }
    if (trace_.calls.size() + trace_.kernels.size() + launches_.size() <= kMaxTraceEvents) return true;
    status_ = ResourceExhausted("has more than {} events; record fewer steps", kMaxTraceEvents);
    return false;
  }

  std::uint32_t Thread() { return threads_.Add(event_.process + "/" + event_.thread).first; }

  void AddCall() {
    std::vector<TraceArgument> arguments(event_.dims.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      arguments[i].tensors = std::move(event_.dims[i]);
      if (i < event_.types.size()) arguments[i].type = std::move(event_.types[i]);
      if (i < event_.concrete.size()) arguments[i].concrete = std::move(event_.concrete[i]);
    }
    OpCall& call = trace_.calls.emplace_back();
    call.start_us = event_.start_us;
    call.duration_us = event_.duration_us;
    call.external_id = event_.external_id;
    call.thread = Thread();
    call.signature = signatures_.Add(std::move(event_.name), std::move(arguments));
  }

  void AddKernel() {
    const auto [name, added] = kernel_names_.Add(event_.name);
    if (added) trace_.kernel_names.push_back(event_.name);
    constexpr std::int64_t kStreamsOfDevice = 1 << 20;
    const auto extent = [](const std::vector<std::int64_t>& extents, std::size_t i) {
      return i < extents.size() ? std::max<std::int64_t>(extents[i], 0) : 0;
    };
    DeviceKernel& kernel = trace_.kernels.emplace_back();
    kernel.name = name;
    kernel.start_us = event_.start_us;
    kernel.duration_us = event_.duration_us;
    kernel.external_id = event_.external_id;
    kernel.stream = (event_.device % kStreamsOfDevice) * kStreamsOfDevice + event_.stream % kStreamsOfDevice;
    kernel.bytes = std::max<std::int64_t>(event_.bytes, 0);
    kernel.grid_x = extent(event_.grid, 0);
    kernel.grid_y = extent(event_.grid, 1);
    kernel.grid_z = extent(event_.grid, 2);
    kernel.block_x = extent(event_.block, 0);
    correlations_.push_back(event_.correlation);
  }

  Trace& trace_;
  SignatureTable signatures_;
  Interner kernel_names_;
  Interner threads_;
  std::unordered_map<std::int64_t, std::pair<double, std::uint32_t>> launches_;  // by correlation
  std::vector<std::int64_t> correlations_;                                       // of the kernels
  absl::Status status_;
  Event event_;
  std::vector<std::string> keys_;  // the key in each open object, empty in lists
  std::size_t event_depth_ = 0;    // objects and lists around the event; 0: in none
  bool bare_list_ = false;         // the file is the list of events itself
  bool has_events_ = false;
};

}  // namespace

absl::StatusOr<Trace> ReadKinetoTrace(std::istream& in) {
  Trace trace;
  Handler handler(trace);
  const bool parsed = nlohmann::json::sax_parse(in, &handler);
  GPUETA_RETURN_IF_ERROR(handler.status());
  if (!parsed) return InvalidArgument("is no JSON");
  if (!handler.has_events()) return InvalidArgument("has no traceEvents: it is no trace of a profiler");
  const auto launches = handler.TakeLaunches();
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const auto launch = launches.find(handler.correlations()[i]);
    if (handler.correlations()[i] == 0 || launch == launches.end()) continue;
    trace.kernels[i].launch_us = launch->second.first;
    trace.kernels[i].launch_thread = launch->second.second;
  }
  return trace;
}

}  // namespace gpueta
