#include "core/fit/ladder_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <span>

#include "core/profile/ladder.h"

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

double WeightedMean(const std::vector<double>& y, const std::vector<double>& weight) {
  return std::inner_product(y.begin(), y.end(), weight.begin(), 0.0) / std::reduce(weight.begin(), weight.end());
}

Line FitThroughOrigin(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& weight) {
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += weight[i] * x[i] * x[i];
    xy += weight[i] * x[i] * y[i];
  }
  return {xy / xx, 0};
}

LadderLine FitOne(const std::string& label, const Rows& by_device, const std::map<std::string, DeviceSpec>& specs,
                  LadderLine::Work work) {
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

double ErrorOf(const LadderLine& form, const Rows& by_device, const std::map<std::string, DeviceSpec>& specs) {
  double sum = 0, count = 0;
  for (const auto& [device, rows] : by_device) {
    for (const Measurement* row : rows) {
      sum += std::abs(LadderLineUs(form, row->kernel, specs.at(device)) / row->latency_us - 1);
      ++count;
    }
  }
  return sum / count;
}

constexpr LadderLine::Work kAnyWork[] = {LadderLine::Work::kFlops, LadderLine::Work::kInputBytes,
                                         LadderLine::Work::kOutputBytes};

LadderLine FitBest(const std::string& label, const Rows& rows, const std::map<std::string, DeviceSpec>& specs,
                   std::span<const LadderLine::Work> works = kAnyWork) {
  LadderLine best;
  double least = std::numeric_limits<double>::max();
  for (const LadderLine::Work work : works) {
    const LadderLine form = FitOne(label, rows, specs, work);
    const double error = ErrorOf(form, rows, specs);
    if (error >= least) continue;
    least = error;
    best = form;
  }
  return best;
}

// "*", then one a name.
std::vector<LadderLine> FitByName(const Rows& rows, const std::map<std::string, DeviceSpec>& specs,
                                  const std::function<std::string(const Kernel&)>& name_of, std::size_t fewest_rows,
                                  std::span<const LadderLine::Work> works) {
  std::map<std::string, Rows> by_name;
  std::map<std::string, std::size_t> count;
  for (const auto& [device, members] : rows) {
    for (const Measurement* row : members) {
      const std::string name = name_of(row->kernel);
      by_name[name][device].push_back(row);
      ++count[name];
    }
  }
  std::vector<LadderLine> out = {FitBest("*", rows, specs, works)};
  for (const auto& [name, of_name] : by_name) {
    if (!name.empty() && by_name.size() > 1 && count[name] >= fewest_rows)
      out.push_back(FitBest(name, of_name, specs, works));
  }
  return out;
}

}  // namespace

std::vector<EndToEnd> FitEndToEnd(std::span<const ModelTime> times) {
  // Of so few rows a line says nothing about its error.
  constexpr double kUnknownErrorLn = 0.5;
  constexpr double kLeastErrorLn = 0.05;
  constexpr std::size_t kParameters = 2;
  std::map<std::pair<DType, bool>, std::vector<const ModelTime*>> by_kind;
  for (const ModelTime& time : times) {
    if (time.work.flops > 0) by_kind[{time.work.dtype, time.work.training}].push_back(&time);
  }
  std::vector<EndToEnd> lines;
  for (const auto& [kind, rows] : by_kind) {
    std::vector<double> x, y, weight;
    for (const ModelTime* row : rows) {
      x.push_back(row->work.flops);
      y.push_back(row->latency_us);
      weight.push_back(1 / (row->latency_us * row->latency_us));
    }
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    Line line = FitLine(x, y, weight);
    // Time grows from 0 up: with work of one size only, or a negative constant,
    // the line goes through the origin.
    if (*least == *most || line.constant < 0) line = FitThroughOrigin(x, y, weight);
    if (line.slope < 0) line = {0, WeightedMean(y, weight)};
    double squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double ln = std::log(y[i] / (line.slope * x[i] + line.constant));
      squares += ln * ln;
    }
    const double error = rows.size() > kParameters ? std::sqrt(squares / static_cast<double>(rows.size() - kParameters))
                                                   : kUnknownErrorLn;
    lines.push_back({.dtype = kind.first,
                     .training = kind.second,
                     .slope = line.slope,
                     .constant_us = line.constant,
                     .min_flops = *least,
                     .max_flops = *most,
                     .error_ln = std::clamp(error, kLeastErrorLn, kMostEndToEndErrorLn),
                     .rows = static_cast<std::int64_t>(rows.size())});
  }
  return lines;
}

std::vector<LadderLine> FitInterGpu(const Rows& rows, const std::map<std::string, DeviceSpec>& specs) {
  return FitByName(rows, specs, LabelOf, 1, kAnyWork);
}

std::vector<LadderLine> FitKernelWise(const std::vector<const Measurement*>& rows, const DeviceSpec& spec) {
  constexpr std::size_t kFewestRows = 3;  // a line has two parameters
  const auto name_of = [](const Kernel& kernel) {
    return kernel.launch.kernel.empty() ? LabelOf(kernel) : kernel.launch.kernel;
  };
  return FitByName({{spec.slug, rows}}, {{spec.slug, spec}}, name_of, kFewestRows, kAnyWork);
}

std::vector<LadderLine> FitLayerWise(const std::vector<const Measurement*>& rows, const DeviceSpec& spec) {
  constexpr LadderLine::Work kFlopsAlone[] = {LadderLine::Work::kFlops};
  return FitByName({{spec.slug, rows}}, {{spec.slug, spec}}, LabelOf, 1, kFlopsAlone);
}

}  // namespace gpueta
