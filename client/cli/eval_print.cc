#include "client/cli/eval_print.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/terminal/terminal.h"
#include "core/base/errors.h"

namespace gpueta::cli {
namespace {

using report::EvalGroup;

struct Figure {
  const char* name;
  double ErrorSummary::*value;
  std::optional<Range> ErrorIntervals::*interval;
};

constexpr std::array<Figure, 7> kFigures = {{{"mape", &ErrorSummary::mape, &ErrorIntervals::mape},
                                             {"median", &ErrorSummary::median, &ErrorIntervals::median},
                                             {"ape_p90", &ErrorSummary::ape_p90, &ErrorIntervals::ape_p90},
                                             {"ape_p99", &ErrorSummary::ape_p99, &ErrorIntervals::ape_p99},
                                             {"bias", &ErrorSummary::bias, &ErrorIntervals::bias},
                                             {"below_p90", &ErrorSummary::below_p90, &ErrorIntervals::below_p90},
                                             {"below_p99", &ErrorSummary::below_p99, &ErrorIntervals::below_p99}}};

// The dim n of a product is not the number of rows.
std::string KeyOf(const std::string& column) { return column == "n" ? "by_n" : column; }

// "3.9% ±0.1": the larger of the two distances to the interval's ends, with two
// places where one would show it as 0.
std::string WithMargin(double value, const std::optional<Range>& range) {
  constexpr double kShownAsZero = 0.05;
  std::string text = terminal::FormatPercent(value);
  if (!range.has_value()) return text;
  const double margin = 100 * std::max(range->high - value, value - range->low);
  return text + fmt::format(" ±{:.{}f}", margin, margin < kShownAsZero ? 2 : 1);
}

nlohmann::json ToJson(const std::optional<Range>& range) {
  if (!range.has_value()) return nullptr;
  return {range->low, range->high};
}

nlohmann::json ToJson(const ErrorSummary& errors, const ErrorIntervals& intervals) {
  nlohmann::json out = {{"n", errors.n}, {"shapes", intervals.shapes}, {"p90_width", errors.p90_width}};
  for (const Figure& figure : kFigures) {
    out[figure.name] = errors.*figure.value;
    out[fmt::format("{}_ci95", figure.name)] = ToJson(intervals.*figure.interval);
  }
  return out;
}

nlohmann::json ToJson(const std::vector<std::string>& columns, const EvalGroup& group) {
  nlohmann::json out = ToJson(group.errors, group.intervals);
  for (std::size_t i = 0; i < columns.size(); ++i) out[KeyOf(columns[i])] = group.by[i];
  if (group.spearman.has_value()) out["spearman"] = *group.spearman;
  if (group.against.has_value()) {
    const PairedErrors& paired = group.against->paired;
    out["against"] = ToJson(group.against->errors, group.against->intervals);
    out["mape_difference"] = paired.difference;
    out["mape_difference_ci95"] = ToJson(paired.interval);
    out["difference_shown"] = ShowsDifference(paired);
    out["nearer"] = {{"profile", paired.first_nearer},
                     {"against", paired.second_nearer},
                     {"equal", group.errors.n - paired.first_nearer - paired.second_nearer}};
  }
  return out;
}

std::vector<std::string> ErrorCells(const EvalGroup& group) {
  std::vector<std::string> cells = {std::to_string(group.errors.n)};
  for (const Figure& figure : kFigures) {
    cells.push_back(WithMargin(group.errors.*figure.value, group.intervals.*figure.interval));
  }
  return cells;
}

std::vector<std::string> AgainstCells(const EvalGroup& group) {
  const EvalGroup::Against& against = *group.against;
  return {std::to_string(group.errors.n),
          WithMargin(group.errors.mape, group.intervals.mape),
          WithMargin(against.errors.mape, against.intervals.mape),
          report::WithRange(against.paired.difference, against.paired.interval),
          std::to_string(against.paired.first_nearer),
          std::to_string(against.paired.second_nearer),
          report::VerdictOf(against.paired)};
}

}  // namespace

std::vector<std::string> NotesOf(const Judged& judged) {
  std::vector<std::string> notes;
  for (const Unanswered& side : judged.unanswered) {
    notes.push_back(fmt::format("rows left out as --{} cannot answer them: {}; the first is {}", side.side, side.rows,
                                side.reason));
  }
  for (const auto& [side, rows] : {std::pair("profile", &judged.rows), std::pair("against", &judged.against)}) {
    const auto bare = std::ranges::count_if(
        *rows, [](const JudgedRow& row) { return row.estimate.provenance == Provenance::kRoofline; });
    if (bare > 0) notes.push_back(fmt::format("rows that --{} answers from the data sheet alone: {}", side, bare));
  }
  return notes;
}

std::string EvalText(const std::vector<std::string>& columns, const std::vector<EvalGroup>& groups) {
  const bool ranked = std::ranges::any_of(groups, [](const EvalGroup& group) { return group.spearman.has_value(); });
  const bool compared = !groups.empty() && groups.front().against.has_value();
  std::vector<std::string> header;
  for (const std::string& column : columns) header.push_back(KeyOf(column));
  header.emplace_back("n");
  if (compared) {
    for (const char* name : {"mape", "against", "difference", "nearer", "against nearer", ""})
      header.emplace_back(name);
  } else {
    for (const Figure& figure : kFigures) header.emplace_back(figure.name);
  }
  if (ranked) header.emplace_back("spearman");
  terminal::TextTable table(std::move(header));
  for (const EvalGroup& group : groups) {
    std::vector<std::string> line;
    for (const std::string& value : group.by) line.push_back(value.empty() ? "-" : value);
    for (std::string& cell : compared ? AgainstCells(group) : ErrorCells(group)) line.push_back(std::move(cell));
    if (ranked) line.push_back(group.spearman.has_value() ? fmt::format("{:.3f}", *group.spearman) : "-");
    table.Add(std::move(line));
  }
  return table.Render();
}

nlohmann::json EvalJson(const std::vector<std::string>& columns, const std::vector<EvalGroup>& groups,
                        const Judged& judged) {
  nlohmann::json list = nlohmann::json::array();
  for (const EvalGroup& group : groups) list.push_back(ToJson(columns, group));
  if (!judged.compared) return columns.empty() ? list.front() : list;
  nlohmann::json unanswered = nlohmann::json::array();
  for (const Unanswered& side : judged.unanswered) {
    unanswered.push_back({{"by", side.side}, {"rows", side.rows}, {"first", side.reason}});
  }
  return {{"unanswered", unanswered}, {"groups", list}};
}

}  // namespace gpueta::cli
