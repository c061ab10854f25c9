#include "core/wire/prediction_codec.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/predict/link_model.h"
#include "core/wire/enum_codec.h"
#include "core/wire/kernel_codec.h"
#include "core/wire/topology_codec.h"

namespace gpueta::wire {
namespace {

static_assert(static_cast<int>(Provenance::kMeasured) + 1 == v1::PROVENANCE_MEASURED &&
              static_cast<int>(Provenance::kEmulated) + 1 == v1::PROVENANCE_EMULATED);
static_assert(static_cast<int>(Bound::kCompute) + 1 == v1::BOUND_COMPUTE &&
              static_cast<int>(Bound::kCommunication) + 1 == v1::BOUND_COMMUNICATION);
static_assert(static_cast<int>(ExecutionMode::kEager) + 1 == v1::EXECUTION_MODE_EAGER &&
              static_cast<int>(ExecutionMode::kGraph) + 1 == v1::EXECUTION_MODE_GRAPH);

using Column = google::protobuf::RepeatedField<std::uint32_t>;
using ColumnList = std::array<const Column*, kMaxDims>;

// The columns of each message in the order of the op's dims; dims without a
// column stay null.
ColumnList ColumnsOf(const v1::GemmColumns& c) { return {&c.batch(), &c.m(), &c.n(), &c.k()}; }
ColumnList ColumnsOf(const v1::Conv2dColumns& c) {
  return {&c.batch(),    &c.in_channels(), &c.height(),     &c.width(),     &c.out_channels(),
          &c.kernel_h(), &c.kernel_w(),    &c.stride_h(),   &c.stride_w(),  &c.pad_h(),
          &c.pad_w(),    &c.groups(),      &c.dilation_h(), &c.dilation_w()};
}
ColumnList ColumnsOf(const v1::AttentionColumns& c) {
  return {&c.batch(), &c.query_len(), &c.kv_len(), &c.heads(), &c.kv_heads(), &c.head_dim()};
}
ColumnList ColumnsOf(const v1::MoeColumns& c) {
  return {&c.num_tokens(), &c.hidden_size(), &c.inter_size(), &c.top_k(), &c.num_experts(), &c.tp(), &c.ep()};
}
ColumnList ColumnsOf(const v1::VectorColumns& c) { return {&c.rows(), &c.cols(), &c.operands()}; }
ColumnList ColumnsOf(const v1::CollectiveColumns& c) { return {&c.bytes(), &c.ranks()}; }
ColumnList ColumnsOf(const v1::CustomColumns& c) { return {&c.flops(), &c.bytes()}; }

// Position of `causal` among the dims of attention: one value for all rows.
constexpr int kCausalDim = 6;
static_assert(kAttentionDims[kCausalDim].name == "causal");

template <class Message>
void Point(const Message& message, KernelColumns& columns) {
  const ColumnList list = ColumnsOf(message);
  for (int d = 0; d < kMaxDims; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (list[i] == nullptr) continue;
    columns.dims[i] = {list[i]->data(), static_cast<std::size_t>(list[i]->size())};
    columns.rows = std::max(columns.rows, columns.dims[i].size());
  }
}

template <class Message>
void Fill(const KernelColumns& columns, Message& message) {
  const ColumnList list = ColumnsOf(message);
  for (std::size_t d = 0; d < list.size(); ++d) {
    // The fields belong to `message`, which may be changed.
    if (list[d] != nullptr) const_cast<Column*>(list[d])->Add(columns.dims[d].begin(), columns.dims[d].end());
  }
}

absl::Status DecodeAttention(const v1::AttentionColumns& message, KernelColumns& columns) {
  static constexpr std::uint32_t kFlags[] = {0, 1};
  Attention attention;
  if (message.phase() != v1::Attention::PHASE_PREFILL && message.phase() != v1::Attention::PHASE_DECODE) {
    return FieldError("attention.phase", "is not set; give PHASE_PREFILL or PHASE_DECODE");
  }
  attention.phase = static_cast<Attention::Phase>(message.phase() - 1);
  attention.kv_dtype = columns.prototype.dtype;
  if (message.kv_dtype() != v1::DTYPE_UNSPECIFIED) {
    const auto kv_dtype = Decode(message.kv_dtype());
    if (!kv_dtype.has_value()) return FieldError("attention.kv_dtype", "has an unknown value");
    attention.kv_dtype = *kv_dtype;
  }
  columns.prototype.work = attention;
  Point(message, columns);
  columns.dims[kCausalDim] = {&kFlags[message.causal() ? 1 : 0], 1};
  return absl::OkStatus();
}

Quantiles Decode(const v1::Quantiles& message) { return {message.p50(), message.p90(), message.p99()}; }

constexpr std::string_view kOtherEstimator = "other";

std::string_view StaticEstimatorName(const std::string& name) {
  if (name == kLinksEstimator) return kLinksEstimator;
  const auto known = EstimatorNames();
  const auto it = std::find(known.begin(), known.end(), name);
  return it == known.end() ? kOtherEstimator : *it;
}

absl::StatusOr<Provenance> DecodeProvenance(v1::Provenance provenance) {
  if (provenance < v1::PROVENANCE_MEASURED || provenance > v1::PROVENANCE_EMULATED) {
    return FieldError("provenance", "is not a known kind; upgrade this client");
  }
  return static_cast<Provenance>(provenance - 1);
}

absl::StatusOr<Provenance> ParseProvenance(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Provenance::kEmulated); ++i) {
    if (Name(static_cast<Provenance>(i)) == name) return static_cast<Provenance>(i);
  }
  return FieldError("provenance", fmt::format("\"{}\" is not a known kind; upgrade this client", name));
}

