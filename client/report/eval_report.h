// The page of `gpueta eval --html`: how far a profile is off, where and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/feedback/confidence.h"
#include "core/feedback/error_summary.h"
#include "core/predict/estimate.h"
#include "core/predict/regime.h"

namespace gpueta::report {

// Rows judged together.
struct EvalGroup {
  std::vector<std::string> by;  // one value for each column grouped by; empty where the row says nothing
  ErrorSummary errors;
  ErrorIntervals intervals;
  std::optional<double> spearman;  // of whole models, where they can be ranked
  // Another prediction of the same rows.
  struct Against {
    ErrorSummary errors;
    ErrorIntervals intervals;
    PairedErrors paired;  // `errors` above first
  };
  std::optional<Against> against;
};

struct EvalPoint {
  PredictedAndObserved pair;
  Provenance provenance = Provenance::kRoofline;
};

// A measured shape near another one.
struct NearShape {
  std::string kernel;
  double octaves = 0;  // between their dims, see NearestMeasurements
  double measured_us = 0;
  double predicted_us = 0;
};

// The row of a shape with the largest error, and what is known about it.
struct WorstShape {
  std::string device;
  std::string kernel;     // Describe, with the timing
  std::int64_t rows = 0;  // of this shape
  PredictedAndObserved pair;
  Provenance provenance = Provenance::kRoofline;
  Bound regime = Bound::kCompute;
  RegimeShares shares;
  std::vector<std::string> notes;  // Explanation.notes
  std::vector<NearShape> nearest;
};

struct EvalReport {
  std::vector<std::string> facts;    // what was judged by what, a paragraph each
  std::vector<std::string> columns;  // grouped by
  std::vector<EvalGroup> groups;
  EvalGroup all;
  std::vector<EvalPoint> points;  // every row; at least one
  std::vector<WorstShape> worst;
  bool knows_neighbours = false;  // whether the rows that the profile was fitted to were given
};

// More dots than this are thinned out, evenly over the measured latencies.
inline constexpr std::size_t kMostDots = 3000;

std::string RenderEvalReport(const EvalReport& report);

// Its sections, to stand among others of a page.
std::string EvalSections(const EvalReport& report);

// "3.9% [3.8, 4.1]", in percent; the figure alone without an interval.
std::string WithRange(double fraction, const std::optional<Range>& range);

// The verdict on a paired comparison in a few words.
std::string VerdictOf(const PairedErrors& paired);

}  // namespace gpueta::report
