// A profile: the fitted parameter tables of one device, as plain structs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/spec.h"
#include "core/ops/table_key.h"

namespace gpueta {

// Parameters of the family form for one label; "*" answers for labels that
// were not measured.
struct Variant {
  std::string label;
  std::vector<float> theta;  // in the order of the family's parameter list
  std::int64_t rows = 0;
};

inline constexpr float kMinSpread = 0.25F;
inline constexpr float kMaxSpread = 4.0F;

// The learnt residual in ln(latency): a small network with ReLU over the
// family's features followed by one input for each variant (1 for the kernel's
// own, 0 for the others). Empty weights: no residual.
struct Residual {
  std::vector<float> feature_mean;
  std::vector<float> feature_scale;  // features enter as (x − mean)·scale, clamped to ±4
  std::vector<int> hidden;           // widths of the hidden layers
  std::vector<float> weights;        // layer by layer: rows of weights, then biases
  // How much wider than the table's the interval of a kernel is: linear in the
  // units of the last hidden layer (one weight each, then a constant), clamped
  // to kMinSpread and kMaxSpread. Empty: 1 everywhere.
  std::vector<float> spread_weights;

  friend bool operator==(const Residual&, const Residual&) = default;
};

// One-sided intervals in ln(latency), of kernels of average spread.
struct Interval {
  float p90_ln = 0.3F;
  float p99_ln = 0.8F;
  float measured_p90_ln = 0.05F;  // for kernels that were measured themselves
  float measured_p99_ln = 0.15F;
  float growth_per_octave = 0.15F;  // of both, per octave outside the measured hull

  friend bool operator==(const Interval&, const Interval&) = default;
};

// The kernel-aware form of one kernel configuration:
// t = a + b·w + c·w·q + d·(g/S)·q + e·bytes/BW (design, section 7).
struct KernelConfig {
  std::string kernel;
  int tile_m = 0;
  int tile_n = 0;
  int resident_blocks = 1;  // thread blocks one SM holds
  std::array<float, 5> coefficients{};
  std::int64_t rows = 0;
  float error_ln = 0;  // standard deviation of ln(measured/predicted)
  // What the library takes it to cost beyond its latency, in ln: of configurations that
  // have it, the library is likely to choose the one whose latency times its e^ is least.
  std::optional<float> selection_ln;

  friend bool operator==(const KernelConfig&, const KernelConfig&) = default;
};

// How one device departs from what its pool has in common, in ln(latency):
// compute, memory and fixed cost, then one for each weight of the residual's
// last layer, its constant last.
struct Deviation {
  std::string device;  // slug of one of Profile::pool
  std::vector<float> values;
  std::int64_t rows = 0;
};
inline constexpr std::size_t kScaleDeviations = 3;

// What a table fitted over several devices knows of how they differ. Parameters
// of such a table are those of a device with the reference clock and per-SM
// bandwidth (core/profile/transfer.h); its interval is of a device that has
// nothing to do with any of them.
struct Pooling {
  std::vector<Deviation> deviations;
  std::vector<float> deviation_sd;  // how far a device unlike any other departs, value by value
  float noise_ln = 0.1F;            // what is left over where a device's deviation is known
  float device_ln = 0.3F;           // standard deviation of what devices as a whole are off by
};

// A line of MICRO'23's ladder (core/profile/ladder.h): t = slope·work + constant,
// between devices with a slope linear in 1/bandwidth.
struct LadderLine {
  enum class Work : std::uint8_t { kFlops, kInputBytes, kOutputBytes };
  std::string label;
  Work work = Work::kFlops;
  double slope = 0;                // µs a unit of work
  double slope_per_bandwidth = 0;  // times µs a byte
  double constant_us = 0;
};

// The ladder's first rung: a whole step is a line in its FLOPs, one for steps of
// each kind (core/profile/ladder.h).
struct EndToEnd {
  DType dtype = DType::kFp32;  // of most of the FLOPs
  bool training = false;
  double slope = 0;  // µs a FLOP; ≥ 0, as constant_us
  double constant_us = 0;
  double min_flops = 0;  // hull of the measured steps
  double max_flops = 0;
  double error_ln = 0;  // standard deviation of ln(measured/predicted)
  std::int64_t rows = 0;
};

// What models take beyond their kernels (core/profile/model_residual.h).
struct ModelResidual {
  std::vector<float> points;   // features of one model behind those of another
  std::vector<float> weights;  // of the points; empty: nothing is known
  double alike_variance = 0;
  double alike_length = 1;
  double same_variance = 0;
  double noise_variance = 0;  // of one device's time
};

// What times of whole models taught (core/profile/whole_model.h).
struct WholeModel {
  // One machine's way to depart from what all have in common, in ln: factors of
  // compute and of memory, µs of the host for a launch, µs to copy a byte of input.
  enum Way : std::uint8_t { kCompute, kMemory, kLaunch, kCopy };
  static constexpr std::size_t kDepartures = 4;
  using Departure = std::array<double, kDepartures>;
  struct Machine {
    std::string device;  // slug of one of Profile::pool
    std::string run;     // what else sets its measurements apart: source and options
    Departure departure{};
    std::int64_t rows = 0;
  };

