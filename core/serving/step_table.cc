#include "core/serving/step_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using Rows = StepKernel::Rows;

constexpr double kZ90 = 1.2815515655446004;
constexpr double kKnotsPerOctave = 4;    // before they are refined
constexpr double kKnotError = 0.01;      // of attention's latency
constexpr std::size_t kMostKnots = 256;  // an axis
constexpr std::int64_t kMostRows = std::int64_t{1} << 20;
constexpr std::int64_t kMostContext = std::int64_t{1} << 26;
constexpr int kCheckedSteps = 200;
constexpr std::size_t kBatch = 4096;  // kernels estimated at a time

std::vector<std::int64_t> Knots(std::int64_t last) {
  std::vector<std::int64_t> knots;
  for (int i = 0;; ++i) {
    const auto knot = std::min<std::int64_t>(std::llround(std::exp2(i / kKnotsPerOctave)), last);
    if (knots.empty() || knot > knots.back()) knots.push_back(knot);
    if (knot == last) return knots;
  }
}

}  // namespace

double NormalQuantile(double quantile) {
  // Newton's method on the error function, from a logistic start.
  const double p = std::clamp(quantile, 1e-12, 1 - 1e-12);
  double z = std::log(p / (1 - p)) / 1.702;
  for (int i = 0; i < 20; ++i) {
    const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI);
    const double step = (0.5 * std::erfc(-z / std::sqrt(2.0)) - p) / density;
    z -= std::clamp(step, -1.0, 1.0);
    if (std::abs(step) < 1e-12) break;
  }
  return z;
}

double StepLatency::Quantile(const QuantilePoint& at) const { return p50_us * std::exp(sigma * at.z); }

StepCost StepTable::At(const std::vector<StepCost>& line, std::int64_t rows) {
  if (rows <= 0 || line.empty()) return {};
  const auto last = static_cast<std::int64_t>(line.size()) - 1;
  if (rows <= last) return line[static_cast<std::size_t>(rows)];
  const StepCost end = line.back();  // beyond: in proportion
  const auto more = static_cast<float>(static_cast<double>(rows) / static_cast<double>(last));
  return {end.us * more, end.spread_us * more};
}

StepTable StepTable::WithOverhead(const EngineOverhead& overhead) const { return {data_, overhead}; }

namespace {

// Costs of a step's parts, errors as ComposeParts takes them.
struct CostSum {
  double us = 0;
  double variance = 0;

  void Add(StepCost cost) {
    us += static_cast<double>(cost.us);
    variance += static_cast<double>(cost.spread_us) * static_cast<double>(cost.spread_us);
  }
  // Both are mostly products: a part of their errors is shared.
  void AddProducts(StepCost body, StepCost head) {
    Add(body);
    Add(head);
    variance += 2 * (1 - kOwnErrorShare) * static_cast<double>(body.spread_us) * static_cast<double>(head.spread_us);
  }
};

}  // namespace

DecodeRow StepTable::DecodeRowOf(std::int64_t sequences) const {
  if (sequences < static_cast<std::int64_t>(data_->by_sequences.size())) {
    return data_->by_sequences[static_cast<std::size_t>(std::max<std::int64_t>(sequences, 0))];
  }
  const std::int64_t tokens = sequences * (1 + data_->limits.speculative_tokens);
  CostSum sum;
  sum.AddProducts(At(data_->tokens, tokens), At(data_->logits, tokens));
  sum.Add(At(data_->decode_tokens, tokens));
  return {static_cast<float>(sum.us), static_cast<float>(sum.variance), data_->decode.RowAt(sequences)};
}

DecodeRows StepTable::decode_rows() const {
  return {data_->by_sequences, data_->decode.columns(), data_->decode.RowAt(1), static_cast<float>(overhead_.step_us),
          static_cast<float>(overhead_.token_us) * static_cast<float>(1 + data_->limits.speculative_tokens)};
}

