// Building a graph anew from its own nodes.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace gpueta {

// Takes the nodes of a graph; a pass then keeps, drops and adds nodes in
// topological order, and Finish puts the result back. Edges follow.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph);

  std::size_t size() const { return old_.size(); }
  const GraphNode& old(std::size_t i) const { return old_[i]; }
  // How many nodes read node i's output.
  int readers(std::size_t i) const { return readers_[i]; }

  // Old node i, or what a pass makes of it; its inputs are old indices.
  int Keep(std::size_t i) { return Keep(i, old_[i]); }
  int Keep(std::size_t i, GraphNode changed);
  // A node whose inputs are new indices.
  int Append(GraphNode node);
  // A further input of a new node; both are new indices, `input` the smaller one.
  void AddInput(int node, int input);
  // The same, in place of one it has.
  void ReplaceInput(int node, int input, int by);
  // Readers of old node i read the new node `by`.
  void Replace(std::size_t i, int by) { now_[i] = by; }
  // The new index of an old node that was kept or replaced.
  int Now(std::size_t i) const { return now_[i]; }

  void Finish();

 private:
  Graph& graph_;
  std::vector<GraphNode> old_;
  std::vector<int> readers_;
  std::vector<int> now_;
  std::vector<GraphNode> new_;
};

// The value of a dim by name, symbolic or not. The op must have it.
SymInt DimOf(const GraphNode& node, std::string_view dim);
void SetDimOf(GraphNode& node, std::string_view dim, const SymInt& value);

// Of a product whose parameters are a weight and a bias for each column.
bool HasBias(const GraphNode& node);

// A tensor's elements as rows and columns.
struct Extent {
  SymInt rows;
  SymInt cols;
};

// What a node writes; of a reduction what it reads. nullopt where its kind does
// not say.
std::optional<Extent> OutputExtent(const GraphNode& node);

// A vector operator over rows × cols of the node's dtype.
GraphNode VectorLike(const GraphNode& node, std::string_view name, std::string_view op, const SymInt& rows,
                     const SymInt& cols, std::int64_t operands);

}  // namespace gpueta
