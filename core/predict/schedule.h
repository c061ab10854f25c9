// When the kernels of a step run: streams beside each other, microbatches
// through the stages of a pipeline.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/graph.h"

namespace gpueta {

// What a node takes, µs.
struct NodeTimes {
  std::vector<double> us;       // on the device; 0 for free nodes
  std::vector<double> host_us;  // to issue it
  double gap_us = 0;            // in front of each kernel that runs
};

// A pass of one microbatch through one stage; the last one of a stage has the
// nodes of Turn::kStep behind it.
struct ScheduledBlock {
  int stage = 0;
  Turn turn = Turn::kForward;
  std::int64_t microbatch = 0;
  double start_us = 0;
  double end_us = 0;
};

struct Schedule {
  double end_us = 0;
  // Of each node: how often it runs in a step on all stages' devices, and how
  // often of these on the critical path.
  std::vector<std::int64_t> runs;
  std::vector<std::int64_t> on_path;
  // Of all host time, the share that belongs to the critical path's devices.
  double host_share = 1;
  std::vector<ScheduledBlock> blocks;  // stage by stage, in order
};

// On a device: nodes start in order, each when its stream is free and its inputs
// of the same pass are there; streams run beside each other. A stage's passes
// are stretched by what its host holds it up, OverlapUs of its totals.
// Over stages: one forward one backward (1F1B; PipeDream-Flush, Narayanan et al.
// 2021): stage s of p runs p − s − 1 forward passes ahead. With equal stages m
// microbatches take (m + p − 1) of a stage's forward and backward; stages may be
// unequal. A stage's send is part of its pass: the sender waits for it.
Schedule ScheduleOf(const Graph& graph, const NodeTimes& times);

// One node of one pass.
struct NodeRun {
  double start_us = 0;
  double end_us = 0;
  int after = -1;  // the node it waited for last; -1: none
};

// Runs `nodes`, in order, from `begin_us` on, and returns how long it takes. The
// host issues node i of those that run from host_us + i·issue_us on, for as long.
double RunNodes(const Graph& graph, std::span<const int> nodes, const NodeTimes& times, double begin_us, double host_us,
                double issue_us, std::vector<NodeRun>& runs);

// The nodes of a stage in some turns, in order.
std::vector<int> NodesOf(const Graph& graph, int stage, std::initializer_list<Turn> turns);

}  // namespace gpueta
