// A step's costs row by row: the loops behind StepTable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpueta {

// A latency and how wide its error is: µs, the latter to be combined as
// ComposeParts does.
struct StepCost {
  float us = 0;
  float spread_us = 0;
};

// Costs over two axes of whole numbers from 1 on, interpolated in the
// logarithms of both axes and of the costs. Rows are whole, what is looked up
// between columns need not be. Beyond the last knots the last slopes go on.
class CostPlane {
 public:
  // Where a row lies: the values before it begin at `offset`, and it is `share`
  // of the way to the next knot.
  struct Place {
    std::int32_t offset = 0;
    float share = 0;
  };

  CostPlane();  // costs nothing anywhere
  // Knots ascend from 1; `costs` row by row, above 0.
  CostPlane(std::span<const std::int64_t> rows, std::span<const std::int64_t> cols, std::span<const StepCost> costs);

  Place RowAt(std::int64_t row) const;
  // At a column of at least 1.
  StepCost At(Place row, float col) const;
  std::size_t size_bytes() const;

  // What the loops read.
  struct Columns {
    const float* knots;         // all but the last one, then infinities
    const float* per_gap;       // 1 / log2 of the distance to the next knot
    const std::int32_t* first;  // the last knot at or before the start of each of 64 parts of an octave
    std::int32_t parts;
    int halvings;         // from there to the knot before a column
    const float* points;  // log2 of µs and spread by turns
    std::int32_t width;   // of a row of points
  };
  Columns columns() const;

 private:
  std::vector<Place> rows_;  // by row; 0 unused
  double last_gap_ = 1;      // of the last two knots of rows, in ln
  double last_row_ = 1;
  std::vector<float> knots_;
  std::vector<float> per_gap_;
  std::vector<std::int32_t> first_;
  int halvings_ = 0;
  std::vector<float> points_;
  std::int32_t width_ = 0;
};

// What a decoding step costs besides attention, and where its attention lies.
struct DecodeRow {
  float us = 0;
  float variance = 0;  // µs²
  CostPlane::Place place;
};

struct DecodeRows {
  std::span<const DecodeRow> by_sequences;  // from 0 on
  CostPlane::Columns attention;
  CostPlane::Place alone;  // one sequence
  float step_us = 0;       // overhead
  float sequence_us = 0;
};

// Steps of `sequences[r]` sequences, below by_sequences.size(), with contexts of
// this mean and this longest, below 1 taken for 1; `longest` null: as the mean. p50 with
// overhead and sigma as StepLatency's; 0 for no sequence. One row gives the same
// bits as many.
void DecodeLatencies(const DecodeRows& table, std::size_t rows, const std::int32_t* sequences, const float* mean,
                     const float* longest, float* p50_us, float* sigma);
// The same of a row that the table does not have.
void DecodeLatency(const DecodeRows& table, const DecodeRow& row, std::int32_t sequences, float mean, float longest,
                   float& p50_us, float& sigma);

}  // namespace gpueta
