#include "core/predict/schedule.h"

#include <algorithm>
#include <array>

#include "core/predict/compose.h"

namespace gpueta {
namespace {

// The nodes of a stage that run together, their time, and what of them decides it.
struct Pass {
  std::vector<int> nodes;
  std::vector<int> path;
  double us = 0;
  double host_us = 0;
};

Pass PassOf(const Graph& graph, const NodeTimes& times, std::vector<int> nodes, std::vector<NodeRun>& runs) {
  Pass pass;
  pass.nodes = std::move(nodes);
  pass.us = RunNodes(graph, pass.nodes, times, 0, 0, 0, runs);
  int last = -1;
  for (const int node : pass.nodes) {
    pass.host_us += times.host_us[static_cast<std::size_t>(node)];
    // A later node that ends at the same time is nearer to the end.
    if (last < 0 || runs[static_cast<std::size_t>(node)].end_us >= runs[static_cast<std::size_t>(last)].end_us)
      last = node;
  }
  for (; last >= 0; last = runs[static_cast<std::size_t>(last)].after) pass.path.push_back(last);
  return pass;
}

struct Stage {
  Pass forward;
  Pass backward;
  Pass last;           // backward (or forward) with what runs once
  double stretch = 1;  // by the host

  double LastAlone(bool trains) const { return trains ? backward.us : forward.us; }
  // Device and host time of a whole step.
  double DeviceUs(double microbatches, bool trains) const {
    return microbatches * (forward.us + backward.us) + last.us - LastAlone(trains);
  }
  double HostUs(double microbatches, bool trains) const {
    return microbatches * (forward.host_us + backward.host_us) + last.host_us -
           (trains ? backward.host_us : forward.host_us);
  }
};

struct Task {
  Turn turn = Turn::kForward;
  std::int64_t microbatch = 0;
  double start_us = 0;
  double end_us = 0;
  bool after_neighbour = false;  // waited for another stage rather than for its own
};

// The passes of a stage in the order of 1F1B.
std::vector<Task> OrderOf(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, bool trains) {
  std::vector<Task> order;
  const std::int64_t ahead = trains ? std::min(stages - stage - 1, microbatches) : microbatches;
  std::int64_t forward = 0, backward = 0;
  const auto add = [&](Turn turn, std::int64_t& next) { order.push_back({turn, next++}); };
  while (forward < ahead) add(Turn::kForward, forward);
  while (forward < microbatches) {
    add(Turn::kForward, forward);
    add(Turn::kBackward, backward);
  }
  while (trains && backward < microbatches) add(Turn::kBackward, backward);
  return order;
}

// Start and end of every pass of every stage.
class Pipeline {
 public:
  Pipeline(const std::vector<Stage>& stages, std::int64_t microbatches, bool trains)
      : stages_(stages), trains_(trains) {
    const auto count = static_cast<std::int64_t>(stages.size());
    for (std::int64_t s = 0; s < count; ++s) {
      orders_.push_back(OrderOf(s, count, microbatches, trains));
      for (auto& places : place_) places.emplace_back(static_cast<std::size_t>(microbatches));
      for (std::size_t i = 0; i < orders_.back().size(); ++i) {
        const Task& task = orders_.back()[i];
        place_[task.turn == Turn::kBackward][static_cast<std::size_t>(s)][static_cast<std::size_t>(task.microbatch)] =
            i;
      }
    }
    done_.resize(stages.size());
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        while (done_[s] < orders_[s].size() && Start(s)) progress = true;
      }
    }
  }

  const std::vector<std::vector<Task>>& orders() const { return orders_; }

  // The pass of another stage that must be over before this one; nullptr: none.
  const Task* Before(std::size_t stage, const Task& task, std::size_t& neighbour) const {
    const bool backward = task.turn == Turn::kBackward;
    if (backward ? stage + 1 == stages_.size() : stage == 0) return nullptr;
    neighbour = backward ? stage + 1 : stage - 1;
    return &At(neighbour, task.turn, task.microbatch);
  }
  std::size_t PlaceOf(std::size_t stage, Turn turn, std::int64_t microbatch) const {
    return place_[turn == Turn::kBackward][stage][static_cast<std::size_t>(microbatch)];
  }

 private:
  const Task& At(std::size_t stage, Turn turn, std::int64_t microbatch) const {
    return orders_[stage][PlaceOf(stage, turn, microbatch)];
  }

  // Whether the next pass of the stage could be placed.
  bool Start(std::size_t s) {
    Task& task = orders_[s][done_[s]];
    const double own = done_[s] == 0 ? 0 : orders_[s][done_[s] - 1].end_us;
    std::size_t neighbour = 0;
    double theirs = 0;
    if (const Task* before = Before(s, task, neighbour); before != nullptr) {
      if (PlaceOf(neighbour, before->turn, before->microbatch) >= done_[neighbour]) return false;
      theirs = before->end_us;
    }
    task.after_neighbour = theirs > own;
    task.start_us = std::max(own, theirs);
    const Stage& stage = stages_[s];
    task.end_us = task.start_us + stage.stretch * (task.turn == Turn::kBackward ? stage.backward.us : stage.forward.us);
    ++done_[s];
    return true;
  }

