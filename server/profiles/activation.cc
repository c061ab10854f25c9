#include "server/profiles/activation.h"

#include <algorithm>

#include "core/base/errors.h"

namespace gpueta {
namespace {

const Activation* Current(History history) { return history.empty() ? nullptr : &history.back(); }

std::int64_t NextVersion(History history) { return history.empty() ? 1 : history.back().version + 1; }

}  // namespace

std::string ActiveId(History history) { return history.empty() ? "" : history.back().profile_id; }

std::int64_t LastVersionOf(History history, const std::string& id) {
  const auto it =
      std::find_if(history.rbegin(), history.rend(), [&id](const Activation& a) { return a.profile_id == id; });
  return it == history.rend() ? 0 : it->version;
}

Activation NextActivation(History history, const ProfileKey& key, std::int64_t sequence, std::int64_t now_unix_s) {
  const Activation* current = Current(history);
  return {.sequence = sequence,
          .device = key.device,
          .node = key.node,
          .profile_id = key.id,
          .version = NextVersion(history),
          .previous = current == nullptr ? 0 : current->sequence,
          .at_unix_s = now_unix_s};
}

absl::StatusOr<Activation> NextRollback(History history, const std::string& device, const std::string& node,
                                        bool has_file, std::int64_t sequence, std::int64_t now_unix_s) {
  const Activation* current = Current(history);
  if (current == nullptr || current->profile_id.empty()) {
    return FailedPrecondition("no profile of {} was activated; there is nothing to roll back", device);
  }
  const auto target = std::find_if(history.begin(), history.end(),
                                   [current](const Activation& a) { return a.sequence == current->previous; });
  if (target == history.end() && !has_file) {
    return FailedPrecondition("{} is the first profile of {}; there is none to roll back to", current->profile_id,
                              device);
  }
  return Activation{.sequence = sequence,
                    .device = device,
                    .node = node,
                    .profile_id = target == history.end() ? "" : target->profile_id,
                    .version = NextVersion(history),
                    .previous = target == history.end() ? 0 : target->previous,
                    .at_unix_s = now_unix_s};
}

absl::Status CheckEtag(const std::string& asked, const std::string& current) {
  if (asked.empty() || asked == current) return absl::OkStatus();
  return absl::AbortedError(fmt::format("the active profile changed: its etag is {}, not {}; look at it and try again",
                                        current.empty() ? "empty" : current, asked));
}

}  // namespace gpueta
