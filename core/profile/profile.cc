#include "core/profile/profile.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/errors.h"
#include "core/ops/forms.h"
#include "core/ops/launch.h"
#include "core/profile/ladder.h"
#include "core/profile/model_residual.h"
#include "core/profile/whole_model.h"

namespace gpueta {
namespace {

template <class Container>
bool AllFinite(const Container& values) {
  return std::all_of(values.begin(), values.end(), [](auto v) { return std::isfinite(v); });
}

absl::Status CheckResidual(const Residual& residual, std::size_t inputs) {
  if (residual.weights.empty()) return absl::OkStatus();
  if (residual.feature_mean.size() != inputs || residual.feature_scale.size() != inputs) {
    return FieldError("feature_mean", fmt::format("must have {} values", inputs));
  }
  if (residual.hidden.empty() || residual.hidden.size() > 3) return FieldError("hidden", "must have 1 to 3 layers");
  std::size_t expected = 0;
  std::size_t width = inputs;
  for (int hidden : residual.hidden) {
    if (hidden < 1 || hidden > 256) return FieldError("hidden", "a width must be 1 to 256");
    expected += (width + 1) * static_cast<std::size_t>(hidden);
    width = static_cast<std::size_t>(hidden);
  }
  expected += width + 1;
  if (residual.weights.size() != expected) return FieldError("weights", fmt::format("must have {} values", expected));
  if (!residual.spread_weights.empty() && residual.spread_weights.size() != width + 1)
    return FieldError("spread_weights", fmt::format("must have {} values or none", width + 1));
  if (!AllFinite(residual.weights) || !AllFinite(residual.spread_weights) || !AllFinite(residual.feature_mean) ||
      !AllFinite(residual.feature_scale)) {
    return FieldError("weights", "has a value that is not finite");
  }
  return absl::OkStatus();
}

absl::Status CheckInterval(const Interval& i) {
  for (float v : {i.p90_ln, i.p99_ln, i.measured_p90_ln, i.measured_p99_ln, i.growth_per_octave}) {
    if (!std::isfinite(v) || v < 0 || v > 20) return FieldError("interval", "a width must be between 0 and 20");
  }
  if (i.p99_ln < i.p90_ln || i.measured_p99_ln < i.measured_p90_ln)
    return FieldError("interval", "p99 must not be below p90");
  return absl::OkStatus();
}

absl::Status CheckConfig(const KernelConfig& config) {
  if (!AllFinite(config.coefficients) ||
      *std::min_element(config.coefficients.begin(), config.coefficients.end()) < 0) {
    return FieldError("kernel_configs.coefficients",
                      fmt::format("of {} must be finite and not negative", config.kernel));
  }
  if (config.tile_m < 0 || config.tile_n < 0 || config.resident_blocks < 1 || !std::isfinite(config.error_ln)) {
    return FieldError("kernel_configs", fmt::format("{} has a bad tile, resident_blocks or error", config.kernel));
  }
  if (!std::isfinite(config.selection_ln.value_or(0)))
    return FieldError("kernel_configs.selection_ln", fmt::format("of {} must be finite", config.kernel));
  return absl::OkStatus();
}

absl::Status CheckPooling(const Table& table) {
  const Pooling& pooling = table.pooling;
  if (pooling.deviations.empty() && pooling.deviation_sd.empty()) return absl::OkStatus();
  std::size_t expected = kScaleDeviations;
  if (!table.residual.hidden.empty()) expected += static_cast<std::size_t>(table.residual.hidden.back()) + 1;
  if (pooling.deviation_sd.size() != expected || !AllFinite(pooling.deviation_sd))
    return FieldError("pooling.deviation_sd", fmt::format("must have {} finite values", expected));
  for (const Deviation& deviation : pooling.deviations) {
    if (deviation.values.size() != expected || !AllFinite(deviation.values))
      return FieldError("pooling.deviations",
                        fmt::format("of {} must have {} finite values", deviation.device, expected));
  }
  for (const float sd : {pooling.noise_ln, pooling.device_ln}) {
    if (!(sd > 0 && sd < 20)) return FieldError("pooling", "noise_ln and device_ln must be above 0 and below 20");
  }
  return absl::OkStatus();
}

absl::Status CheckLadderLine(const LadderLine& form) {
  if (std::isfinite(form.slope) && std::isfinite(form.slope_per_bandwidth) && std::isfinite(form.constant_us))
    return absl::OkStatus();
  return FieldError("inter_gpu", fmt::format("of \"{}\" has a value that is not finite", form.label));
}

absl::Status CheckTable(const Table& table) {
  const FormInfo form = FormInfoOf(table.key.op, table.key.phase);
  if (table.variants.empty() || table.variants.front().label != "*") {
    return FieldError("variants", "the first one must have the label *");
  }
  std::set<std::string> labels;
  for (const Variant& variant : table.variants) {
    if (!labels.insert(variant.label).second)
      return FieldError("variants", fmt::format("label \"{}\" occurs twice", variant.label));
    if (variant.theta.size() != form.params.size()) {
      return FieldError("variants.theta",
                        fmt::format("must have {} parameters, has {}", form.params.size(), variant.theta.size()));
    }
    for (std::size_t i = 0; i < form.params.size(); ++i) {
      const ParamSpec& param = form.params[i];
      // Bounds hold to rounding of the stored float.
      const double slack = 1e-4 * (std::abs(param.low) + std::abs(param.high));
      if (!(variant.theta[i] >= param.low - slack && variant.theta[i] <= param.high + slack)) {
        return FieldError("variants.theta", fmt::format("{} of \"{}\" is {}, must be between {} and {}", param.name,
                                                        variant.label, variant.theta[i], param.low, param.high));
      }
    }
  }
  const std::size_t inputs = form.features.size() + table.variants.size();
  GPUETA_RETURN_IF_ERROR(InField("residual", CheckResidual(table.residual, inputs)));
  GPUETA_RETURN_IF_ERROR(CheckInterval(table.interval));
  GPUETA_RETURN_IF_ERROR(InField("launch_residual", CheckResidual(table.launch_residual, inputs + kLaunchFeatures)));
  GPUETA_RETURN_IF_ERROR(InField("launch_interval", CheckInterval(table.launch_interval)));
  const auto dims = static_cast<std::size_t>(DimNamesOf(table.key.op).size);
  if (table.dim_min.size() != dims || table.dim_max.size() != dims) {
    return FieldError("dim_min", fmt::format("dim_min and dim_max must have {} values", dims));
  }
  for (std::size_t i = 0; i < dims; ++i) {
    if (!std::isfinite(table.dim_min[i]) || !std::isfinite(table.dim_max[i]) || table.dim_min[i] > table.dim_max[i]) {
      return FieldError("dim_min", fmt::format("the hull of {} is empty", DimNamesOf(table.key.op).names[i]));
    }
  }
  if (table.measured_hash.size() != table.measured_ln.size()) {
    return FieldError("measured_hash", "must be as long as measured_ln");
  }
  if (std::adjacent_find(table.measured_hash.begin(), table.measured_hash.end(), std::greater_equal<>()) !=
      table.measured_hash.end()) {
    return FieldError("measured_hash", "must be sorted, without repetitions");
  }
  if (!AllFinite(table.measured_ln)) return FieldError("measured_ln", "has a value that is not finite");
  for (const KernelConfig& config : table.kernel_configs) GPUETA_RETURN_IF_ERROR(CheckConfig(config));
  GPUETA_RETURN_IF_ERROR(CheckPooling(table));
  for (const auto* forms : {&table.inter_gpu, &table.kernel_wise, &table.layer_wise}) {
    for (const LadderLine& line : *forms) GPUETA_RETURN_IF_ERROR(CheckLadderLine(line));
  }
  if (!std::isfinite(table.floor_us) || table.floor_us < 0)
    return FieldError("floor_us", "must be finite and not negative");
  if (!std::isfinite(table.cv_mape) || table.cv_mape < 0)
    return FieldError("cv_mape", "must be finite and not negative");
  return absl::OkStatus();
}

// Parameters lie in their bounds, machines and covariance are finite.
absl::Status CheckWholeModel(const WholeModel& whole) {
  const auto check = [](std::span<const double> values, std::span<const ParamSpec> params, std::string_view field) {
    if (values.size() != params.size())
      return FieldError(field, fmt::format("must have {} values, has {}", params.size(), values.size()));
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!(values[i] >= params[i].low && values[i] <= params[i].high)) {
        return FieldError(field, fmt::format("{} is {}, must be between {} and {}", params[i].name, values[i],
                                             params[i].low, params[i].high));
      }
    }
    return absl::OkStatus();
  };
  GPUETA_RETURN_IF_ERROR(check(whole.theta, WholeModelParams(), "theta"));
  for (const WholeModel::Machine& machine : whole.machines)
    GPUETA_RETURN_IF_ERROR(check(machine.departure, DepartureParams(), "machines.departure"));
  for (std::size_t v = 0; v < WholeModel::kDepartures; ++v) {
    if (!std::isfinite(whole.departure[v])) return FieldError("departure", "has a value that is not finite");
    for (const double value : whole.covariance[v]) {
      if (!std::isfinite(value)) return FieldError("covariance", "has a value that is not finite");
    }
  }
  GPUETA_RETURN_IF_ERROR(InField("models", CheckStructure(whole.models)));
  constexpr double kMostNoise = 3;
  if (!(whole.noise_ln >= 0 && whole.noise_ln <= kMostNoise))
    return FieldError("noise_ln", fmt::format("must be between 0 and {}", kMostNoise));
  return absl::OkStatus();
}

}  // namespace

