// From a table fitted over several devices to one of a device nobody measured.
//
// A device's table is that of its pool, moved by what its data sheet says
// (clocks, power, bandwidth of an SM) and by a deviation that is partly shared
// with its relatives: the mean of a Gaussian process over devices, whose
// covariance is their relatedness.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/spec.h"
#include "core/ops/form.h"
#include "core/ops/kernel.h"
#include "core/ops/table_key.h"
#include "core/profile/profile.h"

namespace gpueta {

// What parameters are multiplied by, by what they scale with.
struct DeviceScale {
  double fixed = 1;
  double compute = 1;
  double memory = 1;
  double latency = 1;
  double fill = 1;
};

// What the data sheet says: the share of the peak that is sustained, clocks,
// bandwidth of an SM.
DeviceScale ScaleOf(const DeviceSpec& spec, const TableKey& key);
// `deviation`: ln of compute, memory and fixed cost.
DeviceScale Deviating(DeviceScale scale, std::span<const double> deviation);

double ScaleFactor(const DeviceScale& scale, Scales scales);

// What relatives say of a device before anything is measured on it.
struct Inherited {
  std::vector<double> deviation;  // as Deviation::values
  double variance = 1;            // how little they say: 0 nothing is left open, 1 everything
  std::vector<Relative> relatives;
};

// What a device takes from each of those known, by how much data sheets agree
// (a Gaussian process over devices), and the share of a departure's variance
// that they leave open.
struct WeightedRelatives {
  std::vector<double> weights;
  double variance = 1;
};
WeightedRelatives WeighRelatives(std::span<const DeviceSpec* const> known, const DeviceSpec& device, DType dtype);

// `pool` holds the specs of the table's devices; those in `without` are not
// used. From a table without deviations nothing is inherited.
Inherited InheritedBy(const Table& table, std::span<const DeviceSpec> pool, const DeviceSpec& device,
                      std::span<const std::string> without = {});

// The table of `device` with this deviation: plain parameters, no pooling.
// Parameters are kept within their bounds. `variance` widens the interval.
Table TableOf(const Table& pooled, const DeviceSpec& device, std::span<const double> deviation, double variance);

// All tables of a pooled profile for one device; tables without deviations as
// they are.
Profile TransferTo(const Profile& pooled, const DeviceSpec& device);

// Whether a pooled profile was fitted to the device's own rows, too.
bool HasSeen(const Profile& pooled, const DeviceSpec& device);

// The transfer profile of a directory for a fit of the device: none if there is
// none, if it has seen the device (it would say again what the device's rows said
// before), or if the device is a CPU. Errors of files that cannot be read.
absl::StatusOr<std::optional<Profile>> TransferToLearnFrom(const std::string& directory, const DeviceSpec& device);

}  // namespace gpueta
