#include "core/predict/timeline.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/predict/compose.h"
#include "core/predict/schedule.h"

namespace gpueta {
namespace {

// The kernels of a step on one device: forward, then the rest. Returns the end of
// the last to end.
double Play(const Graph& graph, const NodeTimes& times, double start_us, double issue_us, Timeline& out) {
  std::vector<NodeRun> runs;
  std::size_t event = 0;
  double begin = start_us;
  double issued = start_us;
  for (const std::initializer_list<Turn> turns :
       {std::initializer_list<Turn>{Turn::kForward}, {Turn::kBackward, Turn::kStep}}) {
    const std::vector<int> nodes = NodesOf(graph, 0, turns);
    // The host goes on where it was, the device where it stopped.
    begin = begin + RunNodes(graph, nodes, times, begin, issued, issue_us, runs);
    for (const int node : nodes) {
      if (graph.nodes[static_cast<std::size_t>(node)].costing == Costing::kFree) continue;
      const NodeRun& run = runs[static_cast<std::size_t>(node)];
      TimelineEvent& placed = out.events[event++];
      placed.start_us = run.end_us - times.us[static_cast<std::size_t>(node)];
      placed.duration_us = run.end_us - placed.start_us;
      issued += issue_us;
    }
  }
  return begin;
}

void AddPasses(const Graph& graph, const NodeTimes& times, double start_us, Timeline& out) {
  const Schedule schedule = ScheduleOf(graph, times);
  for (const ScheduledBlock& block : schedule.blocks) {
    out.events.push_back({.stage = block.stage,
                          .turn = block.turn,
                          .microbatch = block.microbatch,
                          .start_us = start_us + block.start_us,
                          .duration_us = block.end_us - block.start_us});
  }
  out.end_us = start_us + schedule.end_us;
}

void AddKernels(const Graph& graph, const NodeTimes& times, double start_us, double total_us, bool issues,
                Timeline& out) {
  const auto count = static_cast<double>(out.events.size());
  if (issues) {
    // The end grows with the issue time, from below the total to above it.
    double low = 0;
    double high = (total_us - start_us) / count;
    constexpr int kHalvings = 60;
    for (int i = 0; i < kHalvings; ++i) {
      out.issue_us = (low + high) / 2;
      (Play(graph, times, start_us, out.issue_us, out) < total_us ? low : high) = out.issue_us;
    }
  }
  out.end_us = Play(graph, times, start_us, out.issue_us, out);
}

}  // namespace

std::string LaneName(const Timeline& timeline, const TimelineEvent& event) {
  std::string name = timeline.stages > 1 ? fmt::format("stage {}", event.stage) : "stream";
  if (event.stream == DeviceStream::kCommunication) name += ", communication";
  return name;
}

std::string NameOfPass(const TimelineEvent& pass) {
  return fmt::format("{} of microbatch {}", pass.turn == Turn::kBackward ? "backward" : "forward", pass.microbatch);
}

absl::StatusOr<Timeline> TimelineOf(const Graph& graph, const std::vector<Kernel>& kernels,
                                    const GraphEstimate& estimate) {
  PartsByWork parts(estimate.parts);
  for (std::size_t i = 0; i < estimate.parts.size(); ++i) parts.Add(i);
  Timeline out;
  std::vector<std::size_t> part_of(kernels.size());
  double on_path = 0;
  for (const GraphPart& part : estimate.parts) on_path += static_cast<double>(part.count - part.hidden);
  const bool passes = graph.microbatches > 1 || StagesOf(graph) > 1;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing == Costing::kFree) continue;
    const auto part = parts.Find(kernels[i]);
    if (!part.has_value()) return InvalidArgument("the estimate has no kernel {}", Describe(kernels[i]));
    part_of[i] = *part;
  }
  if (on_path == 0) return out;
  out.stages = StagesOf(graph);
  const NodeTimes times =
      NodeTimesOf(graph, kernels, estimate.parts, ExecutionModel{.gap_us = estimate.time.gaps_us / on_path});
  const double start_us = estimate.time.start_us;
  const double total_us = estimate.latency_us.p50 / estimate.correction;
  if (passes) {
    AddPasses(graph, times, start_us, out);
  } else {
    for (const std::initializer_list<Turn> turns :
         {std::initializer_list<Turn>{Turn::kForward}, {Turn::kBackward, Turn::kStep}}) {
      for (const int node : NodesOf(graph, 0, turns)) {
        const auto at = static_cast<std::size_t>(node);
        if (graph.nodes[at].costing == Costing::kFree) continue;
        out.events.push_back(
            {.node = node, .part = part_of[at], .stream = graph.nodes[at].stream, .turn = graph.nodes[at].turn});
      }
    }
    AddKernels(graph, times, start_us, total_us, estimate.time.host_us > 0, out);
  }
  const double scale = out.end_us > 0 ? estimate.latency_us.p50 / out.end_us : 1;
  for (TimelineEvent& event : out.events) {
    event.start_us *= scale;
    event.duration_us *= scale;
  }
  out.start_us = start_us * scale;
  out.issue_us *= scale;
  out.end_us *= scale;
  return out;
}

}  // namespace gpueta
