// What `gpueta eval --by` groups rows by.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/measurements/measurements.h"
#include "core/predict/predictor.h"

namespace gpueta::cli {

// A measured row and what is predicted for it.
struct JudgedRow {
  const Measurement* measured = nullptr;
  const Predictor* predictor = nullptr;
  Estimate estimate;
  EstimateOptions options;  // the estimate was asked for with
};

// A value of a column: numbers sort before text, and as numbers.
struct GroupValue {
  std::optional<double> number;
  std::string text;  // empty: the row has no such column, or says nothing in it

  friend bool operator<(const GroupValue& a, const GroupValue& b) {
    if (a.number.has_value() != b.number.has_value()) return a.number.has_value();
    if (a.number != b.number) return *a.number < *b.number;
    return a.text < b.text;
  }
};

GroupValue TextValue(std::string_view text);
// As a number where all of it is one.
GroupValue NumberOrText(std::string text);
GroupValue DecadeOf(double us);

// INVALID_ARGUMENT listing `known`, unless all names are among them.
absl::Status CheckNames(const std::vector<std::string>& names, const std::vector<std::string_view>& known);

// INVALID_ARGUMENT listing the columns there are, unless each name is one of a
// measurement CSV of the rows' ops (of any op, if there are no rows), or
// derived: op, label, table, provenance, estimator, bound (by the data sheet),
// regime (by the form that answers), size (the decade of the latency).
absl::Status CheckColumns(const std::vector<std::string>& names, const std::vector<Measurement>& rows);

// `name` as CheckColumns has passed it.
absl::StatusOr<GroupValue> ValueOf(const std::string& name, const JudgedRow& row);

}  // namespace gpueta::cli
