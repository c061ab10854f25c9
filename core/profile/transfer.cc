#include "core/profile/transfer.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/device/relatedness.h"
#include "core/ops/forms.h"
#include "core/profile/whole_model.h"

namespace gpueta {
namespace {

// What parameters of pooled tables are of.
constexpr double kReferenceClockMhz = 1700;
constexpr double kReferenceGbPerSm = 18;

// Measurements of a relative say this much less than they would if devices
// followed their data sheets exactly.
constexpr double kUnrelated = 0.1;
// A relative below this weight is not named.
constexpr float kLeastWeight = 0.01F;

// Solves a·x = b for a symmetric positive definite a of few rows.
std::vector<double> SolveSmall(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double factor = a[j][i] / a[i][i];
      for (std::size_t k = i; k < n; ++k) a[j][k] -= factor * a[i][k];
      b[j] -= factor * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

const DeviceSpec* FindSpec(std::span<const DeviceSpec> pool, const std::string& slug) {
  const auto it = std::find_if(pool.begin(), pool.end(), [&](const DeviceSpec& spec) { return spec.slug == slug; });
  return it == pool.end() ? nullptr : &*it;
}

float Widened(float width, double by) { return static_cast<float>(std::min(20.0, width * by)); }

}  // namespace

DeviceScale ScaleOf(const DeviceSpec& sheet, const TableKey& key) {
  const DeviceSpec spec = WithInferredCells(sheet);
  DeviceScale scale;
  scale.compute = 1 / SustainedShare(spec, key.dtype);
  scale.latency = kReferenceClockMhz / spec.boost_clock_mhz;
  // An eager call's floor is the host's; a kernel's start and drain are half
  // of the device's clock, half of its memory's.
  scale.fixed = key.timing == Timing::kEager ? 1 : std::sqrt(scale.latency);
  scale.fill = spec.mem_bandwidth_gb_s / static_cast<double>(spec.sm_count) / kReferenceGbPerSm;
  return scale;
}

DeviceScale Deviating(DeviceScale scale, std::span<const double> deviation) {
  scale.compute *= std::exp(deviation[0]);
  scale.memory *= std::exp(deviation[1]);
  scale.fixed *= std::exp(deviation[2]);
  return scale;
}

double ScaleFactor(const DeviceScale& scale, Scales scales) {
  switch (scales) {
    case Scales::kShape: return 1;
    case Scales::kFixed: return scale.fixed;
    case Scales::kCompute: return scale.compute;
    case Scales::kMemory: return scale.memory;
    case Scales::kLatency: return scale.latency;
    case Scales::kFill: return scale.fill;
  }
  return 1;
}

WeightedRelatives WeighRelatives(std::span<const DeviceSpec* const> known, const DeviceSpec& device, DType dtype) {
  std::vector<std::vector<double>> covariance(known.size(), std::vector<double>(known.size()));
  std::vector<double> with_device(known.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    for (std::size_t j = 0; j < known.size(); ++j)
      covariance[i][j] = Relatedness(*known[i], *known[j], dtype) + (i == j ? kUnrelated : 0);
    with_device[i] = Relatedness(*known[i], device, dtype);
  }
  WeightedRelatives out;
  out.weights = SolveSmall(covariance, with_device);
  double explained = 0;
  for (std::size_t i = 0; i < known.size(); ++i) explained += out.weights[i] * with_device[i];
  out.variance = std::clamp(1 - explained, kUnrelated, 1.0);
  return out;
}

Inherited InheritedBy(const Table& table, std::span<const DeviceSpec> pool, const DeviceSpec& device,
                      std::span<const std::string> without) {
  Inherited out;
  out.deviation.assign(table.pooling.deviation_sd.size(), 0);
  std::vector<const Deviation*> known;
  std::vector<const DeviceSpec*> specs;
  for (const Deviation& deviation : table.pooling.deviations) {
    const DeviceSpec* spec = FindSpec(pool, deviation.device);
    if (spec == nullptr || std::find(without.begin(), without.end(), deviation.device) != without.end()) continue;
    known.push_back(&deviation);
    specs.push_back(spec);
  }
  if (known.empty()) return out;
  const WeightedRelatives weighted = WeighRelatives(specs, device, table.key.dtype);
  for (std::size_t i = 0; i < known.size(); ++i) {
    const double weight = weighted.weights[i];
    for (std::size_t v = 0; v < out.deviation.size(); ++v) out.deviation[v] += weight * known[i]->values[v];
    if (std::abs(weight) >= kLeastWeight) out.relatives.push_back({known[i]->device, static_cast<float>(weight)});
  }
  out.variance = weighted.variance;
  std::stable_sort(out.relatives.begin(), out.relatives.end(),
                   [](const Relative& a, const Relative& b) { return a.weight > b.weight; });
  return out;
}

Table TableOf(const Table& pooled, const DeviceSpec& device, std::span<const double> deviation, double variance) {
  Table table = pooled;
  const DeviceScale scale = Deviating(ScaleOf(device, table.key), deviation);
  const std::span<const ParamSpec> params = FormInfoOf(table.key.op, table.key.phase).params;
  for (Variant& variant : table.variants) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      variant.theta[i] = static_cast<float>(
          std::clamp(variant.theta[i] * ScaleFactor(scale, params[i].scales), params[i].low, params[i].high));
    }
  }
  if (!table.residual.weights.empty()) {
    const std::size_t last = deviation.size() - kScaleDeviations;
    float* weights = table.residual.weights.data() + table.residual.weights.size() - last;
    for (std::size_t i = 0; i < last; ++i) weights[i] += static_cast<float>(deviation[kScaleDeviations + i]);
  }
  const Pooling& pooling = pooled.pooling;
  const double noise = pooling.noise_ln, whole = pooling.device_ln;
  const double narrower = std::sqrt((noise * noise + variance * whole * whole) / (noise * noise + whole * whole));
  table.interval.p90_ln = Widened(table.interval.p90_ln, narrower);
  table.interval.p99_ln = Widened(table.interval.p99_ln, narrower);
  table.interval.measured_p90_ln = std::min(table.interval.measured_p90_ln, table.interval.p90_ln);
  table.interval.measured_p99_ln = std::min(table.interval.measured_p99_ln, table.interval.p99_ln);
  table.cv_mape *= static_cast<float>(narrower);
  table.pooling = {};
  table.inter_gpu = pooled.inter_gpu;
  table.transferred = true;
  return table;
}

