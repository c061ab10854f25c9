#include "core/predict/shares.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/base/errors.h"
#include "core/predict/compose.h"
#include "core/predict/schedule.h"

namespace gpueta {
namespace {

// Adds up lines by their name.
class Lines {
 public:
  void Add(std::string name, std::int64_t count, double hidden, double us, Bound bound) {
    const auto [at, is_new] = index_.try_emplace(std::move(name), lines_.size());
    if (is_new) lines_.push_back({.share = {.name = at->first}});
    Line& line = lines_[at->second];
    line.share.us += us;
    line.share.count += count;
    line.hidden += hidden;
    line.by_bound[static_cast<std::size_t>(bound)] += us;
  }

  std::vector<TimeShare> Take() {
    std::vector<TimeShare> shares;
    for (Line& line : lines_) {
      line.share.hidden = static_cast<std::int64_t>(line.hidden + 0.5);
      line.share.bound = static_cast<Bound>(std::ranges::max_element(line.by_bound) - line.by_bound.begin());
      shares.push_back(std::move(line.share));
    }
    return shares;
  }

 private:
  struct Line {
    TimeShare share;
    double hidden = 0;
    std::array<double, 4> by_bound{};
  };
  std::map<std::string, std::size_t> index_;
  std::vector<Line> lines_;
};

}  // namespace

std::string KindOf(const Kernel& kernel) {
  const std::string op(Name(kernel.op()));
  if (const auto* vector = std::get_if<Vector>(&kernel.work)) return op + " " + vector->op;
  if (const auto* collective = std::get_if<Collective>(&kernel.work)) return op + " " + collective->op;
  if (const auto* attention = std::get_if<Attention>(&kernel.work))
    return op + " " + std::string(Name(attention->phase));
  if (std::holds_alternative<Custom>(kernel.work)) return op + " " + kernel.name;
  return op;
}

std::vector<TimeShare> SharesByKind(const GraphEstimate& estimate) {
  Lines lines;
  for (const GraphPart& part : estimate.parts) {
    lines.Add(KindOf(part.kernel), part.count, static_cast<double>(part.hidden), part.ExposedUs(), part.estimate.bound);
  }
  return lines.Take();
}

std::string LayerOf(const GraphNode& node) {
  const std::string& name = node.kernel.name;
  if (node.layer >= 0) {
    const std::string number = fmt::format(".{}.", node.layer);
    if (const std::size_t at = name.find(number); at != std::string::npos)
      return name.substr(0, at + number.size() - 1);
  }
  if (const std::size_t slash = name.rfind('/'); slash != std::string::npos && slash > 0) return name.substr(0, slash);
  if (node.layer >= 0) return fmt::format("layer {}", node.layer);
  const std::string own = name.substr(0, name.find('.'));
  return own.empty() ? std::string(Name(node.kernel.op())) : own;
}

absl::StatusOr<std::vector<TimeShare>> SharesByLayer(const Graph& graph, const std::vector<Kernel>& kernels,
                                                     const GraphEstimate& estimate) {
  PartsByWork parts(estimate.parts);
  for (std::size_t i = 0; i < estimate.parts.size(); ++i) parts.Add(i);
  std::vector<std::size_t> part_of(kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing == Costing::kFree) continue;
    const auto part = parts.Find(kernels[i]);
    if (!part.has_value()) return InvalidArgument("the estimate has no kernel {}", Describe(kernels[i]));
    part_of[i] = *part;
  }
  const Schedule schedule = ScheduleOf(graph, NodeTimesOf(graph, kernels, estimate.parts, ExecutionModel{}));
  // A part's time goes to its nodes by how often they are on the critical path,
  // what hides of it by how often they are not.
  std::vector<double> on_path(estimate.parts.size()), beside(estimate.parts.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing == Costing::kFree) continue;
    on_path[part_of[i]] += static_cast<double>(schedule.on_path[i]);
    beside[part_of[i]] += static_cast<double>(schedule.runs[i] - schedule.on_path[i]);
  }
  Lines lines;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing == Costing::kFree) continue;
    const GraphPart& part = estimate.parts[part_of[i]];
    const auto runs = static_cast<double>(schedule.runs[i]);
    const auto on = static_cast<double>(schedule.on_path[i]);
    const double all_on = on_path[part_of[i]], all_beside = beside[part_of[i]];
    const double even = runs / static_cast<double>(part.count);
    const double share = all_on > 0 ? on / all_on : even;
    const double hidden = all_beside > 0 ? (runs - on) / all_beside : even;
    lines.Add(LayerOf(graph.nodes[i]), schedule.runs[i], hidden * static_cast<double>(part.hidden),
              share * part.ExposedUs(), part.estimate.bound);
  }
  return lines.Take();
}

}  // namespace gpueta