// Counts arrive as doubles; what does not fit was never a count.
absl::StatusOr<std::int64_t> DecodeCount(double value, std::string_view field) {
  if (!(value >= 0 && value <= 0x1p62)) return FieldError(field, "is not a count");
  return static_cast<std::int64_t>(value);
}

}  // namespace

absl::Status CheckHostRate(double value, std::string_view field) {
  constexpr double kMost = 1e6;
  constexpr double kLeast = 1e-6;
  if (value == 0 || (value >= kLeast && value <= kMost)) return absl::OkStatus();
  return FieldError(field, fmt::format("is {}, must be between {} and {}, or 0 for unknown", value, kLeast, kMost));
}

void Encode(const Quantiles& quantiles, v1::Quantiles& message) {
  message.set_p50(quantiles.p50);
  message.set_p90(quantiles.p90);
  message.set_p99(quantiles.p99);
}

v1::Provenance Encode(Provenance provenance) { return static_cast<v1::Provenance>(static_cast<int>(provenance) + 1); }
v1::Bound Encode(Bound bound) { return static_cast<v1::Bound>(static_cast<int>(bound) + 1); }

absl::StatusOr<EstimateOptions> Decode(const v1::PredictOptions& message) {
  EstimateOptions options;
  if (message.timing() != v1::TIMING_UNSPECIFIED) {
    options.timing = Decode(message.timing());
    if (!options.timing.has_value()) return FieldError("timing", "has an unknown value");
  }
  switch (message.mode()) {
    case v1::EXECUTION_MODE_UNSPECIFIED:
    case v1::EXECUTION_MODE_EAGER: options.mode = ExecutionMode::kEager; break;
    case v1::EXECUTION_MODE_GRAPH: options.mode = ExecutionMode::kGraph; break;
    default: return FieldError("mode", "has an unknown value");
  }
  if (!message.estimator().empty() && message.estimator() != kDefaultEstimator &&
      std::ranges::find(EstimatorNames(), message.estimator()) == EstimatorNames().end()) {
    return FieldError("estimator", fmt::format("\"{}\" is not one of {}, {}", message.estimator(), kDefaultEstimator,
                                               fmt::join(EstimatorNames(), ", ")));
  }
  if (message.estimator() != kDefaultEstimator) options.estimator = message.estimator();
  options.host = {message.host_issue_us(), message.host_copy_gb_s()};
  GPUETA_RETURN_IF_ERROR(CheckHostRate(options.host.issue_us, "host_issue_us"));
  GPUETA_RETURN_IF_ERROR(CheckHostRate(options.host.copy_gb_s, "host_copy_gb_s"));
  if (message.has_topology()) {
    const auto topology = Decode(message.topology());
    if (!topology.ok()) return InField("topology", topology.status());
    options.topology = *topology;
  }
  return options;
}

v1::PredictOptions Encode(const EstimateOptions& options) {
  v1::PredictOptions message;
  if (options.timing.has_value()) message.set_timing(Encode(*options.timing));
  message.set_mode(static_cast<v1::ExecutionMode>(static_cast<int>(options.mode) + 1));
  message.set_estimator(options.estimator);
  message.set_host_issue_us(options.host.issue_us);
  message.set_host_copy_gb_s(options.host.copy_gb_s);
  if (options.topology.has_value()) *message.mutable_topology() = Encode(*options.topology);
  return message;
}

