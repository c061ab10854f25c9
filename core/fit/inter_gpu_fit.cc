#include "core/fit/inter_gpu_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <span>

#include "core/profile/transfer.h"

namespace gpueta {
namespace {

using Rows = std::map<std::string, std::vector<const Measurement*>>;

// y = slope·x + constant.
struct Line {
  double slope = 0;
  double constant = 0;
};

Line FitLine(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& weight) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    w += weight[i];
    wx += weight[i] * x[i];
    wy += weight[i] * y[i];
    wxx += weight[i] * x[i] * x[i];
    wxy += weight[i] * x[i] * y[i];
  }
  const double determinant = w * wxx - wx * wx;
  if (!(determinant > 1e-12 * w * wxx)) return {0, wy / w};
  const double slope = (w * wxy - wx * wy) / determinant;
  return {slope, (wy - slope * wx) / w};
}

InterGpu FitOne(const std::string& label, const Rows& by_device, const std::map<std::string, DeviceSpec>& specs,
                InterGpu::Work work) {
  std::vector<double> per_bandwidth, slopes, ones;
  double constant = 0;
  for (const auto& [device, rows] : by_device) {
    std::vector<double> x, y, weight;
    for (const Measurement* row : rows) {
      x.push_back(WorkOf(row->kernel, work));
      y.push_back(row->latency_us);
      weight.push_back(1 / (row->latency_us * row->latency_us));  // the relative error counts
    }
    const Line line = FitLine(x, y, weight);
    per_bandwidth.push_back(1e-3 / WithInferredCells(specs.at(device)).mem_bandwidth_gb_s);
    slopes.push_back(line.slope);
    ones.push_back(1);
    constant += line.constant;
  }
  const Line over_devices = FitLine(per_bandwidth, slopes, ones);
  return {.label = label,
          .work = work,
          .slope = over_devices.constant,
          .slope_per_bandwidth = over_devices.slope,
          .constant_us = constant / static_cast<double>(by_device.size())};
}

double ErrorOf(const InterGpu& form, const Rows& by_device, const std::map<std::string, DeviceSpec>& specs) {
  double sum = 0, count = 0;
  for (const auto& [device, rows] : by_device) {
    for (const Measurement* row : rows) {
      sum += std::abs(InterGpuUs(form, row->kernel, specs.at(device)) / row->latency_us - 1);
      ++count;
    }
  }
  return sum / count;
}

constexpr InterGpu::Work kAnyWork[] = {InterGpu::Work::kFlops, InterGpu::Work::kInputBytes,
                                       InterGpu::Work::kOutputBytes};

InterGpu FitBest(const std::string& label, const Rows& rows, const std::map<std::string, DeviceSpec>& specs,
                 std::span<const InterGpu::Work> works = kAnyWork) {
  InterGpu best;
  double least = std::numeric_limits<double>::max();
  for (const InterGpu::Work work : works) {
    const InterGpu form = FitOne(label, rows, specs, work);
    const double error = ErrorOf(form, rows, specs);
    if (error >= least) continue;
    least = error;
    best = form;
  }
  return best;
}

// "*", then one a name.
std::vector<InterGpu> FitByName(const Rows& rows, const std::map<std::string, DeviceSpec>& specs,
                                const std::function<std::string(const Kernel&)>& name_of, std::size_t fewest_rows,
                                std::span<const InterGpu::Work> works) {
  std::map<std::string, Rows> by_name;
  std::map<std::string, std::size_t> count;
  for (const auto& [device, members] : rows) {
    for (const Measurement* row : members) {
      const std::string name = name_of(row->kernel);
      by_name[name][device].push_back(row);
      ++count[name];
    }
  }
  std::vector<InterGpu> out = {FitBest("*", rows, specs, works)};
  for (const auto& [name, of_name] : by_name) {
    if (!name.empty() && by_name.size() > 1 && count[name] >= fewest_rows)
      out.push_back(FitBest(name, of_name, specs, works));
  }
  return out;
}

}  // namespace

std::vector<InterGpu> FitInterGpu(const Rows& rows, const std::map<std::string, DeviceSpec>& specs) {
  return FitByName(rows, specs, LabelOf, 1, kAnyWork);
}

std::vector<InterGpu> FitKernelWise(const std::vector<const Measurement*>& rows, const DeviceSpec& spec) {
  constexpr std::size_t kFewestRows = 3;  // a line has two parameters
  const auto name_of = [](const Kernel& kernel) {
    return kernel.launch.kernel.empty() ? LabelOf(kernel) : kernel.launch.kernel;
  };
  return FitByName({{spec.slug, rows}}, {{spec.slug, spec}}, name_of, kFewestRows, kAnyWork);
}

std::vector<InterGpu> FitLayerWise(const std::vector<const Measurement*>& rows, const DeviceSpec& spec) {
  constexpr InterGpu::Work kFlopsAlone[] = {InterGpu::Work::kFlops};
  return FitByName({{spec.slug, rows}}, {{spec.slug, spec}}, LabelOf, 1, kFlopsAlone);
}

}  // namespace gpueta