void StepTable::DecodeLatencies(std::span<const std::int32_t> sequences, std::span<const float> mean_context,
                                std::span<const float> longest_context, std::span<float> p50_us,
                                std::span<float> sigma) const {
  const DecodeRows table = decode_rows();
  const auto known = static_cast<std::int32_t>(data_->by_sequences.size());
  const float* longest = longest_context.empty() ? nullptr : longest_context.data();
  const auto inside = [&](std::size_t i) { return sequences[i] >= 0 && sequences[i] < known; };
  for (std::size_t i = 0; i < sequences.size();) {
    std::size_t end = i;
    while (end < sequences.size() && inside(end)) ++end;
    gpueta::DecodeLatencies(table, end - i, &sequences[i], &mean_context[i], longest == nullptr ? nullptr : longest + i,
                            &p50_us[i], &sigma[i]);
    for (i = end; i < sequences.size() && !inside(i); ++i) {
      DecodeLatency(table, DecodeRowOf(sequences[i]), sequences[i], mean_context[i],
                    longest == nullptr ? mean_context[i] : longest[i], p50_us[i], sigma[i]);
    }
  }
}

StepLatency StepTable::Latency(const StepLoad& load) const {
  const auto mean = std::max(static_cast<float>(load.mean_context), 1.0F);
  const auto longest = std::max(static_cast<float>(load.longest_context), 1.0F);
  if (load.prefill.empty()) {
    float us = 0, sigma = 0;
    DecodeLatency(decode_rows(), DecodeRowOf(load.decode_sequences), static_cast<std::int32_t>(load.decode_sequences),
                  mean, longest, us, sigma);
    return {static_cast<double>(us), static_cast<double>(sigma)};
  }
  std::int64_t prefill_tokens = 0;
  double own = 0;     // of chunks: Σ spread²
  double shared = 0;  // Σ spread
  CostSum sum;
  for (const PrefillChunk& chunk : load.prefill) {
    prefill_tokens += chunk.new_tokens;
    const StepCost cost =
        data_->chunk.At(data_->chunk.RowAt(chunk.new_tokens), static_cast<float>(chunk.cached_tokens + 1));
    sum.us += static_cast<double>(cost.us);
    own += static_cast<double>(cost.spread_us) * static_cast<double>(cost.spread_us);
    shared += static_cast<double>(cost.spread_us);
  }
  sum.variance = kOwnErrorShare * own + (1 - kOwnErrorShare) * shared * shared;
  const std::int64_t decode_tokens = load.decode_sequences * (1 + data_->limits.speculative_tokens);
  const std::int64_t tokens = prefill_tokens + decode_tokens;
  if (load.decode_sequences > 0) {
    StepCost all = data_->decode.At(data_->decode.RowAt(load.decode_sequences), mean);
    if (longest > mean) {
      const StepCost alone = data_->decode.At(data_->decode.RowAt(1), longest);
      if (alone.us > all.us) all = alone;
    }
    sum.Add(all);
    sum.Add(At(data_->decode_tokens, decode_tokens));
  }
  sum.Add(At(data_->prefill_tokens, prefill_tokens));
  sum.AddProducts(At(data_->tokens, tokens),
                  At(data_->logits, static_cast<std::int64_t>(load.prefill.size()) + decode_tokens));
  const double sigma = sum.us > 0 ? std::sqrt(sum.variance) / sum.us / kZ90 : 0;
  return {sum.us + overhead_.Of(tokens), sigma};
}

std::size_t StepTable::size_bytes() const {
  const auto lines =
      data_->tokens.size() + data_->logits.size() + data_->prefill_tokens.size() + data_->decode_tokens.size();
  return lines * sizeof(StepCost) + data_->by_sequences.size() * sizeof(DecodeRow) + data_->chunk.size_bytes() +
         data_->decode.size_bytes();
}

// Estimates every point of a table, kernels in large batches.
class StepTableBuilder {
 public:
  StepTableBuilder(const StepModel& model, const Predictor& predictor)
      : model_(model),
        predictor_(predictor),
        options_(predictor.KernelOptionsOf({.mode = ExecutionMode::kGraph})),
        gap_us_(predictor.ExecutionOf({.mode = ExecutionMode::kGraph}).gap_us) {}

