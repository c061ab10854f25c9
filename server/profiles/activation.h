// Which profile of a device is active, and which would be next: pure functions
// of what happened before.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace gpueta {

// The activations of one device and node, oldest first.
using History = std::span<const Activation>;

// The id of the active profile; empty: the profile from a file answers, or
// none.
std::string ActiveId(History history);

// The last version at which `id` was active; 0: never.
std::int64_t LastVersionOf(History history, const std::string& id);

// What makes the profile active. `sequence` is the number that the store gives
// next, over all devices.
Activation NextActivation(History history, const ProfileKey& key, std::int64_t sequence, std::int64_t now_unix_s);

// What goes back to the profile that was active before the current one was
// activated; a second rollback goes back one further. FAILED_PRECONDITION if
// there is none; going back past the first activation needs a profile from a
// file (`has_file`).
absl::StatusOr<Activation> NextRollback(History history, const std::string& device, const std::string& node,
                                        bool has_file, std::int64_t sequence, std::int64_t now_unix_s);

// ABORTED if `asked` is given and is not `current`: somebody was faster.
absl::Status CheckEtag(const std::string& asked, const std::string& current);

}  // namespace gpueta
