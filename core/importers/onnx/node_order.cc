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

absl::StatusOr<Producers> FindProducers(const Nodes& nodes, const std::unordered_set<std::string_view>& given) {
  Producers producers;
  for (std::string_view name : given) producers.emplace(name, kStored);
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].output()) {
      if (output.empty() || producers.emplace(output, i).second) continue;
      return InvalidArgument("{} produces tensor \"{}\", which something else produces as well; rename one",
                             Describe(nodes[i]), Printable(output));
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
absl::Status CycleError(const Nodes& nodes, const std::vector<std::vector<int>>& producers,
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
  const onnx::NodeProto& reader = nodes[static_cast<int>(previous)];
  const auto& outputs = nodes[static_cast<int>(node)].output();
  const std::unordered_set<std::string_view> produced(outputs.begin(), outputs.end());
  const std::vector<std::string_view> reads = ReadsOf(reader);
  const auto tensor = std::find_if(reads.begin(), reads.end(),
                                   [&](std::string_view read) { return !read.empty() && produced.contains(read); });
  return InvalidArgument("the graph has a cycle: {} reads tensor \"{}\", which depends on its own output",
                         Describe(reader), Printable(*tensor));
}

}  // namespace

std::vector<std::string_view> ReadsOf(const onnx::NodeProto& node) {
  std::vector<std::string_view> reads(node.input().begin(), node.input().end());
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    const onnx::GraphProto& body = attribute.g();
    std::unordered_set<std::string_view> own;
    for (const auto& input : body.input()) own.insert(input.name());
    for (const auto& stored : body.initializer()) own.insert(stored.name());
    for (const auto& stored : body.sparse_initializer()) own.insert(stored.values().name());
    for (const onnx::NodeProto& inner : body.node()) own.insert(inner.output().begin(), inner.output().end());
    std::unordered_set<std::string_view> outer;
    for (const onnx::NodeProto& inner : body.node()) {
      for (std::string_view read : ReadsOf(inner)) outer.insert(read);
    }
    // A body may return a tensor of the outside as it is.
    for (const auto& output : body.output()) outer.insert(output.name());
    for (std::string_view read : outer) {
      if (!own.contains(read)) reads.push_back(read);
    }
  }
  return reads;
}

absl::StatusOr<std::vector<int>> OrderNodes(const Nodes& nodes, const std::unordered_set<std::string_view>& given) {
  GPUETA_ASSIGN_OR_RETURN(const Producers producer_of, FindProducers(nodes, given));
  const auto count = static_cast<std::size_t>(nodes.size());
  std::vector<std::vector<int>> producers(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::string_view read : ReadsOf(nodes[static_cast<int>(i)])) {
      const auto found = read.empty() ? producer_of.end() : producer_of.find(read);
      if (found != producer_of.end() && found->second != kStored) producers[i].push_back(found->second);
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
  if (order.size() < count) return CycleError(nodes, producers, waiting);
  return order;
}

}  // namespace gpueta::onnx_import
