#include "core/serving/step_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/ops/form_math.h"
#include "core/predict/clones.h"

namespace gpueta {
namespace {

using namespace math;

constexpr int kRowsAtOnce = 64;
constexpr int kPartBits = 6;  // parts of an octave: 64
constexpr std::int32_t kFirstPart = 127 << kPartBits;
constexpr float kPerZ90 = 0.78030414569F;  // 1 / 1.2815515655
constexpr float kNothing = -126;           // log2 of what costs nothing

GPUETA_INLINE std::int32_t PartOf(float x) { return (std::bit_cast<std::int32_t>(x) >> (23 - kPartBits)) - kFirstPart; }

// Planes begin at 1: a context of nothing, or no number, costs as one token.
GPUETA_INLINE float ColumnOf(float x) { return x > 1.0F ? x : 1.0F; }

// log2(x/knot), as precise as their difference where they are close.
GPUETA_INLINE float Log2From(float knot, float x) {
  const float t = (x - knot) / knot;
  const float s = t / (t + 2.0F);  // ln(1 + t) = 2·artanh(s)
  const float s2 = s * s;
  float p = 0.2623082F;  // 2/ln 2 · 1/11
  p = Fma(p, s2, 0.3205989F);
  p = Fma(p, s2, 0.4121986F);
  p = Fma(p, s2, 0.5770780F);
  p = Fma(p, s2, 0.9617967F);
  p = Fma(p, s2, 2.8853901F);
  return Select(t > 1.0F, Log2(t + 1.0F), p * s);
}

struct Log2Cost {
  float us, spread;
};

// log2 of µs and of spread at the knots on both sides, of a row between two.
GPUETA_INLINE void MixRows(const CostPlane::Columns& c, CostPlane::Place row, std::int32_t knot, float* sides) {
  const float* at = c.points + row.offset + 2 * knot;
  const float* below = at + c.width;
  for (int i = 0; i < 4; ++i) sides[i] = Fma(row.share, below[i] - at[i], at[i]);
}
// Between these.
GPUETA_INLINE Log2Cost MixSides(const CostPlane::Columns& c, const float* sides, std::int32_t knot, float x) {
  const float v = Log2From(c.knots[knot], x) * c.per_gap[knot];
  return {Fma(v, sides[2] - sides[0], sides[0]), Fma(v, sides[3] - sides[1], sides[1])};
}
GPUETA_INLINE Log2Cost Mix(const CostPlane::Columns& c, CostPlane::Place row, std::int32_t knot, float x) {
  float sides[4];
  MixRows(c, row, knot, sides);
  return MixSides(c, sides, knot, x);
}

GPUETA_INLINE std::int32_t KnotBefore(const CostPlane::Columns& c, float x) {
  std::int32_t knot = c.first[Min(PartOf(x), c.parts - 1)];
  for (int half = 1 << c.halvings >> 1; half > 0; half >>= 1) knot += Select(c.knots[knot + half] <= x, half, 0);
  return knot;
}

GPUETA_INLINE StepCost CostAt(const CostPlane::Columns& c, CostPlane::Place row, float x) {
  const Log2Cost cost = Mix(c, row, KnotBefore(c, x), x);
  return {Exp2(cost.us), Exp2(cost.spread)};
}

// The whole step from its attention.
GPUETA_INLINE void Finish(float us, float spread_us, float rest_us, float variance, float overhead_us, bool any,
                          float& p50_us, float& sigma) {
  const float all_us = us + rest_us;
  p50_us = Select(any, all_us + overhead_us, 0.0F);
  sigma = Select(any, __builtin_sqrtf(Fma(spread_us, spread_us, variance)) / all_us * kPerZ90, 0.0F);
}

GPUETA_CLONES StepCost PlaneCost(const CostPlane::Columns& c, CostPlane::Place row, float x) {
  return CostAt(c, row, x);
}

// The knots before some columns, a pass for all at a time.
GPUETA_INLINE void KnotsBefore(const CostPlane::Columns& c, const float* x, int rows, std::int32_t* knots) {
  const std::int32_t* first = c.first;
  const std::int32_t last_part = c.parts - 1;
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) knots[r] = first[Min(PartOf(ColumnOf(x[r])), last_part)];
  const float* all = c.knots;
  for (std::int32_t half = 1 << c.halvings >> 1; half > 0; half >>= 1) {
#pragma GCC ivdep
    for (int r = 0; r < rows; ++r) knots[r] += Select(all[knots[r] + half] <= x[r], half, 0);
  }
}

GPUETA_CLONES void DecodeBlock(const DecodeRows& table, int rows, const std::int32_t* sequences, const float* mean,
                               const float* longest, float* p50_us, float* sigma) {
  const CostPlane::Columns c = table.attention;
  const DecodeRow* records = table.by_sequences.data();
  std::int32_t knots[kRowsAtOnce];
  float us[kRowsAtOnce], spread[kRowsAtOnce];
  float sides[4 * kRowsAtOnce];  // loads of four neighbours are faster than gathering them
  KnotsBefore(c, mean, rows, knots);
  for (int r = 0; r < rows; ++r) MixRows(c, records[sequences[r]].place, knots[r], sides + 4 * r);
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) {
    const Log2Cost cost = MixSides(c, sides + 4 * r, knots[r], ColumnOf(mean[r]));
    us[r] = cost.us;
    spread[r] = cost.spread;
  }
  if (longest != nullptr) {
    KnotsBefore(c, longest, rows, knots);
    for (int r = 0; r < rows; ++r) MixRows(c, table.alone, knots[r], sides + 4 * r);
#pragma GCC ivdep
    for (int r = 0; r < rows; ++r) {
      const Log2Cost cost = MixSides(c, sides + 4 * r, knots[r], ColumnOf(longest[r]));
      const bool slower = (ColumnOf(longest[r]) > ColumnOf(mean[r])) & (cost.us > us[r]);
      us[r] = Select(slower, cost.us, us[r]);
      spread[r] = Select(slower, cost.spread, spread[r]);
    }
  }
  const float step_us = table.step_us, sequence_us = table.sequence_us;
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) {
    const std::int32_t n = sequences[r];
    const float overhead_us = Fma(sequence_us, static_cast<float>(n), step_us);
    Finish(Exp2(us[r]), Exp2(spread[r]), records[n].us, records[n].variance, overhead_us, n > 0, p50_us[r], sigma[r]);
  }
}

