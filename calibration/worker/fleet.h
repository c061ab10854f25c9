// A worker for each GPU of a node, as processes of their own: a kernel that hangs takes
// one of them with it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gpueta {

// What differs between the workers of a node; empty: not given.
struct WorkerFiles {
  std::string node;
  std::string out;
  std::string measurements_out;
  std::string journal;
};

// What a worker of GPU `ordinal` is called with behind what the fleet was called with;
// later options win. Files get ".gpuN" behind their names, and the node of every GPU but
// the first "-gpuN": one profile a node and name.
std::vector<std::string> ArgumentsOfGpu(int ordinal, const WorkerFiles& files);

struct FleetPolicy {
  bool restart = false;  // workers that fail; others are not asked for again
  unsigned restart_after_s = 60;
};

// Runs the program with each list of arguments at the same time and waits for all.
// SIGTERM and SIGINT are passed on, after which none starts again. UNAVAILABLE saying how
// many failed, and how the first one did; or that a process could not be started.
absl::Status RunFleet(const std::string& program, const std::vector<std::vector<std::string>>& workers,
                      const FleetPolicy& policy);

}  // namespace gpueta
