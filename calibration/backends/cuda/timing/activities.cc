#include "calibration/backends/cuda/timing/activities.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/importers/traces/kernel_name.h"

namespace gpueta {

double DeviceTimeUs(std::span<const KernelActivity> activities) {
  std::vector<std::pair<double, double>> spans;
  for (const KernelActivity& activity : activities) spans.emplace_back(activity.start_us, activity.end_us);
  std::ranges::sort(spans);
  double total_us = 0;
  double covered_until_us = spans.empty() ? 0 : spans.front().first;
  for (const auto& [start_us, end_us] : spans) {
    total_us += std::max(0.0, end_us - std::max(start_us, covered_until_us));
    covered_until_us = std::max(covered_until_us, end_us);
  }
  return total_us;
}

Launch LaunchOf(std::span<const KernelActivity> activities, Launch known) {
  std::map<std::string, double> time_us;
  for (const KernelActivity& activity : activities) time_us[activity.name] += activity.end_us - activity.start_us;
  if (time_us.empty()) return known;
  const auto by_time = [](const auto& a, const auto& b) { return a.second < b.second; };
  const std::string& longest = std::ranges::max_element(time_us, by_time)->first;
  const auto& activity = *std::ranges::find(activities, longest, &KernelActivity::name);
  return {.kernel = ShortKernelName(activity.name),
          .grid_x = activity.grid.x,
          .grid_y = activity.grid.y,
          .grid_z = activity.grid.z,
          .block_x = activity.block.x};
}

}  // namespace gpueta
