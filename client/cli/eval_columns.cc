#include "client/cli/eval_columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/measurements/columns.h"

namespace gpueta::cli {
namespace {

constexpr std::array<std::string_view, 8> kDerived = {"op",        "label", "table",  "provenance",
                                                      "estimator", "bound", "regime", "size"};

const MeasurementColumn* FindColumn(Op op, std::string_view name) {
  const auto columns = ColumnsOf(op);
  const auto it = std::ranges::find(columns, name, &MeasurementColumn::name);
  return it == columns.end() ? nullptr : &*it;
}

}  // namespace

GroupValue TextValue(std::string_view text) { return {std::nullopt, std::string(text)}; }

GroupValue NumberOrText(std::string text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && parsed == end && std::isfinite(number)) return {number, std::move(text)};
  return TextValue(text);
}

GroupValue DecadeOf(double us) {
  const double decade = std::floor(std::log10(us));
  return {decade, fmt::format("{} to {}", terminal::FormatUs(std::pow(10, decade)),
                              terminal::FormatUs(std::pow(10, decade + 1)))};
}

absl::Status CheckNames(const std::vector<std::string>& names, const std::vector<std::string_view>& known) {
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return InvalidArgument("--by: these rows have no column \"{}\"; choose of {}", name, fmt::join(known, ", "));
  }
  return absl::OkStatus();
}

absl::Status CheckColumns(const std::vector<std::string>& names, const std::vector<Measurement>& rows) {
  std::set<Op> ops;
  for (const Measurement& row : rows) ops.insert(row.kernel.op());
  if (ops.empty()) ops.insert(kAllOps.begin(), kAllOps.end());
  std::vector<std::string_view> known;
  for (const Op op : ops) {
    for (const MeasurementColumn& column : ColumnsOf(op)) {
      if (std::ranges::find(known, column.name) == known.end()) known.push_back(column.name);
    }
  }
  known.insert(known.end(), kDerived.begin(), kDerived.end());
  return CheckNames(names, known);
}

absl::StatusOr<GroupValue> ValueOf(const std::string& name, const JudgedRow& row) {
  const Measurement& measured = *row.measured;
  if (const MeasurementColumn* column = FindColumn(measured.kernel.op(), name); column != nullptr) {
    return NumberOrText(TextOf(*column, measured));
  }
  if (name == "op") return TextValue(Name(measured.kernel.op()));
  if (name == "label") return TextValue(LabelOf(measured.kernel));
  if (name == "table") return TextValue(Describe(KeyOf(measured.kernel, measured.timing)));
  if (name == "provenance") return TextValue(Name(row.estimate.provenance));
  if (name == "estimator") return TextValue(row.estimate.estimator);
  if (name == "bound") return TextValue(Name(row.estimate.bound));
  if (name == "size") return DecadeOf(measured.latency_us);
  if (name == "regime") {
    GPUETA_ASSIGN_OR_RETURN(const RegimeShares shares, row.predictor->Regime(measured.kernel, row.options));
    return TextValue(Name(LargestOf(shares, measured.kernel.op())));
  }
  return TextValue("");  // a column of another op
}

}  // namespace gpueta::cli