  const std::vector<Stage>& stages_;
  bool trains_;
  std::vector<std::vector<Task>> orders_;
  std::array<std::vector<std::vector<std::size_t>>, 2> place_;  // by turn: where a microbatch stands in a stage's order
  std::vector<std::size_t> done_;
};

}  // namespace

std::vector<int> NodesOf(const Graph& graph, int stage, std::initializer_list<Turn> turns) {
  std::vector<int> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.stage == stage && std::ranges::find(turns, node.turn) != turns.end()) nodes.push_back(static_cast<int>(i));
  }
  return nodes;
}

double RunNodes(const Graph& graph, std::span<const int> nodes, const NodeTimes& times, double begin_us, double host_us,
                double issue_us, std::vector<NodeRun>& runs) {
  constexpr double kNotYet = -1;
  runs.assign(graph.nodes.size(), {0, kNotYet, -1});
  struct StreamState {
    double free_us;
    int last = -1;
  };
  std::array<StreamState, 2> streams = {{{begin_us}, {begin_us}}};
  double end = begin_us;
  double issued = host_us;
  for (const int i : nodes) {
    const auto at = static_cast<std::size_t>(i);
    const GraphNode& node = graph.nodes[at];
    NodeRun& run = runs[at];
    const bool free = node.costing == Costing::kFree;
    StreamState& stream = streams[node.stream == DeviceStream::kCommunication ? 1 : 0];
    run.start_us = begin_us;
    // A view takes no place in a stream.
    if (!free) {
      run.start_us = stream.free_us;
      run.after = stream.last;
      issued += issue_us;
    }
    for (const int input : node.inputs) {
      const NodeRun& before = runs[static_cast<std::size_t>(input)];
      if (before.end_us > run.start_us) {
        run.start_us = before.end_us;
        run.after = input;
      }
    }
    if (free) {
      run.end_us = run.start_us;
      continue;
    }
    run.start_us = std::max(run.start_us + times.gap_us, issued);
    run.end_us = run.start_us + times.us[at];
    stream = {run.end_us, i};
    end = std::max(end, run.end_us);
  }
  return end - begin_us;
}

Schedule ScheduleOf(const Graph& graph, const NodeTimes& times) {
  Schedule out;
  out.runs.resize(graph.nodes.size());
  out.on_path.resize(graph.nodes.size());
  const std::int64_t microbatches = graph.microbatches;
  const auto repeats = static_cast<double>(microbatches);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    out.runs[i] = graph.nodes[i].turn == Turn::kStep ? 1 : microbatches;
  const bool trains =
      std::ranges::any_of(graph.nodes, [](const GraphNode& node) { return node.turn == Turn::kBackward; });
  std::vector<Stage> stages(static_cast<std::size_t>(StagesOf(graph)));
  std::vector<NodeRun> runs;
  double all_host_us = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Stage& stage = stages[s];
    const int number = static_cast<int>(s);
    stage.forward = PassOf(graph, times, NodesOf(graph, number, {Turn::kForward}), runs);
    stage.backward = PassOf(graph, times, NodesOf(graph, number, {Turn::kBackward}), runs);
    stage.last =
        PassOf(graph, times, NodesOf(graph, number, {trains ? Turn::kBackward : Turn::kForward, Turn::kStep}), runs);
    const double device_us = stage.DeviceUs(repeats, trains);
    const double host_us = stage.HostUs(repeats, trains);
    all_host_us += host_us;
    if (host_us > 0 && device_us > 0) stage.stretch = OverlapUs(device_us, host_us) / device_us;
  }
  const Pipeline pipeline(stages, microbatches, trains);
  const auto end_of = [&](std::size_t s) {
    const Stage& stage = stages[s];
    return pipeline.orders()[s].back().end_us + stage.stretch * (stage.last.us - stage.LastAlone(trains));
  };
  std::size_t latest = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (end_of(s) > end_of(latest)) latest = s;
    for (const Task& task : pipeline.orders()[s])
      out.blocks.push_back({static_cast<int>(s), task.turn, task.microbatch, task.start_us, task.end_us});
    out.blocks.back().end_us = end_of(s);
  }
  out.end_us = end_of(latest);
  // Back along what each pass waited for.
  double path_host_us = 0;
  const auto count = [&](std::size_t s, const Pass& pass) {
    for (const int node : pass.path) ++out.on_path[static_cast<std::size_t>(node)];
    const double device_us = stages[s].DeviceUs(repeats, trains);
    if (device_us > 0) path_host_us += stages[s].HostUs(repeats, trains) * pass.us / device_us;
  };
  std::size_t s = latest;
  std::size_t place = pipeline.orders()[s].size() - 1;
  count(s, stages[s].last);
  while (true) {
    const Task& task = pipeline.orders()[s][place];
    if (task.after_neighbour) {
      std::size_t neighbour = 0;
      const Task* before = pipeline.Before(s, task, neighbour);
      place = pipeline.PlaceOf(neighbour, before->turn, before->microbatch);
      s = neighbour;
    } else if (place == 0) {
      break;
    } else {
      --place;
    }
    count(s, pipeline.orders()[s][place].turn == Turn::kBackward ? stages[s].backward : stages[s].forward);
  }
  if (all_host_us > 0) out.host_share = path_host_us / all_host_us;
  return out;
}

}  // namespace gpueta
