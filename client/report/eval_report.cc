#include "client/report/eval_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "client/report/chart.h"
#include "client/report/html.h"
#include "client/terminal/terminal.h"

namespace gpueta::report {
namespace {

using terminal::FormatPercent;
using terminal::FormatUs;

constexpr double kBinsPerDecade = 2;      // of the measured latency
constexpr std::int64_t kFewestInBin = 5;  // of fewer rows a p90 is their largest
constexpr std::array kProvenances = {Provenance::kMeasured,    Provenance::kInterpolated, Provenance::kExtrapolated,
                                     Provenance::kTransferred, Provenance::kRoofline,     Provenance::kEmulated};

double ApeOf(const PredictedAndObserved& pair) { return std::abs(pair.predicted_us.p50 / pair.observed_us - 1); }

// 1 µs, 100 ms: ticks are powers of ten.
std::string UsTick(double us) { return FormatUs(us); }
std::string PercentTick(double fraction) { return fmt::format("{:.4g}%", 100 * fraction); }

std::vector<Cell> RowOf(const EvalGroup& group, std::vector<std::string> by) {
  std::vector<Cell> row;
  for (std::string& value : by) row.push_back({std::move(value)});
  const ErrorSummary& e = group.errors;
  const ErrorIntervals& i = group.intervals;
  row.push_back({std::to_string(e.n), true});
  row.push_back({std::to_string(i.shapes), true});
  const std::array<std::pair<double, const std::optional<Range>*>, 7> figures = {{{e.mape, &i.mape},
                                                                                  {e.median, &i.median},
                                                                                  {e.ape_p90, &i.ape_p90},
                                                                                  {e.ape_p99, &i.ape_p99},
                                                                                  {e.bias, &i.bias},
                                                                                  {e.below_p90, &i.below_p90},
                                                                                  {e.below_p99, &i.below_p99}}};
  for (const auto& [value, range] : figures) row.push_back({WithRange(value, *range), true});
  return row;
}

// What stands in the columns grouped by for all rows together.
std::vector<std::string> AllRows(const EvalReport& report) {
  std::vector<std::string> by(report.columns.size());
  if (!by.empty()) by.front() = "all rows";
  return by;
}

std::string SummarySection(const EvalReport& report) {
  std::vector<std::string> header = report.columns;
  for (const char* name :
       {"rows", "shapes", "MAPE", "median", "p90", "p99", "bias", "at or below p90", "at or below p99"})
    header.emplace_back(name);
  std::vector<std::vector<Cell>> rows;
  if (!report.columns.empty()) {
    for (const EvalGroup& group : report.groups) rows.push_back(RowOf(group, group.by));
  }
  rows.push_back(RowOf(report.all, AllRows(report)));
  return Section(
      "summary", "Error",
      Paragraph("APE = |predicted/measured − 1|; MAPE, median, p90 and p99 are of the APE, bias is the mean of "
                "predicted/measured − 1. Shares at or below the predicted p90 and p99 should be 90 % and 99 %. "
                "In brackets 95 % intervals over shapes: repetitions of one kernel count as one. A figure "
                "without brackets cannot be bounded by so few shapes.") +
          Table(header, rows));
}

std::string AgainstSection(const EvalReport& report) {
  std::vector<std::string> header = report.columns;
  for (const char* name : {"rows", "MAPE", "MAPE of the other", "difference", "nearer", "other nearer", ""})
    header.emplace_back(name);
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](const EvalGroup& group, std::vector<std::string> by) {
    std::vector<Cell> row;
    for (std::string& value : by) row.push_back({std::move(value)});
    const PairedErrors& paired = group.against->paired;
    row.push_back({std::to_string(group.errors.n), true});
    row.push_back({WithRange(group.errors.mape, group.intervals.mape), true});
    row.push_back({WithRange(group.against->errors.mape, group.against->intervals.mape), true});
    row.push_back({WithRange(paired.difference, paired.interval), true});
    row.push_back({std::to_string(paired.first_nearer), true});
    row.push_back({std::to_string(paired.second_nearer), true});
    row.push_back({VerdictOf(paired)});
    rows.push_back(std::move(row));
  };
  if (!report.columns.empty()) {
    for (const EvalGroup& group : report.groups) add(group, group.by);
  }
  add(report.all, AllRows(report));
  return Section(
      "against", "Against the other profile",
      Paragraph("Both predict the same rows. The difference is the other's MAPE less this one's, row by row, "
                "which is known better than either.") +
          Table(header, rows));
}

// At most kMostDots of the points, evenly over their latencies.
std::vector<const EvalPoint*> Thinned(const std::vector<EvalPoint>& points) {
  std::vector<const EvalPoint*> all;
  for (const EvalPoint& point : points) all.push_back(&point);
  if (all.size() <= kMostDots) return all;
  std::stable_sort(all.begin(), all.end(),
                   [](const EvalPoint* a, const EvalPoint* b) { return a->pair.observed_us < b->pair.observed_us; });
  std::vector<const EvalPoint*> some;
  for (std::size_t i = 0; i < kMostDots; ++i) some.push_back(all[i * all.size() / kMostDots]);
  return some;
}

std::string ScatterSection(const EvalReport& report) {
  const std::vector<const EvalPoint*> shown = Thinned(report.points);
  std::vector<double> values;
  std::map<Provenance, std::vector<Point>> dots;
  for (const EvalPoint* point : shown) {
    values.push_back(point->pair.observed_us);
    values.push_back(point->pair.predicted_us.p50);
    dots[point->provenance].push_back({point->pair.observed_us, point->pair.predicted_us.p50});
  }
  Chart chart("predicted against measured latency", Decades("measured", values, UsTick),
              Decades("predicted p50", values, UsTick));
  chart.Ideal();
  // The rarer kinds of evidence last, on top.
  for (std::size_t i = 0; i < kProvenances.size(); ++i) {
    const auto it = dots.find(kProvenances[i]);
    if (it == dots.end()) continue;
    chart.Dots(it->second, static_cast<int>(i));
    chart.Legend(fmt::format("{} ({})", Name(kProvenances[i]), it->second.size()), static_cast<int>(i));
  }
  std::string text = "Each dot is a row, coloured by what its prediction rests on; on the dashed line they agree.";
  if (shown.size() < report.points.size()) {
    text += fmt::format(" {} of {} rows are shown, taken evenly over the measured latencies.", shown.size(),
                        report.points.size());
  }
  return Section("scatter", "Predicted against measured", Paragraph(text) + chart.Render());
}

std::string SizeSection(const EvalReport& report) {
  std::map<double, std::vector<PredictedAndObserved>> bins;
  for (const EvalPoint& point : report.points) {
    bins[std::floor(kBinsPerDecade * std::log10(point.pair.observed_us))].push_back(point.pair);
  }
  std::vector<Point> median;
  std::vector<Point> p90;
  std::vector<std::string> titles;
  std::vector<double> sizes;
  std::vector<double> errors;
  std::int64_t left_out = 0;
  for (const auto& [bin, pairs] : bins) {
    const ErrorSummary e = Summarise(pairs);
    if (e.n < kFewestInBin) {
      left_out += e.n;
      continue;
    }
    const double low = std::pow(10, bin / kBinsPerDecade);
    const double high = std::pow(10, (bin + 1) / kBinsPerDecade);
    const double middle = std::sqrt(low * high);
    median.push_back({middle, e.median});
    p90.push_back({middle, e.ape_p90});
    titles.push_back(fmt::format("{} to {}: median {}, p90 {}, {} rows", FormatUs(low), FormatUs(high),
                                 FormatPercent(e.median), FormatPercent(e.ape_p90), e.n));
    sizes.insert(sizes.end(), {low, high});
    errors.insert(errors.end(), {e.median, e.ape_p90});
  }
  if (median.empty()) return Section("size", "Error by size", Paragraph("Too few rows of any size."));
  Chart chart("error by measured latency", Decades("measured", sizes, UsTick), Decades("APE", errors, PercentTick));
  chart.Line(p90, 2);
  chart.Line(median, 0);
  for (std::size_t i = 0; i < titles.size(); ++i) {
    chart.Dot(p90[i], 2, titles[i]);
    chart.Dot(median[i], 0, titles[i]);
  }
  chart.Legend("p90 of the APE", 2);
  chart.Legend("median", 0);
  std::string text = "Rows by measured latency, two bins a decade.";
  if (left_out > 0) text += fmt::format(" {} rows in bins of fewer than {} are left out.", left_out, kFewestInBin);
  return Section("size", "Error by size", Paragraph(text) + chart.Render());
}

std::string CoverageSection(const EvalReport& report) {
  const ErrorSummary& e = report.all.errors;
  const ErrorIntervals& i = report.all.intervals;
  const struct {
    double nominal, observed;
    const std::optional<Range>& range;
  } quantiles[] = {{0.5, e.below_p50, i.below_p50}, {0.9, e.below_p90, i.below_p90}, {0.99, e.below_p99, i.below_p99}};
  Chart chart("coverage of the predicted quantiles", {"nominal", 0, 1, false, PercentTick},
              {"observed at or below", 0, 1, false, PercentTick});
  chart.Ideal();
  std::vector<Point> curve;
  std::vector<std::vector<Cell>> rows;
  for (const auto& q : quantiles) {
    curve.push_back({q.nominal, q.observed});
    if (q.range.has_value()) chart.Whisker(q.nominal, q.range->low, q.range->high, 0);
    rows.push_back({{PercentTick(q.nominal), true}, {WithRange(q.observed, q.range), true}});
  }
  chart.Line(curve, 0);
  for (const Point& point : curve) {
    chart.Dot(point, 0, fmt::format("{} nominal, {} observed", PercentTick(point.x), FormatPercent(point.y)));
  }
  return Section("coverage", "Coverage",
                 Paragraph("Share of measurements at or below the predicted p50, p90 and p99, the quantiles that an "
                           "answer has; on the dashed line they keep their word. Below it, predictions promise too "
                           "much.") +
                     chart.Render() + Table({"nominal", "observed"}, rows));
}

std::string WhyOf(const WorstShape& shape) {
  const std::string_view rest = shape.regime == Bound::kCommunication ? "communication" : "launch and latency";
  std::string why = fmt::format("{}: {:.0f}% compute, {:.0f}% memory, {:.0f}% {}", Name(shape.regime),
                                100 * shape.shares.compute, 100 * shape.shares.memory, 100 * shape.shares.rest, rest);
  for (const std::string& note : shape.notes) why += "\n" + note;
  return why;
}

std::string NearestOf(const WorstShape& shape, bool knows_neighbours) {
  if (!knows_neighbours) {
    return shape.provenance == Provenance::kMeasured ? "this shape was measured" : "this shape was not measured";
  }
  if (shape.nearest.empty()) return "no measurement of its table";
  std::string text;
  for (const NearShape& near : shape.nearest) {
    text += fmt::format("{}{}: measured {}, predicted {} ({:+.1f}%), {:.2f} octaves away", text.empty() ? "" : "\n",
                        near.kernel, FormatUs(near.measured_us), FormatUs(near.predicted_us),
                        100 * (near.predicted_us / near.measured_us - 1), near.octaves);
  }
  return text;
}

std::string WorstSection(const EvalReport& report) {
  std::vector<std::vector<Cell>> rows;
  for (const WorstShape& shape : report.worst) {
    const PredictedAndObserved& pair = shape.pair;
    rows.push_back({{shape.device},
                    {shape.kernel},
                    {std::to_string(shape.rows), true},
                    {FormatUs(pair.observed_us), true},
                    {FormatUs(pair.predicted_us.p50), true,
                     fmt::format("p90 {}, p99 {}", FormatUs(pair.predicted_us.p90), FormatUs(pair.predicted_us.p99))},
                    {FormatPercent(ApeOf(pair)), true},
                    {std::string(Name(shape.provenance))},
                    {WhyOf(shape)},
                    {NearestOf(shape, report.knows_neighbours)}});
  }
  std::string text = fmt::format(
      "The {} shapes with the largest APE of any of their rows. A regime is the largest share of the time by "
      "the form that answers: how many percent it falls for each percent of faster arithmetic or memory. Interpolated "
      "shapes lie within what the profile measured, extrapolated ones outside in the dim that is named.",
      rows.size());
  if (!report.knows_neighbours)
    text += " Give --measured-with, the rows the profile was fitted to, for the nearest ones.";
  return Section("worst", "Worst shapes",
                 Paragraph(text) + Table({"device", "kernel", "rows", "measured", "predicted", "APE", "rests on",
                                          "regime", "nearest measured"},
                                         rows));
}

}  // namespace

std::string WithRange(double fraction, const std::optional<Range>& range) {
  if (!range.has_value()) return FormatPercent(fraction);
  return fmt::format("{} [{:.1f}, {:.1f}]", FormatPercent(fraction), 100 * range->low, 100 * range->high);
}

std::string VerdictOf(const PairedErrors& paired) {
  if (!paired.interval.has_value()) return "too few shapes to tell";
  if (!ShowsDifference(paired)) return "no difference shown";
  return paired.difference > 0 ? "the other is worse" : "the other is better";
}

std::string EvalSections(const EvalReport& report) {
  std::string body = SummarySection(report);
  if (report.all.against.has_value()) body += AgainstSection(report);
  return body + ScatterSection(report) + SizeSection(report) + CoverageSection(report) + WorstSection(report);
}

std::string RenderEvalReport(const EvalReport& report) {
  std::string body;
  for (const std::string& fact : report.facts) body += Paragraph(fact);
  return Page("gpueta eval", body + EvalSections(report));
}

}  // namespace gpueta::report
