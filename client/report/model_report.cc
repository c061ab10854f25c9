#include "client/report/model_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "client/report/bars.h"
#include "client/report/chart.h"
#include "client/report/html.h"
#include "client/report/roofline.h"
#include "client/terminal/terminal.h"

namespace gpueta::report {
namespace {

using terminal::FormatPercent;
using terminal::FormatUs;

constexpr std::size_t kMostKernels = 500;      // lines of a table
constexpr std::size_t kMostCurves = kColours;  // of one chart
constexpr int kOverhead = 5;                   // the colour of what is no kernel

double TotalUs(const GraphPart& part) { return part.ExposedUs(); }

std::string RestsOn(const GraphEstimate& estimate) {
  std::string text;
  for (const auto& [kind, share] : estimate.provenance)
    text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", Name(kind), 100 * share);
  return text;
}

std::string SummarySection(const ModelReport& report) {
  std::vector<std::vector<Cell>> rows;
  for (const ModelOnDevice& on : report.devices) {
    const Quantiles& us = on.estimate.latency_us;
    rows.push_back({{on.device},
                    {FormatUs(us.p50), true, fmt::format("{:.6g} µs", us.p50)},
                    {FormatUs(us.p90), true},
                    {FormatUs(us.p99), true},
                    {terminal::FormatBytes(static_cast<double>(on.estimate.memory_bytes)), true},
                    {RestsOn(on.estimate)},
                    {on.profile.empty() ? "none of its own" : on.profile}});
  }
  std::string body = Paragraph("The latency is at or below p90 in nine cases of ten, at or below p99 in 99 of 100.") +
                     Table({"device", "p50", "p90", "p99", "memory", "rests on", "profile"}, rows);
  std::set<std::string> warnings;
  for (const ModelOnDevice& on : report.devices)
    warnings.insert(on.estimate.warnings.begin(), on.estimate.warnings.end());
  for (const std::string& warning : warnings) body += Paragraph("Note: " + warning);
  return Section("summary", "Latency", body);
}

// What the p50 adds up from, by op.
std::string SharesOf(const GraphEstimate& estimate) {
  std::map<Op, std::pair<double, std::int64_t>> ops;  // µs, kernels
  for (const GraphPart& part : estimate.parts) {
    auto& [us, kernels] = ops[part.kernel.op()];
    us += TotalUs(part);
    kernels += part.count;
  }
  std::vector<Bar> bars;
  const double total = estimate.latency_us.p50;
  const auto add = [&](std::string label, double us, int colour) {
    if (us > 0)
      bars.push_back({.label = std::move(label),
                      .value = us,
                      .colour = colour,
                      .text = fmt::format("{} {}", FormatUs(us), FormatPercent(us / total))});
  };
  for (const auto& [op, of] : ops) add(fmt::format("{} ({})", Name(op), of.second), of.first, ColourOf(op));
  std::ranges::stable_sort(bars, [](const Bar& a, const Bar& b) { return a.value > b.value; });
  add("start of the step, copy of its inputs", estimate.time.start_us, kOverhead);
  add("gaps between kernels", estimate.time.gaps_us, kOverhead);
  const double waiting =
      total / estimate.correction - estimate.time.start_us - estimate.time.kernels_us - estimate.time.gaps_us;
  constexpr double kRounding = 1e-9;
  if (waiting > kRounding * total) add("waiting for the host", waiting, kOverhead);
  return Bars("share of the latency by op", bars);
}

std::string TimelineOf(const ModelOnDevice& on) {
  const Timeline& timeline = on.timeline;
  if (timeline.events.empty()) return Paragraph("The order of a registered model's kernels is not known here.");
  Lane host{.label = "host", .blocks = {}};
  std::map<std::pair<int, DeviceStream>, Lane> streams;
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    const TimelineEvent& event = timeline.events[i];
    Lane& stream = streams[{event.stage, event.stream}];
    stream.label = LaneName(timeline, event);
    if (event.node < 0) {
      stream.blocks.push_back(
          {event.start_us, event.duration_us, event.turn == Turn::kBackward ? 1 : 0,
           fmt::format("{}, {} from {} on", NameOfPass(event), FormatUs(event.duration_us), FormatUs(event.start_us))});
      continue;
    }
    const Kernel& kernel = on.kernels[static_cast<std::size_t>(event.node)];
    const std::string title = fmt::format("{}{}{}", kernel.name, kernel.name.empty() ? "" : ": ", Describe(kernel));
    if (timeline.issue_us > 0) {
      host.blocks.push_back({timeline.start_us + static_cast<double>(i) * timeline.issue_us, timeline.issue_us,
                             kOverhead, "issues " + title});
    }
    stream.blocks.push_back(
        {event.start_us, event.duration_us, ColourOf(kernel.op()),
         fmt::format("{}, {} from {} on", title, FormatUs(event.duration_us), FormatUs(event.start_us))});
  }
  std::vector<Lane> lanes;
  if (!host.blocks.empty()) lanes.push_back(std::move(host));
  for (auto& [at, lane] : streams) lanes.push_back(std::move(lane));
  std::string text = timeline.events.front().node < 0
                         ? fmt::format("{} passes of microbatches through stages.", timeline.events.size())
                         : fmt::format("{} kernels in order, coloured as above.", timeline.events.size());
  if (timeline.issue_us > 0) {
    text += fmt::format(" The host issues one every {}: spaced so that the time line ends where the prediction does.",
                        FormatUs(timeline.issue_us));
  }
  return Paragraph(text) + Lanes("time line", lanes, timeline.end_us, FormatUs);
}

std::string RooflineOf(const ModelOnDevice& on) {
  std::vector<RooflinePoint> points;
  for (const GraphPart& part : on.estimate.parts) {
    points.push_back({part.kernel, part.estimate.latency_us.p50, TotalUs(part) / on.estimate.time.kernels_us});
  }
  const std::string chart = Roofline("roofline of " + on.device, on.spec, points);
  if (chart.empty()) return Paragraph("No kernel computes anything.");
  return Paragraph(
             "Each dot is a kind of kernel; its area is its share of the time. Far below the roof a kernel is held up "
             "by "
             "something else than arithmetic and memory: launches, latency, or too few blocks.") +
         chart;
}

std::string KernelsOf(const GraphEstimate& estimate) {
  std::vector<const GraphPart*> parts;
  for (const GraphPart& part : estimate.parts) parts.push_back(&part);
  std::ranges::stable_sort(parts, [](const GraphPart* a, const GraphPart* b) { return TotalUs(*a) > TotalUs(*b); });
  std::vector<std::vector<Cell>> rows;
  for (const GraphPart* part : parts) {
    if (rows.size() == kMostKernels) break;
    const Estimate& e = part->estimate;
    rows.push_back({{FormatPercent(TotalUs(*part) / estimate.latency_us.p50), true},
                    {std::to_string(part->count), true},
                    {FormatUs(e.latency_us.p50), true, fmt::format("{:.6g} µs", e.latency_us.p50)},
                    {FormatUs(e.latency_us.p90), true},
                    {std::string(Name(e.bound))},
                    {std::string(Name(e.provenance))},
                    {std::string(e.estimator)},
                    {Describe(part->kernel), false, part->kernel.name}});
  }
  std::string text = "Kernels of the same work are one line, the heaviest first.";
  if (parts.size() > kMostKernels) text += fmt::format(" The first {} of {}.", kMostKernels, parts.size());
  return Paragraph(text) +
         Table({"share", "count", "p50 each", "p90 each", "bound", "rests on", "form", "kernel"}, rows);
}

std::string DeviceSection(const ModelOnDevice& on, std::size_t number) {
  return Section(fmt::format("device-{}", number), "On " + on.device,
                 Subsection("Share by op", SharesOf(on.estimate)) + Subsection("Time line", TimelineOf(on)) +
                     Subsection("Roofline", RooflineOf(on)) + Subsection("Kernels", KernelsOf(on.estimate)));
}

// The devices of the what-if, the fastest at the batch asked about first.
std::vector<std::string> DevicesByLatency(const ModelReport& report) {
  std::vector<std::pair<double, std::string>> devices;
  for (const WhatIf& at : report.what_if) {
    if (at.batch == report.batch) devices.emplace_back(at.latency_us.p50, at.device);
  }
  std::ranges::sort(devices);
  std::vector<std::string> names;
  for (auto& [us, name] : devices) names.push_back(std::move(name));
  return names;
}

std::string DeviceBars(const ModelReport& report, const std::vector<std::string>& devices) {
  std::vector<Bar> bars;
  for (const std::string& device : devices) {
    const auto at = std::ranges::find_if(
        report.what_if, [&](const WhatIf& w) { return w.device == device && w.batch == report.batch; });
    bars.push_back({.label = device,
                    .value = at->latency_us.p50,
                    .whisker = at->latency_us.p90,
                    .colour = at->fits ? 0 : 2,
                    .text = fmt::format("{}{}", FormatUs(at->latency_us.p50), at->fits ? "" : ", does not fit")});
  }
  return Bars("latency by device", bars);
}

std::string BatchChart(const ModelReport& report, const std::vector<std::string>& devices, bool per_item) {
  std::vector<double> batches;
  std::vector<double> values;
  std::map<std::string, std::vector<Point>> curves;
  const auto value = [&](const WhatIf& at) {
    constexpr double kUsPerS = 1e6;
    return per_item ? static_cast<double>(at.batch) / at.latency_us.p50 * kUsPerS : at.latency_us.p50;
  };
  for (const WhatIf& at : report.what_if) {
    if (!at.fits) continue;
    batches.push_back(static_cast<double>(at.batch));
    values.push_back(value(at));
    curves[at.device].push_back({batches.back(), values.back()});
  }
  const auto plain = [](double v) { return fmt::format("{:.6g}", v); };
  Chart chart(per_item ? "throughput by batch" : "latency by batch", Decades("batch", batches, plain),
              per_item ? Decades("items a second", values, plain) : Decades("p50", values, FormatUs));
  int colour = 0;
  for (const std::string& device : devices) {
    if (colour == static_cast<int>(kMostCurves)) break;
    const std::vector<Point>& curve = curves[device];
    chart.Line(curve, colour);
    for (const Point& point : curve) {
      chart.Dot(point, colour,
                fmt::format("{}, batch {:.0f}: {}", device, point.x,
                            per_item ? plain(point.y) + " items/s" : FormatUs(point.y)));
    }
    ++colour;
  }
  return chart.Render();
}

std::string BatchTable(const ModelReport& report, const std::vector<std::string>& devices) {
  std::map<std::string, std::map<std::int64_t, const WhatIf*>> table;
  std::set<std::int64_t> batches;
  for (const WhatIf& at : report.what_if) {
    table[at.device][at.batch] = &at;
    batches.insert(at.batch);
  }
  std::vector<std::string> header = {"device"};
  for (const std::int64_t batch : batches) header.push_back(fmt::format("batch {}", batch));
  std::vector<std::vector<Cell>> rows;
  for (const std::string& device : devices) {
    const bool drawn = rows.size() < kMostCurves;
    std::vector<Cell> row = {{drawn ? "● " + device : device, false, "", drawn ? static_cast<int>(rows.size()) : -1}};
    for (const std::int64_t batch : batches) {
      const auto at = table[device].find(batch);
      if (at == table[device].end()) {
        row.push_back({"", true});
        continue;
      }
      const WhatIf& what = *at->second;
      row.push_back({what.fits ? FormatUs(what.latency_us.p50) : "no room", true,
                     fmt::format("p50 {}, p90 {}, p99 {}", FormatUs(what.latency_us.p50), FormatUs(what.latency_us.p90),
                                 FormatUs(what.latency_us.p99))});
    }
    rows.push_back(std::move(row));
  }
  return Table(header, rows);
}

std::string WhatIfSection(const ModelReport& report) {
  if (report.what_if.empty()) return "";
  const std::vector<std::string> devices = DevicesByLatency(report);
  std::string body = Paragraph("The same model on other devices; a bar ends at the p50, its line at the p90.") +
                     DeviceBars(report, devices);
  if (report.batch == 0) return Section("what-if", "What if", body);
  std::string text = "… and at other batches; curves are coloured as the names in the table.";
  if (devices.size() > kMostCurves) text += fmt::format(" Curves are of the {} fastest devices.", kMostCurves);
  body += Subsection("Batch", Paragraph(text) + BatchChart(report, devices, false) + BatchChart(report, devices, true) +
                                  BatchTable(report, devices));
  return Section("what-if", "What if", body);
}

}  // namespace

std::string RenderModelReport(const ModelReport& report) {
  std::string body;
  for (const std::string& fact : report.facts) body += Paragraph(fact);
  body += SummarySection(report);
  for (std::size_t i = 0; i < report.devices.size(); ++i) body += DeviceSection(report.devices[i], i);
  body += WhatIfSection(report);
  return Page("gpueta report: " + report.model, body);
}

}  // namespace gpueta::report
