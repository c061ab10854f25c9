// A part of a device as a device of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/spec.h"

namespace gpueta {

// The MIG profiles of a card, "1g.10gb" to "7g.80gb"; empty for cards without
// MIG. By NVIDIA's MIG User Guide (Supported MIG Profiles): a profile of g of 7
// slices (A30 and RTX PRO 6000: of 4) has that share of the SMs, and the share of
// memory in its name, in eighths (quarters), of bandwidth and L2, too.
std::vector<std::string> MigProfilesOf(const DeviceSpec& whole);

// `slice`: a MIG profile of the card, or "sm=SHARE", a share of its SMs above 0
// and at most 1 (MPS, green contexts), which keeps memory, bandwidth and L2 whole:
// what few SMs cannot draw of the bandwidth is not taken off. Named
// "h100-sxm/3g.40gb". INVALID_ARGUMENT listing what the card offers.
absl::StatusOr<DeviceSpec> SliceOf(const DeviceSpec& whole, std::string_view slice);

}  // namespace gpueta