GPUETA_CLONES void DecodeOne(const DecodeRows& table, const DecodeRow& row, std::int32_t sequences, float mean,
                             float longest, float& p50_us, float& sigma) {
  const CostPlane::Columns& c = table.attention;
  mean = ColumnOf(mean);
  longest = ColumnOf(longest);
  Log2Cost cost = Mix(c, row.place, KnotBefore(c, mean), mean);
  if (longest > mean) {
    const Log2Cost alone = Mix(c, table.alone, KnotBefore(c, longest), longest);
    if (alone.us > cost.us) cost = alone;
  }
  const float overhead_us = Fma(table.sequence_us, static_cast<float>(sequences), table.step_us);
  Finish(Exp2(cost.us), Exp2(cost.spread), row.us, row.variance, overhead_us, sequences > 0, p50_us, sigma);
}

}  // namespace

CostPlane::CostPlane() {
  const StepCost none{0, 0};
  const std::int64_t one = 1;
  *this = CostPlane({&one, 1}, {&one, 1}, {&none, 1});
}

CostPlane::CostPlane(std::span<const std::int64_t> rows, std::span<const std::int64_t> cols,
                     std::span<const StepCost> costs) {
  // An axis of one knot gets a second one with the same costs: it is flat.
  const auto with_second = [](std::span<const std::int64_t> axis) {
    std::vector<double> knots(axis.begin(), axis.end());
    if (knots.size() == 1) knots.push_back(2 * knots[0]);
    return knots;
  };
  const std::vector<double> row_knots = with_second(rows);
  const std::vector<double> col_knots = with_second(cols);
  width_ = static_cast<std::int32_t>(2 * col_knots.size());
  for (std::size_t i = 0; i < row_knots.size(); ++i) {
    for (std::size_t j = 0; j < col_knots.size(); ++j) {
      const StepCost& cost = costs[std::min(i, rows.size() - 1) * cols.size() + std::min(j, cols.size() - 1)];
      for (const float value : {cost.us, cost.spread_us}) {
        points_.push_back(value > 0 ? std::max(std::log2(value), kNothing) : kNothing);
      }
    }
  }
  for (std::size_t j = 0; j + 1 < col_knots.size(); ++j) {
    knots_.push_back(static_cast<float>(col_knots[j]));
    per_gap_.push_back(static_cast<float>(1 / std::log2(col_knots[j + 1] / col_knots[j])));
  }
  std::int32_t most_in_part = 0;
  for (std::int32_t knot = 0, part = 0; static_cast<std::size_t>(knot) < knots_.size(); ++part) {
    const auto start = std::bit_cast<float>((part + kFirstPart) << (23 - kPartBits));
    const auto end = std::bit_cast<float>((part + 1 + kFirstPart) << (23 - kPartBits));
    const auto from = std::upper_bound(knots_.begin(), knots_.end(), start) - knots_.begin();
    const auto to = std::lower_bound(knots_.begin(), knots_.end(), end) - knots_.begin();
    first_.push_back(static_cast<std::int32_t>(from) - 1);
    most_in_part = std::max(most_in_part, static_cast<std::int32_t>(to - from));
    knot = static_cast<std::int32_t>(to);
  }
  // Columns of later octaves lie behind all knots.
  first_.push_back(static_cast<std::int32_t>(knots_.size()) - 1);
  halvings_ = static_cast<int>(std::bit_width(static_cast<std::uint32_t>(most_in_part)));
  knots_.resize(knots_.size() + (std::size_t{1} << halvings_), std::numeric_limits<float>::infinity());

  const auto last = static_cast<std::int64_t>(rows.back());
  rows_.resize(static_cast<std::size_t>(last) + 1);
  std::size_t before = 0;
  for (std::int64_t row = 1; row <= last; ++row) {
    const auto x = static_cast<double>(row);
    while (before + 2 < row_knots.size() && row_knots[before + 1] <= x) ++before;
    rows_[static_cast<std::size_t>(row)] = {
        static_cast<std::int32_t>(before) * width_,
        static_cast<float>(std::log(x / row_knots[before]) / std::log(row_knots[before + 1] / row_knots[before]))};
  }
  last_row_ = row_knots[row_knots.size() - 2];
  last_gap_ = std::log(row_knots.back() / last_row_);
}