const Table* Profile::Find(const TableKey& key) const {
  const auto it =
      std::lower_bound(tables.begin(), tables.end(), key, [](const Table& t, const TableKey& k) { return t.key < k; });
  return it != tables.end() && it->key == key ? &*it : nullptr;
}

absl::Status CheckStructure(const Profile& profile) {
  if (profile.device.empty()) return FieldError("device", "is empty; a profile must name its device");
  for (std::size_t i = 0; i < profile.tables.size(); ++i) {
    const Table& table = profile.tables[i];
    const std::string where = fmt::format("tables[{}] ({})", i, Describe(table.key));
    GPUETA_RETURN_IF_ERROR(InField(where, CheckTable(table)));
    if (i > 0 && !(profile.tables[i - 1].key < table.key))
      return FieldError(where, "tables must be sorted by key, without repetitions");
  }
  if (!std::isfinite(profile.host_issue_us) || profile.host_issue_us < 0) {
    return FieldError("host_issue_us", "must be finite and not negative");
  }
  if (!std::isfinite(profile.host_copy_gb_s) || profile.host_copy_gb_s < 0) {
    return FieldError("host_copy_gb_s", "must be finite and not negative");
  }
  if (!profile.whole_model.empty())
    GPUETA_RETURN_IF_ERROR(InField("whole_model", CheckWholeModel(profile.whole_model)));
  return CheckStructure(profile.end_to_end);
}

}  // namespace gpueta