  // The cost of all kernels of a kind at each of the points.
  absl::StatusOr<std::vector<StepCost>> CostsOf(Rows rows, const std::vector<SymbolValues>& points,
                                                std::int64_t speculative_tokens) {
    std::vector<StepCost> costs;
    std::vector<const StepKernel*> own;
    for (const StepKernel& kernel : model_.kernels()) {
      if (kernel.rows == rows) own.push_back(&kernel);
    }
    if (own.empty()) return costs;
    costs.reserve(points.size());
    const std::size_t at_a_time = std::max<std::size_t>(1, kBatch / own.size());
    std::vector<Kernel> kernels;
    std::vector<Estimate> estimates;
    for (std::size_t start = 0; start < points.size(); start += at_a_time) {
      const std::size_t end = std::min(points.size(), start + at_a_time);
      kernels.clear();
      for (std::size_t p = start; p < end; ++p) {
        for (const StepKernel* kernel : own) {
          GPUETA_ASSIGN_OR_RETURN(Kernel bound, BindKernel(*kernel, points[p], speculative_tokens));
          kernels.push_back(std::move(bound));
        }
      }
      estimates.resize(kernels.size());
      GPUETA_RETURN_IF_ERROR(predictor_.EstimateKernels(kernels, options_, estimates));
      for (std::size_t p = start; p < end; ++p) costs.push_back(Sum(own, kernels, estimates, (p - start) * own.size()));
    }
    return costs;
  }

  absl::StatusOr<std::vector<StepCost>> Line(Rows rows, std::int64_t last) {
    std::vector<SymbolValues> points;
    for (std::int64_t tokens = 1; tokens <= last; ++tokens) {
      const bool in_sequence = rows == Rows::kTokens || rows == Rows::kPrefillTokens;
      points.push_back({{"batch", in_sequence ? 1 : tokens}, {"seq", in_sequence ? tokens : 1}, {"kv_len", tokens}});
    }
    GPUETA_ASSIGN_OR_RETURN(std::vector<StepCost> costs, CostsOf(rows, points, 0));
    if (!costs.empty()) costs.insert(costs.begin(), StepCost{});  // of no token
    return costs;
  }

  absl::StatusOr<CostPlane> Plane(Rows rows, std::int64_t last_row, std::int64_t last_col,
                                  std::int64_t speculative_tokens) {
    const auto costs_at = [&](const std::vector<std::int64_t>& row_knots, const std::vector<std::int64_t>& col_knots) {
      std::vector<SymbolValues> points;
      for (const std::int64_t row : row_knots) {
        for (const std::int64_t col : col_knots) points.push_back(PointOf(rows, row, col));
      }
      return CostsOf(rows, points, speculative_tokens);
    };
    GPUETA_ASSIGN_OR_RETURN(
        const std::vector<std::int64_t> row_knots,
        Refined(last_row, [&](const std::vector<std::int64_t>& at) { return costs_at(at, Probes(last_col)); }));
    // By columns, the points come in another order: one probe after the other.
    GPUETA_ASSIGN_OR_RETURN(const std::vector<std::int64_t> col_knots,
                            Refined(last_col, [&](const std::vector<std::int64_t>& at) {
                              return Transposed(costs_at(Probes(last_row), at), at.size());
                            }));
    GPUETA_ASSIGN_OR_RETURN(const std::vector<StepCost> costs, costs_at(row_knots, col_knots));
    return costs.empty() ? CostPlane() : CostPlane(row_knots, col_knots, costs);
  }

 private:
  using Costs = absl::StatusOr<std::vector<StepCost>>;

  static SymbolValues PointOf(Rows rows, std::int64_t row, std::int64_t col) {
    if (rows == Rows::kDecode) return {{"batch", row}, {"seq", 1}, {"kv_len", col}};
    // col: the keys of the chunk's first token, itself included.
    return {{"batch", 1}, {"seq", row}, {"kv_len", row + col - 1}};
  }

  // Where the other axis is looked at while this one is refined.
  static std::vector<std::int64_t> Probes(std::int64_t last) {
    std::vector<std::int64_t> probes;
    for (const double share : {0.0, 0.35, 0.7, 1.0}) {
      probes.push_back(std::llround(std::pow(static_cast<double>(last), share)));
    }
    return probes;
  }

