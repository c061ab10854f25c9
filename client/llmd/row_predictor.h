// Rows of the llm-d contract answered by gpueta.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/llmd/rows.h"
#include "core/serving/engine_overhead.h"
#include "gpueta/v1/serving.pb.h"

namespace gpueta::llmd {

struct RowAnswer {
  double ttft_ms = 0;
  double tpot_ms = 0;
};

// The pods are engines of one kind. A row becomes a replica that is known by
// its metrics, with a candidate in front of it; its latencies at the quantile
// are the answer. Samples teach what an engine takes for a step besides its
// kernels: the latest 1,024 observed times per token. Safe to use from any
// thread.
class RowPredictor {
 public:
  struct Options {
    v1::EngineKind engine;
    double quantile = 0.9;
    // What the rows do not say of other requests.
    double mean_prompt_tokens = 1024;
    double mean_output_tokens = 256;
  };
  using AskAdmit = std::function<absl::StatusOr<v1::AdmitResponse>(const v1::AdmitRequest&)>;

  RowPredictor(Options options, AskAdmit ask) : options_(std::move(options)), ask_(std::move(ask)) {}

  // One answer a row, or why there is none. An error of the server is the error
  // of all.
  absl::StatusOr<std::vector<absl::StatusOr<RowAnswer>>> Predict(std::span<const Row> rows) const;
  // The error is the server's; nothing is learnt then.
  absl::Status Learn(std::span<const Sample> samples);

  const Options& options() const { return options_; }
  EngineOverhead overhead() const;
  std::size_t samples() const;

 private:
  absl::Status PredictSome(std::span<const Row> rows, const EngineOverhead& overhead, double quantile,
                           std::vector<absl::StatusOr<RowAnswer>>& answers) const;
  absl::StatusOr<std::vector<absl::StatusOr<RowAnswer>>> Predict(std::span<const Row> rows,
                                                                 const EngineOverhead& overhead, double quantile) const;

  const Options options_;
  const AskAdmit ask_;
  mutable std::mutex mutex_;
  std::deque<StepRecord> records_;
  EngineOverhead overhead_;
};

}  // namespace gpueta::llmd
