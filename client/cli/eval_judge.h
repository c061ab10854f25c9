// The work of `gpueta eval`: rows predicted, grouped and compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/eval_columns.h"
#include "client/cli/inputs.h"
#include "client/report/eval_report.h"

namespace gpueta::cli {

struct EvalQuestion {
  std::string device;     // predict for it; empty: the row's own
  std::string estimator;  // empty: the best one
  std::vector<std::string> by;
  std::uint64_t seed = 0;
  bool leave_out = false;  // rows that cannot be answered, rather than fail
};

// The figures of one side.
report::EvalGroup SummaryOf(const std::vector<PredictedAndObserved>& pairs, std::uint64_t seed);

// Rows that one side of a comparison could not answer, or no profile: gradients.
struct Unanswered {
  std::string side;    // the option that gave what cannot: "profile", "against" or "estimator NAME"
  std::string reason;  // of the first of them
  std::int64_t rows = 0;
};

struct Judged {
  std::vector<JudgedRow> rows;
  bool compared = false;
  std::vector<JudgedRow> against;  // where compared, the same rows by the other side
  std::vector<Unanswered> unanswered;
};

struct JudgedGroups {
  std::vector<report::EvalGroup> groups;  // in ascending order of the columns' values
  std::vector<Unanswered> unanswered;
};

// Adds a row that a side could not answer.
void CountUnanswered(const absl::Status& status, std::string_view side, std::vector<Unanswered>& unanswered);

// Predicts each row. Without `against` a row that cannot be answered is an
// error with its line, unless such rows are left out; with it, they are left out
// on both sides. What is left out is counted. Points into all its arguments.
absl::StatusOr<Judged> Judge(const std::vector<Measurement>& rows, const EvalQuestion& question, Predictors& predictors,
                             Predictors* against);

// Rows of one shape are those with the same dims and label, on any device and
// in any table: what is odd about a shape is odd there too.
PredictedAndObserved PairOf(const JudgedRow& row);

// Groups in ascending order of their values, by the first side's estimates
// where a column is of the estimate. Without columns one group, of all rows.
absl::StatusOr<std::vector<report::EvalGroup>> Group(const Judged& judged, const EvalQuestion& question);

// All rows together.
report::EvalGroup Whole(const Judged& judged, const EvalQuestion& question);

// The `count` shapes with the largest errors, each with the nearest of the rows
// `measured_with`.
absl::StatusOr<std::vector<report::WorstShape>> WorstShapes(const Judged& judged, std::size_t count,
                                                            const std::vector<Measurement>& measured_with);

// The page's content but for its facts: groups, points, worst shapes.
// `measured_with`: rows that the profile was fitted to, if they are known.
absl::StatusOr<report::EvalReport> ReportOf(const Judged& judged, const EvalQuestion& question, std::size_t worst,
                                            const std::vector<Measurement>& measured_with);

}  // namespace gpueta::cli