  static Costs Transposed(const Costs& costs, std::size_t cols) {
    if (!costs.ok() || costs->empty()) return costs;
    std::vector<StepCost> out;
    const std::size_t rows = costs->size() / cols;
    for (std::size_t c = 0; c < cols; ++c) {
      for (std::size_t r = 0; r < rows; ++r) out.push_back((*costs)[r * cols + c]);
    }
    return out;
  }

  // Knots from 1 to `last`, closer where latencies step: intervals are halved
  // while their middle is further off than kKnotError at one of the probes.
  // `costs_at` gives a cost for each knot and probe.
  template <class CostsAt>
  static absl::StatusOr<std::vector<std::int64_t>> Refined(std::int64_t last, const CostsAt& costs_at) {
    std::map<std::int64_t, std::vector<double>> known;  // ln µs by probe
    const auto learn = [&](const std::vector<std::int64_t>& at) -> absl::Status {
      GPUETA_ASSIGN_OR_RETURN(const std::vector<StepCost> costs, costs_at(at));
      const std::size_t probes = costs.size() / at.size();
      for (std::size_t i = 0; i < at.size(); ++i) {
        std::vector<double>& values = known[at[i]];
        for (std::size_t p = 0; p < probes; ++p) {
          values.push_back(std::log(static_cast<double>(costs[i * probes + p].us)));
        }
      }
      return absl::OkStatus();
    };
    std::vector<std::int64_t> knots = Knots(last);
    GPUETA_RETURN_IF_ERROR(learn(knots));
    std::set<std::int64_t> even;  // left ends of intervals that need no more knots
    while (knots.size() < kMostKnots) {
      std::vector<std::int64_t> middles;
      for (std::size_t i = 0; i + 1 < knots.size(); ++i) {
        if (knots[i + 1] - knots[i] > 1 && !even.contains(knots[i]))
          middles.push_back(knots[i] + (knots[i + 1] - knots[i]) / 2);
      }
      if (middles.empty()) break;
      GPUETA_RETURN_IF_ERROR(learn(middles));
      std::vector<std::pair<double, std::int64_t>> off;
      for (const std::int64_t middle : middles) {
        const auto above = std::ranges::upper_bound(knots, middle);
        const std::int64_t right = *above;
        const std::int64_t left = *(above - 1);
        const double share = std::log(static_cast<double>(middle) / static_cast<double>(left)) /
                             std::log(static_cast<double>(right) / static_cast<double>(left));
        double error = 0;
        for (std::size_t p = 0; p < known[middle].size(); ++p) {
          error = std::max(error, std::abs((1 - share) * known[left][p] + share * known[right][p] - known[middle][p]));
        }
        if (error > kKnotError)
          off.emplace_back(error, middle);
        else
          even.insert(left);
      }
      // The worst first, as many as fit.
      std::ranges::sort(off, std::greater<>());
      for (const auto& [error, middle] : off) {
        if (knots.size() < kMostKnots) knots.insert(std::ranges::upper_bound(knots, middle), middle);
      }
      if (off.empty()) break;
    }
    return knots;
  }

  StepCost Sum(const std::vector<const StepKernel*>& own, const std::vector<Kernel>& kernels,
               const std::vector<Estimate>& estimates, std::size_t first) const {
    double us = 0;
    ErrorSum errors;
    for (std::size_t k = 0; k < own.size(); ++k) {
      const Quantiles& q = estimates[first + k].latency_us;
      const auto count = static_cast<double>(own[k]->count);
      us += count * (q.p50 + gap_us_);
      errors.Add(kernels[first + k], count * q.p50 * std::log(q.p90 / q.p50));
    }
    return {static_cast<float>(us), static_cast<float>(errors.Combined())};
  }

  const StepModel& model_;
  const Predictor& predictor_;
  const EstimateOptions options_;
  const double gap_us_;
};

