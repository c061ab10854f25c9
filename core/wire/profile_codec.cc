#include "core/wire/profile_codec.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/wire/enum_codec.h"

namespace gpueta::wire {
namespace {

template <class Container, class Field>
void Append(const Container& values, Field* field) {
  field->Add(values.begin(), values.end());
}

void Encode(const Residual& residual, v1::Table::Residual* message) {
  Append(residual.feature_mean, message->mutable_feature_mean());
  Append(residual.feature_scale, message->mutable_feature_scale());
  Append(residual.hidden, message->mutable_hidden());
  Append(residual.weights, message->mutable_weights());
  Append(residual.spread_weights, message->mutable_spread_weights());
}

Residual Decode(const v1::Table::Residual& message) {
  return {.feature_mean = {message.feature_mean().begin(), message.feature_mean().end()},
          .feature_scale = {message.feature_scale().begin(), message.feature_scale().end()},
          .hidden = {message.hidden().begin(), message.hidden().end()},
          .weights = {message.weights().begin(), message.weights().end()},
          .spread_weights = {message.spread_weights().begin(), message.spread_weights().end()}};
}

void Encode(const Interval& interval, v1::Table::Interval* message) {
  message->set_p90_ln(interval.p90_ln);
  message->set_p99_ln(interval.p99_ln);
  message->set_measured_p90_ln(interval.measured_p90_ln);
  message->set_measured_p99_ln(interval.measured_p99_ln);
  message->set_growth_per_octave(interval.growth_per_octave);
}

Interval Decode(const v1::Table::Interval& message) {
  return {message.p90_ln(), message.p99_ln(), message.measured_p90_ln(), message.measured_p99_ln(),
          message.growth_per_octave()};
}

v1::Table::InterGpu::Work EncodeWork(LadderLine::Work work) {
  switch (work) {
    case LadderLine::Work::kFlops: return v1::Table::InterGpu::WORK_FLOPS;
    case LadderLine::Work::kInputBytes: return v1::Table::InterGpu::WORK_INPUT_BYTES;
    case LadderLine::Work::kOutputBytes: return v1::Table::InterGpu::WORK_OUTPUT_BYTES;
  }
  return v1::Table::InterGpu::WORK_UNSPECIFIED;
}

// What tables know of other devices.
using FormMessages = google::protobuf::RepeatedPtrField<v1::Table::InterGpu>;

void EncodeForms(const std::vector<LadderLine>& forms, FormMessages* messages) {
  for (const LadderLine& form : forms) {
    v1::Table::InterGpu* out = messages->Add();
    out->set_label(form.label);
    out->set_work(EncodeWork(form.work));
    out->set_slope(form.slope);
    out->set_slope_per_bandwidth(form.slope_per_bandwidth);
    out->set_constant_us(form.constant_us);
  }
}

void EncodeTransfer(const Table& table, v1::Table* message) {
  if (!table.pooling.deviations.empty()) {
    v1::Table::Pooling* pooling = message->mutable_pooling();
    for (const Deviation& deviation : table.pooling.deviations) {
      v1::Table::Deviation* out = pooling->add_deviations();
      out->set_device(deviation.device);
      Append(deviation.values, out->mutable_values());
      out->set_rows(deviation.rows);
    }
    Append(table.pooling.deviation_sd, pooling->mutable_deviation_sd());
    pooling->set_noise_ln(table.pooling.noise_ln);
    pooling->set_device_ln(table.pooling.device_ln);
  }
  EncodeForms(table.inter_gpu, message->mutable_inter_gpu());
  EncodeForms(table.kernel_wise, message->mutable_kernel_wise());
  EncodeForms(table.layer_wise, message->mutable_layer_wise());
  message->set_transferred(table.transferred);
  for (const Relative& relative : table.relatives) {
    v1::Table::Relative* out = message->add_relatives();
    out->set_device(relative.device);
    out->set_weight(relative.weight);
  }
}

absl::StatusOr<LadderLine::Work> DecodeWork(v1::Table::InterGpu::Work work) {
  switch (work) {
    case v1::Table::InterGpu::WORK_FLOPS: return LadderLine::Work::kFlops;
    case v1::Table::InterGpu::WORK_INPUT_BYTES: return LadderLine::Work::kInputBytes;
    case v1::Table::InterGpu::WORK_OUTPUT_BYTES: return LadderLine::Work::kOutputBytes;
    default: return FieldError("inter_gpu.work", "is not a known measure of work");
  }
}

absl::StatusOr<std::vector<LadderLine>> DecodeForms(const FormMessages& messages) {
  std::vector<LadderLine> forms;
  for (const v1::Table::InterGpu& form : messages) {
    GPUETA_ASSIGN_OR_RETURN(const LadderLine::Work work, DecodeWork(form.work()));
    forms.push_back({form.label(), work, form.slope(), form.slope_per_bandwidth(), form.constant_us()});
  }
  return forms;
}

absl::Status DecodeTransfer(const v1::Table& message, Table& table) {
  const v1::Table::Pooling& pooling = message.pooling();
  for (const v1::Table::Deviation& deviation : pooling.deviations()) {
    table.pooling.deviations.push_back(
        {deviation.device(), {deviation.values().begin(), deviation.values().end()}, deviation.rows()});
  }
  if (message.has_pooling()) {
    table.pooling.deviation_sd.assign(pooling.deviation_sd().begin(), pooling.deviation_sd().end());
    table.pooling.noise_ln = pooling.noise_ln();
    table.pooling.device_ln = pooling.device_ln();
  }
  GPUETA_ASSIGN_OR_RETURN(table.inter_gpu, DecodeForms(message.inter_gpu()));
  GPUETA_ASSIGN_OR_RETURN(table.kernel_wise, DecodeForms(message.kernel_wise()));
  GPUETA_ASSIGN_OR_RETURN(table.layer_wise, DecodeForms(message.layer_wise()));
  table.transferred = message.transferred();
  for (const v1::Table::Relative& relative : message.relatives())
    table.relatives.push_back({relative.device(), relative.weight()});
  return absl::OkStatus();
}

void EncodeTable(const Table& table, v1::Table* message) {
  *message->mutable_key() = wire::Encode(table.key);
  message->set_rows(table.rows);
  for (const Variant& variant : table.variants) {
    v1::Table::Variant* out = message->add_variants();
    out->set_label(variant.label);
    Append(variant.theta, out->mutable_theta());
    out->set_rows(variant.rows);
  }
  if (!table.residual.weights.empty()) Encode(table.residual, message->mutable_residual());
  Encode(table.interval, message->mutable_interval());
  Append(table.dim_min, message->mutable_dim_min());
  Append(table.dim_max, message->mutable_dim_max());
  Append(table.measured_hash, message->mutable_measured_hash());
  Append(table.measured_ln, message->mutable_measured_ln());
  for (const KernelConfig& config : table.kernel_configs) {
    v1::Table::KernelConfig* out = message->add_kernel_configs();
    out->set_kernel(config.kernel);
    out->set_tile_m(config.tile_m);
    out->set_tile_n(config.tile_n);
    out->set_resident_blocks(config.resident_blocks);
    Append(config.coefficients, out->mutable_coefficients());
    out->set_rows(config.rows);
    out->set_error_ln(config.error_ln);
    if (config.selection_ln.has_value()) out->set_selection_ln(*config.selection_ln);
  }
  message->set_floor_us(table.floor_us);
  message->set_cv_mape(table.cv_mape);
  if (!table.launch_residual.weights.empty()) {
    Encode(table.launch_residual, message->mutable_launch_residual());
    Encode(table.launch_interval, message->mutable_launch_interval());
  }
  EncodeTransfer(table, message);
}

absl::StatusOr<Table> DecodeTable(const v1::Table& message) {
  Table table;
  GPUETA_ASSIGN_OR_RETURN(table.key, wire::Decode(message.key()));
  table.rows = message.rows();
  for (const v1::Table::Variant& variant : message.variants()) {
    table.variants.push_back({variant.label(), {variant.theta().begin(), variant.theta().end()}, variant.rows()});
  }
  table.residual = Decode(message.residual());
  table.interval = Decode(message.interval());
  table.launch_residual = Decode(message.launch_residual());
  if (message.has_launch_interval()) table.launch_interval = Decode(message.launch_interval());
  table.dim_min.assign(message.dim_min().begin(), message.dim_min().end());
  table.dim_max.assign(message.dim_max().begin(), message.dim_max().end());
  table.measured_hash.assign(message.measured_hash().begin(), message.measured_hash().end());
  table.measured_ln.assign(message.measured_ln().begin(), message.measured_ln().end());
  for (const v1::Table::KernelConfig& config : message.kernel_configs()) {
    KernelConfig out;
    out.kernel = config.kernel();
    out.tile_m = config.tile_m();
    out.tile_n = config.tile_n();
    out.resident_blocks = config.resident_blocks();
    if (config.coefficients_size() != static_cast<int>(out.coefficients.size())) {
      return FieldError("kernel_configs.coefficients", fmt::format("must have {} values", out.coefficients.size()));
    }
    std::copy(config.coefficients().begin(), config.coefficients().end(), out.coefficients.begin());
    out.rows = config.rows();
    out.error_ln = config.error_ln();
    if (config.has_selection_ln()) out.selection_ln = config.selection_ln();
    table.kernel_configs.push_back(std::move(out));
  }
  table.floor_us = message.floor_us();
  table.cv_mape = message.cv_mape();
  GPUETA_RETURN_IF_ERROR(DecodeTransfer(message, table));
  return table;
}

}  // namespace

v1::DeviceSpec Encode(const DeviceSpec& spec) {
  v1::DeviceSpec message;
  message.set_slug(spec.slug);
  message.set_name(spec.name);
  message.set_architecture(spec.architecture);
  message.set_segment(spec.segment);
  message.set_compute_capability(spec.compute_capability);
  message.set_sm_count(spec.sm_count);
  message.set_base_clock_mhz(spec.base_clock_mhz);
  message.set_boost_clock_mhz(spec.boost_clock_mhz);
  message.set_memory_type(spec.memory_type);
  message.set_mem_bandwidth_gb_s(spec.mem_bandwidth_gb_s);
  message.set_memory_gb(spec.memory_gb);
  message.set_l2_mb(spec.l2_mb);
  message.set_fp64_tflops(spec.fp64_tflops);
  message.set_fp32_tflops(spec.fp32_tflops);
  message.set_tf32_tensor_tflops(spec.tf32_tensor_tflops);
  message.set_fp16_vector_tflops(spec.fp16_vector_tflops);
  message.set_fp16_tensor_tflops(spec.fp16_tensor_tflops);
  message.set_bf16_tensor_tflops(spec.bf16_tensor_tflops);
  message.set_fp8_tensor_tflops(spec.fp8_tensor_tflops);
  message.set_int8_tensor_tops(spec.int8_tensor_tops);
  message.set_tdp_w(spec.tdp_w);
  message.set_nvlink_gb_s(spec.nvlink_gb_s);
  message.set_pcie_gb_s(spec.pcie_gb_s);
  return message;
}

DeviceSpec Decode(const v1::DeviceSpec& message) {
  return {.slug = message.slug(),
          .name = message.name(),
          .architecture = message.architecture(),
          .segment = message.segment(),
          .compute_capability = message.compute_capability(),
          .sm_count = message.sm_count(),
          .base_clock_mhz = message.base_clock_mhz(),
          .boost_clock_mhz = message.boost_clock_mhz(),
          .memory_type = message.memory_type(),
          .mem_bandwidth_gb_s = message.mem_bandwidth_gb_s(),
          .memory_gb = message.memory_gb(),
          .l2_mb = message.l2_mb(),
          .fp64_tflops = message.fp64_tflops(),
          .fp32_tflops = message.fp32_tflops(),
          .tf32_tensor_tflops = message.tf32_tensor_tflops(),
          .fp16_vector_tflops = message.fp16_vector_tflops(),
          .fp16_tensor_tflops = message.fp16_tensor_tflops(),
          .bf16_tensor_tflops = message.bf16_tensor_tflops(),
          .fp8_tensor_tflops = message.fp8_tensor_tflops(),
          .int8_tensor_tops = message.int8_tensor_tops(),
          .tdp_w = message.tdp_w(),
          .nvlink_gb_s = message.nvlink_gb_s(),
          .pcie_gb_s = message.pcie_gb_s()};
}

v1::TableKey Encode(const TableKey& key) {
  v1::TableKey message;
  message.set_op(std::string(Name(key.op)));
  message.set_dtype(Encode(key.dtype));
  message.set_timing(Encode(key.timing));
  message.set_backend(key.backend);
  if (key.op == Op::kAttention) {
    message.set_phase(std::string(Name(key.phase)));
    message.set_kv_dtype(Encode(key.kv_dtype));
  }
  return message;
}

absl::StatusOr<TableKey> Decode(const v1::TableKey& message) {
  TableKey key;
  const auto op = ParseOp(message.op());
  if (!op.has_value()) return FieldError("key.op", fmt::format("unknown op \"{}\"", message.op()));
  key.op = *op;
  const auto dtype = Decode(message.dtype());
  if (!dtype.has_value()) return FieldError("key.dtype", "is not a known dtype");
  key.dtype = *dtype;
  const auto timing = Decode(message.timing());
  if (!timing.has_value()) return FieldError("key.timing", "is not a known timing");
  key.timing = *timing;
  key.backend = message.backend();
  if (key.op == Op::kAttention) {
    const auto phase = ParseAttentionPhase(message.phase());
    if (!phase.has_value()) return FieldError("key.phase", fmt::format("unknown phase \"{}\"", message.phase()));
    key.phase = *phase;
    const auto kv_dtype = Decode(message.kv_dtype());
    if (!kv_dtype.has_value()) return FieldError("key.kv_dtype", "is not a known dtype");
    key.kv_dtype = *kv_dtype;
  }
  return key;
}

namespace {

void EncodeWholeModel(const WholeModel& whole, v1::Profile::WholeModel& message) {
  message.mutable_theta()->Assign(whole.theta.begin(), whole.theta.end());
  for (const WholeModel::Machine& machine : whole.machines) {
    v1::Profile::WholeModel::Machine& encoded = *message.add_machines();
    encoded.set_device(machine.device);
    encoded.set_run(machine.run);
    encoded.mutable_departure()->Assign(machine.departure.begin(), machine.departure.end());
    encoded.set_rows(machine.rows);
  }
  message.mutable_departure()->Assign(whole.departure.begin(), whole.departure.end());
  for (const WholeModel::Departure& row : whole.covariance) message.mutable_covariance()->Add(row.begin(), row.end());
  message.set_noise_ln(whole.noise_ln);
  message.set_rows(whole.rows);
  if (whole.models.weights.empty()) return;
  v1::Profile::WholeModel::Models& models = *message.mutable_models();
  models.mutable_points()->Assign(whole.models.points.begin(), whole.models.points.end());
  models.mutable_weights()->Assign(whole.models.weights.begin(), whole.models.weights.end());
  models.set_alike_variance(whole.models.alike_variance);
  models.set_alike_length(whole.models.alike_length);
  models.set_same_variance(whole.models.same_variance);
  models.set_noise_variance(whole.models.noise_variance);
}

absl::Status CopyExactly(const google::protobuf::RepeatedField<double>& from, std::string_view field,
                         std::span<double> to) {
  if (static_cast<std::size_t>(from.size()) != to.size())
    return FieldError(field, fmt::format("must have {} values, has {}", to.size(), from.size()));
  std::copy(from.begin(), from.end(), to.begin());
  return absl::OkStatus();
}

absl::StatusOr<WholeModel> DecodeWholeModel(const v1::Profile::WholeModel& message) {
  WholeModel whole;
  whole.theta.assign(message.theta().begin(), message.theta().end());
  for (int i = 0; i < message.machines_size(); ++i) {
    const v1::Profile::WholeModel::Machine& encoded = message.machines(i);
    WholeModel::Machine& machine =
        whole.machines.emplace_back(WholeModel::Machine{encoded.device(), encoded.run(), {}, encoded.rows()});
    GPUETA_RETURN_IF_ERROR(
        CopyExactly(encoded.departure(), fmt::format("machines[{}].departure", i), machine.departure));
  }
  GPUETA_RETURN_IF_ERROR(CopyExactly(message.departure(), "departure", whole.departure));
  std::array<double, WholeModel::kDepartures * WholeModel::kDepartures> flat{};
  GPUETA_RETURN_IF_ERROR(CopyExactly(message.covariance(), "covariance", flat));
  for (std::size_t i = 0; i < flat.size(); ++i)
    whole.covariance[i / WholeModel::kDepartures][i % WholeModel::kDepartures] = flat[i];
  whole.noise_ln = message.noise_ln();
  whole.rows = message.rows();
  if (message.has_models()) {
    const v1::Profile::WholeModel::Models& models = message.models();
    whole.models = {.points = {models.points().begin(), models.points().end()},
                    .weights = {models.weights().begin(), models.weights().end()},
                    .alike_variance = models.alike_variance(),
                    .alike_length = models.alike_length(),
                    .same_variance = models.same_variance(),
                    .noise_variance = models.noise_variance()};
  }
  return whole;
}

void EncodeEndToEnd(const EndToEnd& line, v1::Profile::EndToEnd& message) {
  message.set_dtype(wire::Encode(line.dtype));
  message.set_training(line.training);
  message.set_slope(line.slope);
  message.set_constant_us(line.constant_us);
  message.set_min_flops(line.min_flops);
  message.set_max_flops(line.max_flops);
  message.set_error_ln(line.error_ln);
  message.set_rows(line.rows);
}

absl::StatusOr<EndToEnd> DecodeEndToEnd(const v1::Profile::EndToEnd& message) {
  GPUETA_ASSIGN_OR_RETURN(const DType dtype, DecodeDType(message.dtype(), "dtype"));
  return EndToEnd{.dtype = dtype,
                  .training = message.training(),
                  .slope = message.slope(),
                  .constant_us = message.constant_us(),
                  .min_flops = message.min_flops(),
                  .max_flops = message.max_flops(),
                  .error_ln = message.error_ln(),
                  .rows = message.rows()};
}

}  // namespace

v1::Profile Encode(const Profile& profile) {
  v1::Profile message;
  message.set_device(profile.device);
  *message.mutable_spec() = Encode(profile.spec);
  for (const auto& [key, value] : profile.labels) (*message.mutable_labels())[key] = value;
  for (const Table& table : profile.tables) EncodeTable(table, message.add_tables());
  for (const ProfileSource& source : profile.sources) {
    v1::Profile::Source* out = message.add_sources();
    out->set_name(source.name);
    out->set_rows(source.rows);
  }
  message.set_created_unix_s(profile.created_unix_s);
  message.set_transfer(profile.transfer);
  message.set_host_issue_us(profile.host_issue_us);
  message.set_host_copy_gb_s(profile.host_copy_gb_s);
  if (!profile.whole_model.empty()) EncodeWholeModel(profile.whole_model, *message.mutable_whole_model());
  for (const EndToEnd& line : profile.end_to_end) EncodeEndToEnd(line, *message.add_end_to_end());
  for (const DeviceSpec& spec : profile.pool) *message.add_pool() = Encode(spec);
  return message;
}

absl::StatusOr<Profile> Decode(const v1::Profile& message) {
  Profile profile;
  profile.device = message.device();
  profile.spec = Decode(message.spec());
  profile.labels.insert(message.labels().begin(), message.labels().end());
  for (int i = 0; i < message.tables_size(); ++i) {
    absl::StatusOr<Table> table = DecodeTable(message.tables(i));
    if (!table.ok()) return InField(fmt::format("tables[{}]", i), table.status());
    profile.tables.push_back(*std::move(table));
  }
  for (const v1::Profile::Source& source : message.sources()) profile.sources.push_back({source.name(), source.rows()});
  profile.created_unix_s = message.created_unix_s();
  profile.transfer = message.transfer();
  profile.host_issue_us = message.host_issue_us();
  profile.host_copy_gb_s = message.host_copy_gb_s();
  if (message.has_whole_model()) {
    absl::StatusOr<WholeModel> whole = DecodeWholeModel(message.whole_model());
    if (!whole.ok()) return InField("whole_model", whole.status());
    profile.whole_model = *std::move(whole);
  }
  for (int i = 0; i < message.end_to_end_size(); ++i) {
    absl::StatusOr<EndToEnd> line = DecodeEndToEnd(message.end_to_end(i));
    if (!line.ok()) return InField(fmt::format("end_to_end[{}]", i), line.status());
    profile.end_to_end.push_back(*line);
  }
  for (const v1::DeviceSpec& spec : message.pool()) profile.pool.push_back(Decode(spec));
  return profile;
}

}  // namespace gpueta::wire