Profile TransferTo(const Profile& pooled, const DeviceSpec& device) {
  Profile out = pooled;
  out.spec = device;
  for (Table& table : out.tables) {
    if (table.pooling.deviations.empty()) continue;
    Inherited expected = InheritedBy(table, pooled.pool, device);
    table = TableOf(table, device, expected.deviation, expected.variance);
    table.relatives = std::move(expected.relatives);
  }
  if (!pooled.whole_model.empty()) out.whole_model = WholeModelFor(pooled.whole_model, pooled.pool, device);
  return out;
}

bool HasSeen(const Profile& pooled, const DeviceSpec& device) {
  return std::any_of(pooled.pool.begin(), pooled.pool.end(),
                     [&](const DeviceSpec& seen) { return seen.slug == device.slug; });
}

absl::StatusOr<std::optional<Profile>> TransferToLearnFrom(const std::string& directory, const DeviceSpec& device) {
  if (IsCpu(device)) return std::nullopt;
  absl::StatusOr<std::vector<LoadedProfile>> profiles = LoadProfileDirectory(directory);
  if (absl::IsNotFound(profiles.status())) return std::nullopt;
  GPUETA_RETURN_IF_ERROR(profiles.status());
  for (LoadedProfile& loaded : *profiles) {
    if (!loaded.profile.transfer) continue;
    if (HasSeen(loaded.profile, device)) return std::nullopt;
    return std::move(loaded.profile);
  }
  return std::nullopt;
}

}  // namespace gpueta
