#include "client/report/chrome_trace.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace gpueta::report {
namespace {

constexpr int kHostLane = 1;
constexpr int kFirstLane = 2;  // then two for each stage, by stream

int LaneOf(const TimelineEvent& event) {
  return kFirstLane + 2 * event.stage + (event.stream == DeviceStream::kCommunication ? 1 : 0);
}

nlohmann::json Named(int process, int lane, std::string_view what, const std::string& name) {
  return {{"ph", "M"}, {"pid", process}, {"tid", lane}, {"name", what}, {"args", {{"name", name}}}};
}

nlohmann::json Slice(int process, int lane, const std::string& name, std::string_view category, double start_us,
                     double duration_us) {
  return {{"ph", "X"},       {"pid", process}, {"tid", lane},       {"name", name},
          {"cat", category}, {"ts", start_us}, {"dur", duration_us}};
}

void AddDevice(const TracedDevice& device, int process, nlohmann::json& events) {
  const Timeline& timeline = device.timeline;
  events.push_back(Named(process, 0, "process_name", device.name));
  std::map<int, std::string> lanes;
  for (const TimelineEvent& event : timeline.events) lanes.emplace(LaneOf(event), LaneName(timeline, event));
  for (const auto& [lane, name] : lanes) events.push_back(Named(process, lane, "thread_name", name));
  const bool issues = timeline.issue_us > 0;
  if (issues) events.push_back(Named(process, kHostLane, "thread_name", "host"));
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    const TimelineEvent& event = timeline.events[i];
    if (event.node < 0) {
      events.push_back(Slice(process, LaneOf(event), NameOfPass(event), "pass", event.start_us, event.duration_us));
      continue;
    }
    const Kernel& kernel = device.kernels[static_cast<std::size_t>(event.node)];
    const Estimate& estimate = device.estimate.parts[event.part].estimate;
    const std::string work = Describe(kernel);
    const std::string& name = kernel.name.empty() ? work : kernel.name;
    nlohmann::json slice = Slice(process, LaneOf(event), name, Name(kernel.op()), event.start_us, event.duration_us);
    slice["args"] = {{"work", work},
                     {"p50_us", estimate.latency_us.p50},
                     {"p90_us", estimate.latency_us.p90},
                     {"p99_us", estimate.latency_us.p99},
                     {"bound", Name(estimate.bound)},
                     {"provenance", Name(estimate.provenance)},
                     {"estimator", estimate.estimator}};
    events.push_back(std::move(slice));
    if (issues) {
      events.push_back(Slice(process, kHostLane, name, "launch",
                             timeline.start_us + static_cast<double>(i) * timeline.issue_us, timeline.issue_us));
    }
  }
}

}  // namespace

std::string ChromeTrace(std::span<const TracedDevice> devices) {
  nlohmann::json events = nlohmann::json::array();
  for (std::size_t i = 0; i < devices.size(); ++i) AddDevice(devices[i], static_cast<int>(i) + 1, events);
  const nlohmann::json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace gpueta::report
