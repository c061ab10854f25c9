// Step latencies of one model on one device, ready to look up: what plays an
// engine's schedule forward asks thousands of times.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/predict/predictor.h"
#include "core/serving/engine_overhead.h"
#include "core/serving/engine_step.h"
#include "core/serving/step_model.h"
#include "core/serving/step_rows.h"

namespace gpueta {

struct StepTableLimits {
  std::int64_t tokens = 8192;     // of a step
  std::int64_t sequences = 1024;  // that decode
  std::int64_t context = 131072;
  std::int64_t speculative_tokens = 0;  // of each decoding sequence, in every step
};

// A step by what its latency depends on.
struct StepLoad {
  std::span<const PrefillChunk> prefill;
  std::int64_t decode_sequences = 0;
  double mean_context = 0;  // of decoding sequences
  double longest_context = 0;
};

// z with P(Z ≤ z) = quantile for a standard normal Z; quantile in (0, 1).
double NormalQuantile(double quantile);
// A quantile with its z, which takes longer to find than a step's latency.
struct QuantilePoint {
  double quantile = 0.5;
  double z = 0;
  static QuantilePoint At(double quantile) { return {quantile, NormalQuantile(quantile)}; }
};

// ln(latency) is taken to be normal around ln(p50_us), with the deviation
// `sigma` that puts the p90 where ComposeParts does.
struct StepLatency {
  double p50_us = 0;
  double sigma = 0;
  double Quantile(const QuantilePoint& at) const;
  double Quantile(double quantile) const { return Quantile(QuantilePoint::At(quantile)); }
};

// Immutable; safe to use from any thread; lookups do not allocate.
//
// Kernels that go by tokens are one number for each number of tokens. Attention
// is interpolated in the logarithms of batch or chunk and of context, between
// knots that lie closer where latencies step; checked_error() says by how much a
// step's latency was off between them.
class StepTable {
 public:
  // Errors as StepModel::Estimate; INVALID_ARGUMENT for limits below 1 or of
  // more than 2^20 tokens, sequences or 2^26 tokens of context.
  static absl::StatusOr<StepTable> Build(const StepModel& model, const Predictor& predictor,
                                         const StepTableLimits& limits = {}, const EngineOverhead& overhead = {});

  // The same steps with another overhead; what is looked up is shared.
  StepTable WithOverhead(const EngineOverhead& overhead) const;

  const StepTableLimits& limits() const { return data_->limits; }
  // The largest relative error of whole steps found by Build.
  double checked_error() const { return data_->checked_error; }
  std::size_t size_bytes() const;

  // Loads beyond the limits are extrapolated. A load without tokens takes 0.
  StepLatency Latency(const StepLoad& load) const;

  // Steps that only decode, row by row: so many sequences with contexts of this
  // mean and this longest (empty: as the mean). The same as Latency to the bit,
  // which takes means and longest as floats, too. Spans are as long as
  // `sequences`.
  void DecodeLatencies(std::span<const std::int32_t> sequences, std::span<const float> mean_context,
                       std::span<const float> longest_context, std::span<float> p50_us, std::span<float> sigma) const;

 private:
  static StepCost At(const std::vector<StepCost>& line, std::int64_t rows);
  DecodeRow DecodeRowOf(std::int64_t sequences) const;
  DecodeRows decode_rows() const;

  struct Data {
    StepTableLimits limits;
    double checked_error = 0;
    std::vector<StepCost> tokens;          // by tokens of the step
    std::vector<StepCost> logits;          // by rows of logits
    std::vector<StepCost> prefill_tokens;  // kernels of prompts alone
    std::vector<StepCost> decode_tokens;   // kernels of decoding sequences alone
    CostPlane chunk;                       // new tokens × cached tokens + 1
    CostPlane decode;                      // sequences × context
    std::vector<DecodeRow> by_sequences;   // the same and the lines of steps that only decode
  };

  StepTable(std::shared_ptr<const Data> data, const EngineOverhead& overhead)
      : data_(std::move(data)), overhead_(overhead) {}
  friend class StepTableBuilder;

  std::shared_ptr<const Data> data_;
  EngineOverhead overhead_;
};

}  // namespace gpueta
