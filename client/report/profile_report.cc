#include "client/report/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "client/report/bars.h"
#include "client/report/chart.h"
#include "client/report/html.h"
#include "client/terminal/terminal.h"

namespace gpueta::report {
namespace {

using terminal::FormatPercent;
using terminal::FormatUs;

std::string PercentTick(double fraction) { return fmt::format("{:.4g}%", 100 * fraction); }

std::string DeviceSection(const Profile& profile) {
  const DeviceSpec& s = profile.spec;
  std::vector<std::vector<Cell>> rows;
  const auto text = [&](const char* name, const std::string& value) {
    if (!value.empty()) rows.push_back({{name}, {value}});
  };
  const auto number = [&](const char* name, double value, const char* unit) {
    if (value > 0) rows.push_back({{name}, {fmt::format("{:.6g}{}{}", value, *unit == '\0' ? "" : " ", unit)}});
  };
  text("name", s.name);
  text("architecture", s.architecture);
  number("SMs or cores", static_cast<double>(s.sm_count), "");
  number("boost clock", s.boost_clock_mhz, "MHz");
  number("memory", s.memory_gb, "GiB");
  number("memory bandwidth", s.mem_bandwidth_gb_s, "GB/s");
  number("last-level cache", s.l2_mb, "MB");
  number("fp32", s.fp32_tflops, "TFLOPS");
  number("tf32 tensor", s.tf32_tensor_tflops, "TFLOPS");
  number("fp16 tensor", s.fp16_tensor_tflops, "TFLOPS");
  number("bf16 tensor", s.bf16_tensor_tflops, "TFLOPS");
  number("fp8 tensor", s.fp8_tensor_tflops, "TFLOPS");
  number("power", s.tdp_w, "W");
  for (const auto& [key, value] : profile.labels) text(key.c_str(), value);
  number("host time to issue a kernel", profile.host_issue_us, "µs");
  return Section("device", "Device", Table({"", ""}, rows));
}

// What a table's answers rest on.
std::string RestsOn(const gpueta::Table& table, bool pooled) {
  if (pooled) return fmt::format("{} devices", table.pooling.deviations.size());
  if (!table.transferred) return "its own rows";
  std::string text = "other devices:";
  for (const Relative& relative : table.relatives) text += fmt::format(" {} {:.2f}", relative.device, relative.weight);
  return text;
}

std::string HullOf(const gpueta::Table& table) {
  const DimNames& names = DimNamesOf(table.key.op);
  std::string text;
  for (std::size_t i = 0; i < table.dim_min.size() && i < static_cast<std::size_t>(names.size); ++i) {
    if (table.dim_min[i] == table.dim_max[i] && table.dim_min[i] <= 1) continue;
    text +=
        fmt::format("{}{} {:.7g}–{:.7g}", text.empty() ? "" : ", ", names.names[i], table.dim_min[i], table.dim_max[i]);
  }
  return text;
}

std::string TablesSection(const Profile& profile) {
  std::vector<std::vector<Cell>> rows;
  std::vector<Bar> bars;
  for (const gpueta::Table& t : profile.tables) {
    rows.push_back({{Describe(t.key)},
                    {std::to_string(t.rows), true},
                    {std::to_string(t.variants.size() - 1), true},
                    {std::to_string(t.kernel_configs.size()), true},
                    {t.cv_mape > 0 ? FormatPercent(t.cv_mape) : "unknown", true},
                    {fmt::format("{:.2f}", std::exp(t.interval.p90_ln)), true},
                    {fmt::format("{:.2f}", std::exp(t.interval.p99_ln)), true},
                    {FormatUs(t.floor_us), true},
                    {RestsOn(t, profile.transfer)},
                    {HullOf(t)}});
    bars.push_back({.label = Describe(t.key),
                    .value = t.cv_mape,
                    .colour = static_cast<int>(t.key.op),
                    .text = t.cv_mape > 0 ? FormatPercent(t.cv_mape) : "unknown"});
  }
  return Section("tables", "Tables",
                 Paragraph("One table answers for each op, type and kind of timing. The expected error is the mean APE "
                           "on rows that a fit did not see; p90 and p99 are over the p50, of a kernel inside the hull "
                           "of what was measured. Labels are operators or kernels with parameters of their own.") +
                     Bars("expected error by table", bars) +
                     Table({"table", "rows", "labels", "kernel configurations", "expected error", "p90/p50", "p99/p50",
                            "floor", "rests on", "hull"},
                           rows));
}

std::string SourcesSection(const Profile& profile) {
  std::vector<std::vector<Cell>> rows;
  for (const ProfileSource& source : profile.sources)
    rows.push_back({{source.name}, {std::to_string(source.rows), true}});
  return Section("sources", "Where its measurements come from", Table({"source", "rows"}, rows));
}

// Of measured kernels: share of them below an error. Measured kernels answer
// with their measurement; this is what the formula alone says of them.
std::string FitSection(const Profile& profile) {
  std::vector<const gpueta::Table*> tables;
  for (const gpueta::Table& table : profile.tables) {
    if (table.measured_ln.size() >= 2) tables.push_back(&table);
  }
  if (tables.empty()) return "";
  std::ranges::stable_sort(tables, [](const gpueta::Table* a, const gpueta::Table* b) {
    return a->measured_ln.size() > b->measured_ln.size();
  });
  tables.resize(std::min<std::size_t>(tables.size(), kColours));
  constexpr int kSteps = 100;
  std::vector<std::vector<Point>> curves;
  std::vector<double> errors;
  for (const gpueta::Table* table : tables) {
    std::vector<double> ape;
    for (const float ln : table->measured_ln) ape.push_back(std::abs(std::expm1(-static_cast<double>(ln))));
    std::ranges::sort(ape);
    std::vector<Point>& curve = curves.emplace_back();
    for (int i = 1; i <= kSteps; ++i) {
      const auto at = static_cast<std::size_t>(std::ceil(static_cast<double>(ape.size()) * i / kSteps)) - 1;
      constexpr double kSmallest = 1e-4;
      curve.push_back({std::max(ape[at], kSmallest), static_cast<double>(i) / kSteps});
      errors.push_back(curve.back().x);
    }
  }
  Chart chart("error of the fitted forms on measured kernels", Decades("APE", errors, PercentTick),
              {"share of measured kernels at or below", 0, 1, false, PercentTick});
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    chart.Line(curves[i], static_cast<int>(i));
    rows.push_back({{fmt::format("●  {}", Describe(tables[i]->key)), false, "", static_cast<int>(i)},
                    {std::to_string(tables[i]->measured_ln.size()), true},
                    {FormatPercent(curves[i][kSteps / 2 - 1].x), true},
                    {FormatPercent(curves[i][kSteps * 9 / 10 - 1].x), true}});
  }
  return Section(
      "fit", "Formula against measurements",
      Paragraph("A kernel that was measured answers with its measurement. This is how far the formula of its "
                "table alone would be off, shrunk by the noise of measurements: small where the formula "
                "follows the device, large where it smooths over what the device does.") +
          chart.Render() + Table({"table", "measured kernels", "median APE", "p90"}, rows));
}

std::string RooflineSection(const ProfileReport& report) {
  const std::string chart = Roofline("roofline", report.loaded.profile.spec, report.points);
  if (chart.empty()) return "";
  return Section("roofline", "Roofline",
                 Paragraph(report.judged.has_value()
                               ? "Each dot is a measured row under the roofs of the data sheet."
                               : "Each dot is a shape as models have them, at the latency that this profile predicts, "
                                 "under the roofs of the data sheet. With --measurements the dots are measured ones.") +
                     chart);
}

}  // namespace

std::string RenderProfileReport(const ProfileReport& report) {
  const Profile& profile = report.loaded.profile;
  std::string body;
  for (const std::string& fact : report.facts) body += Paragraph(fact);
  if (report.judged.has_value()) body += EvalSections(*report.judged);
  body += RooflineSection(report) + TablesSection(profile) + FitSection(profile) + SourcesSection(profile) +
          DeviceSection(profile);
  return Page("gpueta report: profile of " + profile.device, body);
}

}  // namespace gpueta::report