absl::StatusOr<KernelColumns> Decode(const v1::KernelColumns& message) {
  KernelColumns columns;
  const auto dtype = Decode(message.dtype());
  if (!dtype.has_value()) return FieldError("dtype", "is not set, or unknown; give a type such as DTYPE_BF16");
  columns.prototype.dtype = *dtype;
  columns.prototype.launch.kernel = message.kernel();
  Work& work = columns.prototype.work;
  switch (message.work_case()) {
    case v1::KernelColumns::kGemm: {
      const v1::Gemm::Layer layer = message.gemm().layer();
      if (!v1::Gemm::Layer_IsValid(layer)) return FieldError("gemm.layer", "has an unknown value");
      work = Gemm{.layer =
                      layer == v1::Gemm::LAYER_UNSPECIFIED ? Gemm::Layer::kGemm : static_cast<Gemm::Layer>(layer - 1)};
      Point(message.gemm(), columns);
      return columns;
    }
    case v1::KernelColumns::kConv2D:
      work = Conv2d{};
      Point(message.conv2d(), columns);
      return columns;
    case v1::KernelColumns::kAttention:
      GPUETA_RETURN_IF_ERROR(DecodeAttention(message.attention(), columns));
      return columns;
    case v1::KernelColumns::kMoe:
      work = Moe{.distribution = message.moe().distribution()};
      Point(message.moe(), columns);
      return columns;
    case v1::KernelColumns::kVector:
      work = Vector{.op = message.vector().op()};
      Point(message.vector(), columns);
      return columns;
    case v1::KernelColumns::kCollective:
      work = Collective{.op = message.collective().op(), .backend = message.collective().backend()};
      Point(message.collective(), columns);
      return columns;
    case v1::KernelColumns::kCustom:
      work = Custom{.op = message.custom().op()};
      Point(message.custom(), columns);
      return columns;
    case v1::KernelColumns::WORK_NOT_SET: break;
  }
  return FieldError("work", "is not set; give one of gemm, conv2d, attention, moe, vector, collective and custom");
}

v1::KernelColumns Encode(const KernelColumns& columns) {
  v1::KernelColumns message;
  message.set_dtype(Encode(columns.prototype.dtype));
  message.set_kernel(columns.prototype.launch.kernel);
  struct Visitor {
    const KernelColumns& columns;
    v1::KernelColumns& message;
    void operator()(const Gemm& g) const {
      message.mutable_gemm()->set_layer(static_cast<v1::Gemm::Layer>(static_cast<int>(g.layer) + 1));
      Fill(columns, *message.mutable_gemm());
    }
    void operator()(const Conv2d&) const { Fill(columns, *message.mutable_conv2d()); }
    void operator()(const Attention& a) const {
      v1::AttentionColumns& out = *message.mutable_attention();
      out.set_phase(static_cast<v1::Attention::Phase>(static_cast<int>(a.phase) + 1));
      out.set_kv_dtype(Encode(a.kv_dtype));
      const auto& causal = columns.dims[kCausalDim];
      out.set_causal(!causal.empty() && causal[0] != 0);
      Fill(columns, out);
    }
    void operator()(const Moe& m) const {
      message.mutable_moe()->set_distribution(m.distribution);
      Fill(columns, *message.mutable_moe());
    }
    void operator()(const Vector& v) const {
      message.mutable_vector()->set_op(v.op);
      Fill(columns, *message.mutable_vector());
    }
    void operator()(const Collective& c) const {
      message.mutable_collective()->set_op(c.op);
      message.mutable_collective()->set_backend(c.backend);
      Fill(columns, *message.mutable_collective());
    }
    void operator()(const Custom& c) const {
      message.mutable_custom()->set_op(c.op);
      Fill(columns, *message.mutable_custom());
    }
  };
  std::visit(Visitor{columns, message}, columns.prototype.work);
  return message;
}

void Encode(const Estimate& estimate, v1::KernelPrediction& message) {
  Encode(estimate.latency_us, *message.mutable_latency_us());
  message.set_provenance(Encode(estimate.provenance));
  message.set_correction(estimate.correction);
  message.set_estimator(estimate.estimator.data(), estimate.estimator.size());
  message.set_bound(Encode(estimate.bound));
}

absl::StatusOr<Estimate> Decode(const v1::KernelPrediction& message) {
  Estimate estimate;
  estimate.latency_us = Decode(message.latency_us());
  GPUETA_ASSIGN_OR_RETURN(estimate.provenance, DecodeProvenance(message.provenance()));
  estimate.correction = message.correction();
  estimate.estimator = StaticEstimatorName(message.estimator());
  if (message.bound() < v1::BOUND_COMPUTE || message.bound() > v1::BOUND_COMMUNICATION) {
    return FieldError("bound", "is not a known kind; upgrade this client");
  }
  estimate.bound = static_cast<Bound>(message.bound() - 1);
  return estimate;
}

