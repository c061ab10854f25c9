#include "core/importers/onnx/notes.h"

#include <fmt/format.h>

namespace gpueta::onnx_import {
namespace {

// More would hide what matters, and a hostile file could fill the memory.
constexpr std::size_t kMaxAssumptions = 50;
constexpr std::size_t kMaxOperators = 1000;

}  // namespace

void Notes::Assumed(const std::string& place, const std::string& assumption) {
  if (assumptions_.size() == kMaxAssumptions) {
    ++more_assumptions_;
    return;
  }
  assumptions_.push_back(fmt::format("{}: {}", place, assumption));
}

void Notes::CostedByTraffic(const std::string& op_type, const std::string& node) {
  const bool many = traffic_.size() == kMaxOperators && !traffic_.contains(op_type);
  Traffic& traffic = traffic_[many ? "other operators" : op_type];
  if (++traffic.nodes == 1) traffic.first = node;
}

std::vector<std::string> Notes::Lines() const {
  std::vector<std::string> lines = assumptions_;
  if (more_assumptions_ > 0) lines.push_back(fmt::format("{} more assumptions", more_assumptions_));
  for (const auto& [op_type, traffic] : traffic_) {
    lines.push_back(fmt::format("{} ({} nodes, the first is {}): costed by memory traffic; operations are not counted",
                                op_type, traffic.nodes, traffic.first));
  }
  return lines;
}

}  // namespace gpueta::onnx_import