  std::vector<double> theta;      // in the order of WholeModelParams(); empty: nothing was taught
  std::vector<Machine> machines;  // of a pool only
  // Of one device: its departure and how sure that is.
  Departure departure{};
  std::array<Departure, kDepartures> covariance{};
  double noise_ln = 0.15;  // of a model's time where the machine is known, models' own deviations in it
  ModelResidual models;
  std::int64_t rows = 0;

  bool empty() const { return theta.empty(); }
};

// Where a device's table comes from.
struct Relative {
  std::string device;
  float weight = 0;
};

// Fitted parameters of one table.
struct Table {
  TableKey key;
  std::int64_t rows = 0;  // measurements the fit used
  std::vector<Variant> variants;
  Residual residual;
  Interval interval;
  std::vector<double> dim_min;  // hull of the measured shapes, in the op's dim order
  std::vector<double> dim_max;
  std::vector<std::uint32_t> measured_hash;  // sorted; HashOf(kernel)
  std::vector<float> measured_ln;            // ln(measured/family form), same order
  std::vector<KernelConfig> kernel_configs;  // sorted by kernel
  // What answers in place of residual and interval where kernel and grid of a
  // product are known: its inputs are those of residual, then LaunchFeatures
  // (core/ops/launch.h). Empty weights: knowing them does not help.
  Residual launch_residual;
  Interval launch_interval;
  float floor_us = 0;
  float cv_mape = 0;  // as a fraction
  // Of tables over several devices only; otherwise no deviations.
  Pooling pooling;
  std::vector<LadderLine> inter_gpu;  // one a label; "*" first
  // Two more rungs of that ladder, of one device alone (slope_per_bandwidth 0). Kernel-wise: one for each kernel that
  // rows name, else for each label; layer-wise: one a label, in FLOPs. "*" first.
  std::vector<LadderLine> kernel_wise;
  std::vector<LadderLine> layer_wise;
  // Of tables that rest on other devices' measurements more than on the rows.
  bool transferred = false;
  std::vector<Relative> relatives;
};

struct ProfileSource {
  std::string name;
  std::int64_t rows = 0;
};

// Immutable once built.
struct Profile {
  std::string device;  // slug
  DeviceSpec spec;     // the specification the fit used
  std::map<std::string, std::string> labels;
  std::vector<Table> tables;     // sorted by key, keys are unique
  std::vector<DeviceSpec> pool;  // the devices that tables with deviations were fitted to
  std::vector<ProfileSource> sources;
  std::int64_t created_unix_s = 0;
  bool transfer = false;  // pooled over devices: answers for devices without a table of their own
  // Of the machine: host time to issue one plain kernel in eager mode, and how
  // fast inputs are copied to the device; 0: unknown.
  double host_issue_us = 0;
  double host_copy_gb_s = 0;
  WholeModel whole_model;
  std::vector<EndToEnd> end_to_end;  // of one device; sorted by dtype and training, without repetitions

  const Table* Find(const TableKey& key) const;  // nullptr if absent
};

// INVALID_ARGUMENT naming the field for a profile that cannot be evaluated: a
// table with the wrong number of parameters, a value out of bounds or not
// finite, tables out of order.
absl::Status CheckStructure(const Profile& profile);

// Newest schema this build reads and the one it writes.
inline constexpr std::uint32_t kProfileSchemaVersion = 1;

// Largest profile file accepted.
inline constexpr std::size_t kMaxProfileBytes = std::size_t{2} << 20;

// A profile and the identity of its file.
struct LoadedProfile {
  Profile profile;
  std::string id;  // first 16 hex digits of the SHA-256 of the content
  std::size_t size_bytes = 0;
};

// The file's bytes. Deterministic: equal profiles give equal bytes, and so
// equal ids.
std::string SerializeProfile(const Profile& profile);

// INVALID_ARGUMENT for a file that is cut short, corrupt or inconsistent (a
// table with the wrong number of parameters, a value that is not finite);
// FAILED_PRECONDITION for a newer schema version, saying which to upgrade to.
absl::StatusOr<LoadedProfile> ParseProfile(std::string_view bytes);

// As ParseProfile; errors name the path.
absl::StatusOr<LoadedProfile> LoadProfile(const std::string& path);
// Writes to a temporary file beside `path` and renames it: all or nothing.
absl::StatusOr<std::string> SaveProfile(const Profile& profile, const std::string& path);  // returns the id
// The ready profiles: beside the running program where it was installed
// (share/gpueta/profiles), else those of the source tree it was built from.
std::string DefaultProfileDirectory();

// Every *.profile file of a directory, sorted by name.
absl::StatusOr<std::vector<LoadedProfile>> LoadProfileDirectory(const std::string& path);

}  // namespace gpueta
