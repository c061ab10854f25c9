// Profiles and specs as messages.
#pragma once

#include "absl/status/statusor.h"
#include "core/device/spec.h"
#include "core/profile/profile.h"
#include "gpueta/v1/device.pb.h"
#include "gpueta/v1/profile.pb.h"

namespace gpueta::wire {

v1::DeviceSpec Encode(const DeviceSpec& spec);
DeviceSpec Decode(const v1::DeviceSpec& message);

v1::TableKey Encode(const TableKey& key);
// INVALID_ARGUMENT naming the field.
absl::StatusOr<TableKey> Decode(const v1::TableKey& message);

v1::Profile Encode(const Profile& profile);
// INVALID_ARGUMENT naming the field. Only the encoding is checked; see
// CheckStructure for the content.
absl::StatusOr<Profile> Decode(const v1::Profile& message);

}  // namespace gpueta::wire
