#include "core/importers/onnx/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/base/errors.h"
#include "core/importers/onnx/node_view.h"

namespace gpueta::onnx_import {
namespace {

constexpr int kStored = -1;  // produced by no node: an input or initialiser

// The producer of each tensor by name.
using Producers = std::unordered_map<std::string_view, int>;

absl::StatusOr<Producers> FindProducers(const onnx::GraphProto& graph) {
  Producers producers;
  for (const auto& input : graph.input()) producers.emplace(input.name(), kStored);
  for (const auto& stored : graph.initializer()) producers.emplace(stored.name(), kStored);
  for (const auto& stored : graph.sparse_initializer()) producers.emplace(stored.values().name(), kStored);
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& output : graph.node(i).output()) {
      if (output.empty() || producers.emplace(output, i).second) continue;
      return InvalidArgument("{} produces tensor \"{}\", which something else produces as well; rename one",
                             Describe(graph.node(i)), Printable(output));
    }
  }
  return producers;
}

bool IsOrdered(const std::vector<std::vector<int>>& producers) {
  for (std::size_t i = 0; i < producers.size(); ++i) {
    for (int producer : producers[i]) {
      if (static_cast<std::size_t>(producer) >= i) return false;
    }
  }
  return true;
}

// A node that lies on a cycle, given the numbers of producers that were never
// ready: from any node that waits, walking to a producer that waits ends there.
absl::Status CycleError(const onnx::GraphProto& graph, const std::vector<std::vector<int>>& producers,
                        const std::vector<std::size_t>& waiting) {
  std::vector<bool> seen(producers.size(), false);
  auto node = static_cast<std::size_t>(
      std::find_if(waiting.begin(), waiting.end(), [](std::size_t count) { return count > 0; }) - waiting.begin());
  std::size_t previous = node;
  while (!seen[node]) {
    seen[node] = true;
    previous = node;
    for (int producer : producers[node]) {
      if (waiting[static_cast<std::size_t>(producer)] > 0) node = static_cast<std::size_t>(producer);
    }
  }
  const onnx::NodeProto& reader = graph.node(static_cast<int>(previous));
  const auto& outputs = graph.node(static_cast<int>(node)).output();
  const std::unordered_set<std::string_view> produced(outputs.begin(), outputs.end());
  const auto tensor = std::find_if(reader.input().begin(), reader.input().end(),
                                   [&](const std::string& input) { return produced.contains(input); });
  return InvalidArgument("the graph has a cycle: {} reads tensor \"{}\", which depends on its own output",
                         Describe(reader), Printable(*tensor));
}

}  // namespace

absl::StatusOr<std::vector<int>> OrderNodes(const onnx::GraphProto& graph) {
  GPUETA_ASSIGN_OR_RETURN(const Producers producer_of, FindProducers(graph));
  const auto count = static_cast<std::size_t>(graph.node_size());
  std::vector<std::vector<int>> producers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const onnx::NodeProto& node = graph.node(static_cast<int>(i));
    for (const std::string& input : node.input()) {
      if (input.empty()) continue;
      const auto found = producer_of.find(input);
      if (found == producer_of.end()) {
        return InvalidArgument("{} reads tensor \"{}\", which is no input, no initialiser and no node's output",
                               Describe(node), Printable(input));
      }
      if (found->second != kStored) producers[i].push_back(found->second);
    }
    std::sort(producers[i].begin(), producers[i].end());
    producers[i].erase(std::unique(producers[i].begin(), producers[i].end()), producers[i].end());
  }
  std::vector<int> order;
  order.reserve(count);
  if (IsOrdered(producers)) {
    for (std::size_t i = 0; i < count; ++i) order.push_back(static_cast<int>(i));
    return order;
  }
  // Kahn's algorithm; of the nodes that are ready the first in the file.
  std::vector<std::size_t> waiting(count);
  std::vector<std::vector<int>> readers(count);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    waiting[i] = producers[i].size();
    if (waiting[i] == 0) ready.push(static_cast<int>(i));
    for (int producer : producers[i]) readers[static_cast<std::size_t>(producer)].push_back(static_cast<int>(i));
  }
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    order.push_back(node);
    for (int reader : readers[static_cast<std::size_t>(node)]) {
      if (--waiting[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (order.size() < count) return CycleError(graph, producers, waiting);
  return order;
}

}  // namespace gpueta::onnx_import