void Encode(const GraphEstimate& estimate, v1::GraphPrediction& message) {
  Encode(estimate.latency_us, *message.mutable_latency_us());
  for (const auto& [kind, share] : estimate.provenance)
    (*message.mutable_provenance())[std::string(Name(kind))] = share;
  message.set_correction(estimate.correction);
  message.set_estimator(estimate.estimator);
  message.mutable_kernels()->Reserve(static_cast<int>(estimate.parts.size()));
  for (const GraphPart& part : estimate.parts) {
    v1::GraphPrediction::Part& out = *message.add_kernels();
    out.set_name(part.kernel.name);
    out.set_op(std::string(Name(part.kernel.op())));
    out.set_count(part.count);
    Encode(part.estimate.latency_us, *out.mutable_latency_us());
    out.set_bound(Encode(part.estimate.bound));
    out.set_provenance(Encode(part.estimate.provenance));
    out.set_estimator(part.estimate.estimator.data(), part.estimate.estimator.size());
    out.set_correction(part.estimate.correction);
    out.set_hidden(part.hidden);
    *out.mutable_kernel() = Encode(part.kernel);
  }
  message.set_memory_bytes(estimate.memory_bytes);
  message.set_kernels_us(estimate.time.kernels_us);
  message.set_gaps_us(estimate.time.gaps_us);
  message.set_host_us(estimate.time.host_us);
  message.set_start_us(estimate.time.start_us);
  for (const std::string& warning : estimate.warnings) message.add_warnings(warning);
}

absl::StatusOr<GraphEstimate> Decode(const v1::GraphPrediction& message) {
  GraphEstimate estimate;
  estimate.latency_us = Decode(message.latency_us());
  for (const auto& [name, share] : message.provenance()) {
    GPUETA_ASSIGN_OR_RETURN(const Provenance kind, ParseProvenance(name));
    estimate.provenance[kind] = share;
  }
  estimate.correction = message.correction();
  estimate.estimator = message.estimator();
  for (int i = 0; i < message.kernels_size(); ++i) {
    const v1::GraphPrediction::Part& in = message.kernels(i);
    v1::KernelPrediction prediction;
    *prediction.mutable_latency_us() = in.latency_us();
    prediction.set_provenance(in.provenance());
    prediction.set_correction(in.correction() > 0 ? in.correction() : 1);  // older servers say nothing
    prediction.set_estimator(in.estimator());
    prediction.set_bound(in.bound());
    auto one = Decode(prediction);
    if (!one.ok()) return InField(fmt::format("kernels[{}]", i), one.status());
    auto kernel = Decode(in.kernel());
    if (!kernel.ok()) return InField(fmt::format("kernels[{}].kernel", i), kernel.status());
    estimate.parts.push_back({*std::move(kernel), in.count(), *one, in.hidden()});
  }
  estimate.memory_bytes = message.memory_bytes();
  estimate.time = {message.kernels_us(), message.gaps_us(), message.host_us(), message.start_us()};
  estimate.warnings.assign(message.warnings().begin(), message.warnings().end());
  return estimate;
}

void Encode(const Explanation& explanation, v1::ExplainResponse& message) {
  Encode(explanation.estimate, *message.mutable_prediction());
  message.set_flops(static_cast<double>(explanation.counts.flops.value()));
  message.set_bytes(static_cast<double>(explanation.counts.bytes().value()));
  message.set_roofline_us(explanation.roofline_us);
  for (const auto& [name, value] : explanation.terms) {
    v1::ExplainResponse::Term& term = *message.add_terms();
    term.set_name(name);
    term.set_value(value);
  }
  for (const std::string& note : explanation.notes) message.add_notes(note);
}

absl::StatusOr<Explanation> Decode(const v1::ExplainResponse& message) {
  Explanation explanation;
  GPUETA_ASSIGN_OR_RETURN(explanation.estimate, Decode(message.prediction()));
  GPUETA_ASSIGN_OR_RETURN(explanation.counts.flops, DecodeCount(message.flops(), "flops"));
  GPUETA_ASSIGN_OR_RETURN(explanation.counts.bytes_read, DecodeCount(message.bytes(), "bytes"));
  explanation.roofline_us = message.roofline_us();
  for (const auto& term : message.terms()) explanation.terms.emplace_back(term.name(), term.value());
  explanation.notes.assign(message.notes().begin(), message.notes().end());
  return explanation;
}

}  // namespace gpueta::wire
