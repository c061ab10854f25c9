// Nodes of one type: what they have in common, and which one is unlike the others.
// Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/measurements/measurements.h"
#include "core/ops/table_key.h"
#include "core/profile/profile.h"

namespace gpueta {

// What one node measured.
struct NodeMeasurements {
  std::string node;
  std::vector<Measurement> rows;
};

// A node against its class, for one table, over the kernels that both know.
struct NodeDeviation {
  std::string node;
  TableKey key;
  std::size_t kernels = 0;  // compared
  double ratio = 1;         // median of the node's latency over the class's: 1.1 is 10 % slower
  bool outlier = false;
};

struct NodeClass {
  // One row a kernel: the median over the nodes that are not outliers in its table.
  std::vector<Measurement> rows;
  std::vector<NodeDeviation> deviations;  // by node and table
};

// Of at least three nodes; with fewer there is no telling who is the outlier, and
// nobody is. A node is one in a table when its median ratio is further from 1 than
// both 5 % and four robust standard deviations of all nodes' ratios.
NodeClass ClassOf(std::span<const NodeMeasurements> nodes);

// One node against a class's profile, by what its tables predict of the node's rows.
// An outlier is more than 5 % off, and further than the table errs itself.
std::vector<NodeDeviation> DeviationsFrom(const Profile& of_class, const NodeMeasurements& node);

// "node-3 is 12 % slower than its class in gemm bf16 graph (over 210 kernels)".
std::string Describe(const NodeDeviation& deviation);

}  // namespace gpueta