namespace {

// The largest relative error over steps of all kinds, drawn between knots.
absl::StatusOr<double> LargestError(const StepTable& table, const StepModel& model, const Predictor& predictor) {
  std::mt19937_64 draw(1);
  const StepTableLimits& limits = table.limits();
  const auto log_uniform = [&](std::int64_t low, std::int64_t high) {
    if (high <= low) return low;
    std::uniform_real_distribution<double> uniform(std::log(static_cast<double>(low)),
                                                   std::log(static_cast<double>(high) + 1));
    return std::clamp(static_cast<std::int64_t>(std::exp(uniform(draw))), low, high);
  };
  double largest = 0;
  for (int i = 0; i < kCheckedSteps; ++i) {
    EngineStep step;
    step.speculative_tokens = limits.speculative_tokens;
    if (i % 3 != 0) {
      const std::int64_t sequences = log_uniform(1, std::min<std::int64_t>(limits.sequences, 256));
      step.decode_context.assign(static_cast<std::size_t>(sequences), log_uniform(1, limits.context));
    }
    const std::int64_t room = limits.tokens - step.decode_tokens();
    if (i % 3 != 1 && room > 0) {
      const std::int64_t tokens = log_uniform(1, room);
      step.prefill.push_back({tokens, log_uniform(1, std::max<std::int64_t>(limits.context - tokens, 1)) - 1});
    }
    if (step.tokens() == 0 || step.tokens() > limits.tokens) continue;
    GPUETA_ASSIGN_OR_RETURN(const GraphEstimate exact, model.Estimate(step, predictor));
    const double context = step.decode_context.empty() ? 0 : static_cast<double>(step.decode_context.front());
    const StepLatency looked_up =
        table.Latency({step.prefill, static_cast<std::int64_t>(step.decode_context.size()), context, context});
    largest = std::max(largest, std::abs(looked_up.p50_us / exact.latency_us.p50 - 1));
  }
  return largest;
}

}  // namespace

absl::StatusOr<StepTable> StepTable::Build(const StepModel& model, const Predictor& predictor,
                                           const StepTableLimits& limits, const EngineOverhead& overhead) {
  const auto within = [](std::int64_t x, std::int64_t most) { return x >= 1 && x <= most; };
  if (!within(limits.tokens, kMostRows) || !within(limits.sequences, kMostRows) ||
      !within(limits.context, kMostContext) || limits.speculative_tokens < 0 || limits.speculative_tokens > 1024) {
    return InvalidArgument(
        "limits: tokens {}, sequences {}, context {}, speculative_tokens {}: from 1 to {}, {}, {}, and 0 to 1024",
        limits.tokens, limits.sequences, limits.context, limits.speculative_tokens, kMostRows, kMostRows, kMostContext);
  }
  auto data = std::make_shared<Data>();
  data->limits = limits;
  StepTableBuilder builder(model, predictor);
  const std::int64_t decode_tokens = limits.sequences * (1 + limits.speculative_tokens);
  GPUETA_ASSIGN_OR_RETURN(data->tokens, builder.Line(Rows::kTokens, limits.tokens));
  GPUETA_ASSIGN_OR_RETURN(data->logits, builder.Line(Rows::kLogits, decode_tokens));
  GPUETA_ASSIGN_OR_RETURN(data->prefill_tokens, builder.Line(Rows::kPrefillTokens, limits.tokens));
  GPUETA_ASSIGN_OR_RETURN(data->decode_tokens, builder.Line(Rows::kDecodeTokens, decode_tokens));
  GPUETA_ASSIGN_OR_RETURN(data->chunk, builder.Plane(Rows::kChunk, limits.tokens, limits.context, 0));
  GPUETA_ASSIGN_OR_RETURN(data->decode,
                          builder.Plane(Rows::kDecode, limits.sequences, limits.context, limits.speculative_tokens));
  for (std::int64_t sequences = 0; sequences <= limits.sequences; ++sequences) {
    data->by_sequences.push_back(StepTable(data, {}).DecodeRowOf(sequences));
  }
  // Checked without overhead, which would make the error look smaller.
  GPUETA_ASSIGN_OR_RETURN(data->checked_error, LargestError(StepTable(data, {}), model, predictor));
  return StepTable(std::move(data), overhead);
}

}  // namespace gpueta
