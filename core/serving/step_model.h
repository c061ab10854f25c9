// An LLM, split over devices, as the kernels of an engine's step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/passes/parallel.h"
#include "core/predict/compose.h"
#include "core/predict/predictor.h"
#include "core/serving/engine_overhead.h"
#include "core/serving/engine_step.h"

namespace gpueta {

// How a model is deployed.
struct Deployment {
  Parallelism ranks;
  // Of weights and products; the config's own. Types of weights (fp8, int8, int4)
  // are of linear layers and experts, as in quantised models.
  std::optional<DType> dtype;
  std::optional<DType> kv_dtype;  // of cached keys and values; the model's own
  // Load of the busiest expert rank over the mean of all, from 1 to the ranks:
  // 1 is the spread over experts that was measured.
  double expert_imbalance = 1;

  friend bool operator==(const Deployment&, const Deployment&) = default;
};

// Kernels of one rank that differ by name alone, and what their dims go by.
struct StepKernel {
  enum class Rows : std::uint8_t {
    kTokens,         // of the whole step: prefill and decode run in one product
    kLogits,         // rows of logits
    kPrefillTokens,  // the kernel runs for prompts alone
    kDecodeTokens,   // the kernel runs for decoding sequences alone
    kChunk,          // one kernel for each group of equal chunks
    kDecode,         // one kernel for all decoding sequences
  };
  Rows rows = Rows::kTokens;
  GraphNode node;  // symbols: batch, seq and kv_len
  std::int64_t count = 1;
};

// The kernel with its symbols bound; a decoding sequence's draft tokens are
// further heads of its attention.
absl::StatusOr<Kernel> BindKernel(const StepKernel& kernel, const SymbolValues& values,
                                  std::int64_t speculative_tokens = 0);

// Immutable; safe to use from any thread.
//
// Assumptions. Decode attention over uneven contexts costs as over as many at
// their mean (each as the layer's window leaves it), and not less than the
// longest alone. A step waits for the busiest expert rank, which has
// expert_imbalance times as many tokens of its own and sends and receives as many
// more. Draft tokens share their sequence's keys: they are further
// heads. Chunks run one attention kernel a group of equal ones. A pipeline's
// latency is that of one step through all stages. Sampling itself is part of
// EngineOverhead.
class StepModel {
 public:
  // Kernels by what they go by. INVALID_ARGUMENT naming the field or option for
  // a config that makes no decoder, or a split that it does not allow.
  static absl::StatusOr<StepModel> Compile(std::string_view config_json, std::string display_name,
                                           const Deployment& deployment = {});

  const std::string& display_name() const { return display_name_; }
  const Deployment& deployment() const { return deployment_; }
  const std::vector<StepKernel>& kernels() const { return kernels_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  std::int64_t parameters() const { return parameters_; }

  // Bytes of weights on one device: parameters over tensor, expert and pipeline
  // ranks; what every rank holds (norms, router) is not divided.
  std::int64_t weight_bytes() const { return weight_bytes_; }
  // Bytes that one token leaves on one device while all its layers still see
  // it: 2·kv_heads·head_dim a layer (MLA: kv_rank + rope_dim), heads over tensor
  // ranks (at least one on each; MLA on all), layers over stages.
  double kv_bytes_per_token() const { return kv_bytes_per_token_; }
  // The same for a whole sequence: layers with a window keep no more than that.
  double KvBytes(std::int64_t context) const;
  // The largest sum of live activations of a prefill step of `tokens`, bytes.
  // An upper bound: engines reuse buffers.
  absl::StatusOr<std::int64_t> ActivationBytes(std::int64_t tokens) const;

  // The step's latency: parts are the kernels by work, to break it down. Of
  // `options` estimator and corrections are read. INVALID_ARGUMENT naming the
  // field for a step without tokens or with lengths below 1; else as
  // Predictor::EstimateKernels.
  absl::StatusOr<GraphEstimate> Estimate(const EngineStep& step, const Predictor& predictor,
                                         const EngineOverhead& overhead = {},
                                         const EstimateOptions& options = {}) const;
  // Of what this takes in memory, about.
  std::size_t size_bytes() const;

 private:
  StepModel() = default;

  std::string display_name_;
  Deployment deployment_;
  std::vector<StepKernel> kernels_;
  std::vector<std::string> warnings_;
  std::int64_t parameters_ = 0;
  std::int64_t weight_bytes_ = 0;
  double kv_bytes_per_token_ = 0;
  Graph prefill_;  // for activations
};

// What an engine takes besides the predicted kernels, from its own records.
struct OverheadFit {
  EngineOverhead overhead;
  // Mean |predicted/observed − 1| of the records without it and with it.
  double mape_before = 0;
  double mape_after = 0;
};
// As FitEngineOverhead over predictions of `model`. INVALID_ARGUMENT naming the
// record and its field.
absl::StatusOr<OverheadFit> FitOverhead(const StepModel& model, const Predictor& predictor,
                                        std::span<const ObservedStep> records);

// Latency by what it is spent on: gemm, prefill attention, decode attention,
// moe, vector, collective; µs of the p50.
std::vector<std::pair<std::string, double>> BreakdownOf(const GraphEstimate& estimate);

}  // namespace gpueta
