#include "client/report/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "client/report/chart.h"
#include "client/terminal/terminal.h"
#include "core/device/machine_of.h"

namespace gpueta::report {
namespace {

constexpr double kPerSecond = 1e6;  // from FLOP/µs

// "66.9 T".
std::string RateTick(double flop_per_s) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  for (; flop_per_s >= 999.5 && unit + 1 < std::size(kUnits); ++unit) flop_per_s /= 1000;
  return fmt::format("{:.3g} {}", flop_per_s, kUnits[unit]);
}

std::string IntensityTick(double flop_per_byte) { return fmt::format("{:.6g}", flop_per_byte); }

struct Placed {
  const RooflinePoint* point;
  double intensity;
  double rate;
};

}  // namespace

int ColourOf(Op op) { return static_cast<int>(op); }

std::string Roofline(std::string_view name, const DeviceSpec& spec, const std::vector<RooflinePoint>& points) {
  std::vector<Placed> placed;
  std::vector<double> intensities;
  std::vector<double> rates;
  std::map<std::pair<double, double>, std::set<DType>> roofs;  // by peak and bandwidth
  std::set<Op> ops;
  const bool only_vectors = std::ranges::all_of(points, [](const RooflinePoint& point) {
    return point.kernel.op() == Op::kVector || point.kernel.op() == Op::kCollective;
  });
  for (const RooflinePoint& point : points) {
    if (point.kernel.op() == Op::kCollective) continue;  // links bound it
    const Counts counts = CountsOf(point.kernel);
    const auto flops = static_cast<double>(counts.flops.value());
    const auto bytes = static_cast<double>(counts.bytes().value());
    if (!(flops > 0 && bytes > 0 && point.latency_us > 0)) continue;
    placed.push_back({&point, flops / bytes, flops / point.latency_us * kPerSecond});
    intensities.push_back(placed.back().intensity);
    rates.push_back(placed.back().rate);
    ops.insert(point.kernel.op());
    const Machine<double> machine =
        MachineOf(spec, {.op = Op::kGemm, .dtype = point.kernel.dtype, .kv_dtype = point.kernel.dtype});
    if (only_vectors || point.kernel.op() != Op::kVector) {
      rates.push_back(machine.peak * kPerSecond);
      intensities.push_back(machine.peak / machine.bandwidth);
      roofs[{machine.peak, machine.bandwidth}].insert(point.kernel.dtype);
    }
  }
  if (placed.empty()) return "";
  const Axis x = Decades("FLOP a byte of memory traffic", intensities, IntensityTick);
  const Axis y = Decades("FLOP/s", rates, RateTick);
  Chart chart(name, x, y);
  for (const auto& [machine, dtypes] : roofs) {
    const double peak = machine.first * kPerSecond;
    const double bandwidth = machine.second * kPerSecond;
    // The slope begins where it enters the picture.
    const double start = std::max(x.low, y.low / bandwidth);
    const Point roof[] = {{start, start * bandwidth}, {peak / bandwidth, peak}, {x.high, peak}};
    std::string text;
    for (const DType dtype : dtypes) text += fmt::format("{}{}", text.empty() ? "" : ", ", Name(dtype));
    chart.Roof(roof, fmt::format("{} {}FLOP/s", text, RateTick(peak)));
  }
  std::ranges::sort(placed, [](const Placed& a, const Placed& b) { return a.point->share > b.point->share; });
  for (const Placed& at : placed) {
    const RooflinePoint& point = *at.point;
    const std::string title = fmt::format("{}: {}, {}FLOP/s, {:.3g} FLOP/B", Describe(point.kernel),
                                          terminal::FormatUs(point.latency_us), RateTick(at.rate), at.intensity);
    constexpr double kLargest = 14;
    const double radius = point.share > 0 ? std::max(kLargest * std::sqrt(point.share), 2.0) : 2.0;
    chart.Dot({at.intensity, at.rate}, ColourOf(point.kernel.op()), title, radius);
  }
  for (const Op op : ops) chart.Legend(Name(op), ColourOf(op));
  return chart.Render();
}

}  // namespace gpueta::report