CostPlane::Place CostPlane::RowAt(std::int64_t row) const {
  if (row < static_cast<std::int64_t>(rows_.size()))
    return rows_[static_cast<std::size_t>(std::max<std::int64_t>(row, 1))];
  return {rows_.back().offset, static_cast<float>(std::log(static_cast<double>(row) / last_row_) / last_gap_)};
}

StepCost CostPlane::At(Place row, float col) const { return PlaneCost(columns(), row, col); }

CostPlane::Columns CostPlane::columns() const {
  return {knots_.data(), per_gap_.data(), first_.data(), static_cast<std::int32_t>(first_.size()),
          halvings_,     points_.data(),  width_};
}

std::size_t CostPlane::size_bytes() const {
  return rows_.size() * sizeof(Place) + first_.size() * sizeof(std::int32_t) +
         (knots_.size() + per_gap_.size() + points_.size()) * sizeof(float);
}

void DecodeLatencies(const DecodeRows& table, std::size_t rows, const std::int32_t* sequences, const float* mean,
                     const float* longest, float* p50_us, float* sigma) {
  for (std::size_t start = 0; start < rows; start += kRowsAtOnce) {
    const int count = static_cast<int>(std::min<std::size_t>(kRowsAtOnce, rows - start));
    DecodeBlock(table, count, sequences + start, mean + start, longest == nullptr ? nullptr : longest + start,
                p50_us + start, sigma + start);
  }
}

void DecodeLatency(const DecodeRows& table, const DecodeRow& row, std::int32_t sequences, float mean, float longest,
                   float& p50_us, float& sigma) {
  DecodeOne(table, row, sequences, mean, longest, p50_us, sigma);
}

}  // namespace gpueta
