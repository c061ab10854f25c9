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

// ln(latency) is taken to be normal around ln(p50_us), with the deviation
// `sigma` that puts the p90 where ComposeParts does.
struct StepLatency {
  double p50_us = 0;
  double sigma = 0;
  double Quantile(double quantile) const;
};

// z with P(Z ≤ z) = quantile for a standard normal Z; quantile in (0, 1).
double NormalQuantile(double quantile);

// Immutable; safe to use from any thread; lookups do not allocate.
//
// Kernels that go by tokens are one number for each number of tokens, without
// error. Attention is interpolated in the logarithms of batch or chunk and of
// context, between knots that lie closer where latencies step; checked_error()
// says by how much a step's latency was off between them.
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

 private:
  // A latency and how wide its error is: µs, the latter to be combined as
  // ComposeParts does.
  struct Cost {
    float us = 0;
    float spread_us = 0;
  };
  // ln µs over two logarithmic axes.
  struct Grid {
    std::vector<double> rows;  // ln of the knots
    std::vector<double> cols;
    std::vector<float> ln_us;      // row by row; empty: no such kernel
    std::vector<float> ln_spread;  // of spread_us
    Cost At(double row, double col) const;
  };
  static Cost At(const std::vector<Cost>& line, std::int64_t rows);

  struct Data {
    StepTableLimits limits;
    double checked_error = 0;
    std::vector<Cost> tokens;          // by tokens of the step
    std::vector<Cost> logits;          // by rows of logits
    std::vector<Cost> prefill_tokens;  // kernels of prompts alone
    std::vector<Cost> decode_tokens;   // kernels of decoding sequences alone
    Grid chunk;                        // new tokens × cached tokens + 1
    Grid decode;                       // sequences × context
  };

  StepTable(std::shared_ptr<const Data> data, const EngineOverhead& overhead)
      : data_(std::move(data)), overhead_(overhead) {}
  friend class StepTableBuilder;

  std::shared_ptr<const Data> data_;
  EngineOverhead overhead_;
};

}  // namespace gpueta
