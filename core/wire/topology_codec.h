// Node topologies as messages.
#pragma once

#include "absl/status/statusor.h"
#include "core/device/topology.h"
#include "gpueta/v1/device.pb.h"

namespace gpueta::wire {

v1::NodeTopology Encode(const NodeTopology& topology);
// A preset's name fills the fields that are not set. INVALID_ARGUMENT naming the
// field, for a name that is no preset and has no figures with the presets there
// are.
absl::StatusOr<NodeTopology> Decode(const v1::NodeTopology& message);

}  // namespace gpueta::wire
