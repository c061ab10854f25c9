#include "core/serving/fleet.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::size_t kLongestName = 253;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 26;
constexpr double kMostTransferUs = 1e9;  // a token

std::int64_t RequestsOf(const DescribedReplica& described) {
  const EngineState& state = described.replica.state;
  std::int64_t requests = static_cast<std::int64_t>(state.running.size() + state.waiting.size());
  if (described.metrics.has_value()) requests += described.metrics->running + described.metrics->waiting;
  return requests;
}

std::int64_t ContextOf(const Request& request) {
  return std::max(request.sequence.known_tokens(), request.sequence.prompt_tokens + request.sequence.output_tokens);
}

std::int64_t ContextOf(const DescribedReplica& described) {
  std::int64_t longest = 0;
  for (const auto* list : {&described.replica.state.running, &described.replica.state.waiting}) {
    for (const Request& request : *list) longest = std::max(longest, ContextOf(request));
  }
  if (const auto& metrics = described.metrics; metrics.has_value()) {
    longest = std::max(longest, static_cast<std::int64_t>(metrics->mean_prompt_tokens + metrics->mean_output_tokens));
  }
  return longest;
}

absl::Status CheckReplica(const DescribedReplica& described) {
  const Replica& replica = described.replica;
  if (replica.name.empty() || replica.name.size() > kLongestName) {
    return FieldError("name", fmt::format("has {} bytes; it must have 1 to {}", replica.name.size(), kLongestName));
  }
  if (!(replica.transfer_us_per_token >= 0 && replica.transfer_us_per_token <= kMostTransferUs)) {
    return FieldError("transfer_us_per_token", fmt::format("{} is not from 0 to 1e9", replica.transfer_us_per_token));
  }
  if (described.metrics.has_value()) {
    if (!replica.state.running.empty() || !replica.state.waiting.empty()) {
      return FieldError("metrics", "stand in for running and waiting requests; give one of both");
    }
    GPUETA_RETURN_IF_ERROR(InField("metrics", Check(*described.metrics)));
  }
  return Check(replica.state);
}

absl::Status LimitPassed(std::string_view field, std::int64_t most, std::int64_t got) {
  return InField(field, ResourceExhausted("{} of them; {} are possible", got, most));
}

absl::Status CheckCandidate(const Candidate& candidate) {
  if (candidate.prompt_tokens < 1 || candidate.prompt_tokens > kMostTokens) {
    return FieldError("prompt_tokens", fmt::format("{} is not from 1 to {}", candidate.prompt_tokens, kMostTokens));
  }
  if (candidate.output_tokens < 0 || candidate.output_tokens > kMostTokens) {
    return FieldError("output_tokens", fmt::format("{} is not from 0 to {}", candidate.output_tokens, kMostTokens));
  }
  if (!(candidate.since_arrival_us >= 0) || !std::isfinite(candidate.since_arrival_us)) {
    return FieldError("since_arrival_us", "must be finite and not negative");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::size_t> Fleet::PlaceOf(std::string_view field, const std::string& name) const {
  const auto place = places_.find(name);
  if (place != places_.end()) return place->second;
  return InField(field, NotFound("no replica \"{}\"", name.substr(0, 80)));
}

absl::Status Fleet::CheckChange(FleetChange& change) const {
  const std::vector<EngineSetup>& engines = change.engines.has_value() ? *change.engines : engines_;
  if (engines.empty()) return FieldError("engines", "is empty; describe the kinds of replicas");
  if (static_cast<std::int64_t>(engines.size()) > most_.engines) {
    return LimitPassed("engines", most_.engines, static_cast<std::int64_t>(engines.size()));
  }
  if (change.engines.has_value()) {
    for (std::size_t i = 0; i < engines.size(); ++i) {
      GPUETA_RETURN_IF_ERROR(InField(fmt::format("engines[{}]", i), Check(engines[i])));
    }
  }
  if (change.limits.has_value()) GPUETA_RETURN_IF_ERROR(InField("limits", Check(*change.limits)));

  std::int64_t replicas = static_cast<std::int64_t>(entries_.size());
  std::int64_t requests = 0;
  for (const Entry& entry : entries_) requests += entry.requests;
  std::set<std::string_view> gone;
  for (std::size_t i = 0; i < change.removed.size(); ++i) {
    const std::string field = fmt::format("removed_replicas[{}]", i);
    GPUETA_ASSIGN_OR_RETURN(const std::size_t place, PlaceOf(field, change.removed[i]));
    if (!gone.insert(change.removed[i]).second) return FieldError(field, "is there twice");
    --replicas;
    requests -= entries_[place].requests;
  }
  std::set<std::string_view> put;
  for (std::size_t i = 0; i < change.replicas.size(); ++i) {
    DescribedReplica& each = change.replicas[i];
    const std::string field = fmt::format("replicas[{}]", i);
    if (each.engine >= engines.size()) {
      return FieldError(field + ".engine",
                        fmt::format("{} is no place in the list of {} engines", each.engine, engines.size()));
    }
    each.replica.state.limits = engines[each.engine].limits;
    // Unless it is given it is found later.
    each.replica.state.limits.kv_blocks = std::max<std::int64_t>(each.replica.state.limits.kv_blocks, 1);
    GPUETA_RETURN_IF_ERROR(InField(field, CheckReplica(each)));
    const std::string& name = each.replica.name;
    if (!put.insert(name).second) {
      return FieldError(field + ".name", fmt::format("\"{}\" is there twice; names tell replicas apart", name));
    }
    const auto before = gone.contains(name) ? places_.end() : places_.find(name);
    if (before == places_.end()) {
      ++replicas;
    } else {
      requests -= entries_[before->second].requests;
    }
    requests += RequestsOf(each);
  }
  for (std::size_t i = 0; i < change.joined.size(); ++i) {
    const auto& [name, request] = change.joined[i];
    const std::string field = fmt::format("joined[{}]", i);
    if (!put.contains(name)) GPUETA_RETURN_IF_ERROR(PlaceOf(field + ".replica", name).status());
    if (gone.contains(name) && !put.contains(name))
      return FieldError(field + ".replica", "is removed by the same change");
    EngineState alone;
    alone.limits.kv_blocks = 1;
    alone.waiting = {request};
    if (const absl::Status status = Check(alone); !status.ok()) {
      return FieldError(field + ".request", MessageOf(status));
    }
    ++requests;
  }
  if (replicas > most_.replicas) return LimitPassed("replicas", most_.replicas, replicas);
  if (requests > most_.requests) return LimitPassed("requests", most_.requests, requests);
  if (change.engines.has_value()) {
    for (const Entry& entry : entries_) {
      const std::string& name = entry.described.replica.name;
      if (entry.described.engine >= engines.size() && !gone.contains(name) && !put.contains(name)) {
        return FieldError("engines", fmt::format("replica \"{}\" is of engine {}, which is not among these {}", name,
                                                 entry.described.engine, engines.size()));
      }
    }
  }
  return absl::OkStatus();
}

void Fleet::Remove(const std::vector<std::string>& names) {
  if (names.empty()) return;
  for (const std::string& name : names) places_.erase(name);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto place = places_.find(entries_[i].described.replica.name);
    if (place == places_.end()) continue;
    place->second = kept;
    if (kept != i) {
      entries_[kept] = std::move(entries_[i]);
      replicas_[kept] = std::move(replicas_[i]);
    }
    ++kept;
  }
  entries_.resize(kept);
  replicas_.resize(kept);
}

void Fleet::Put(DescribedReplica described) {
  const auto [found, is_new] = places_.try_emplace(described.replica.name, entries_.size());
  if (is_new) {
    entries_.emplace_back();
    replicas_.emplace_back();
  }
  Entry& entry = entries_[found->second];
  entry = {std::move(described), 0, 0, false};
  entry.requests = RequestsOf(entry.described);
  entry.longest = ContextOf(entry.described);
}

absl::Status Fleet::Apply(FleetChange change) {
  GPUETA_RETURN_IF_ERROR(CheckChange(change));
  if (change.engines.has_value()) {
    engines_ = *std::move(change.engines);
    ready_.clear();
    ready_.resize(engines_.size());
    for (Entry& entry : entries_) entry.ready = false;
  }
  if (change.limits.has_value()) limits_ = *change.limits;
  Remove(change.removed);
  for (DescribedReplica& described : change.replicas) Put(std::move(described));
  for (auto& [name, request] : change.joined) {
    Entry& entry = entries_[places_.at(name)];
    entry.longest = std::max(entry.longest, ContextOf(request));
    ++entry.requests;
    if (entry.ready) replicas_[places_.at(name)].state.waiting.push_back(request);
    entry.described.replica.state.waiting.push_back(request);
  }
  longest_ = 0;
  all_ready_ = false;
  for (Ready& ready : ready_) ready.used = false;
  for (const Entry& entry : entries_) {
    longest_ = std::max(longest_, entry.longest);
    ready_[entry.described.engine].used = true;
  }
  return absl::OkStatus();
}

std::int64_t Fleet::LongestFor(const DescribedCandidate& candidate) const {
  return std::max(longest_, candidate.candidate.prompt_tokens + candidate.candidate.output_tokens);
}

std::size_t Fleet::DecisionsFor(const DescribedCandidate& candidate) const {
  return candidate.among.empty() ? entries_.size() : candidate.among.size();
}

absl::Status Fleet::MakeReady(std::size_t place) {
  Entry& entry = entries_[place];
  Replica& replica = replicas_[place];
  const std::size_t e = entry.described.engine;
  EngineLimits limits = engines_[e].limits;
  if (limits.kv_blocks == 0) limits.kv_blocks = ready_[e].served->room.blocks;
  if (limits.kv_blocks == 0) {
    return FieldError(fmt::format("engines[{}]", e),
                      "the model does not fit into the device's memory; give kv_blocks, or more ranks");
  }
  replica = entry.described.replica;
  if (entry.described.metrics.has_value()) {
    GPUETA_ASSIGN_OR_RETURN(EngineState state, StateFrom(*entry.described.metrics, limits));
    state.step_in_flight_us = replica.state.step_in_flight_us;
    state.waiting.insert(state.waiting.end(), replica.state.waiting.begin(), replica.state.waiting.end());
    replica.state = std::move(state);
  }
  replica.state.limits = limits;
  replica.table = ready_[e].table.get();
  entry.ready = true;
  return absl::OkStatus();
}

absl::Status Fleet::Prepare(const FindServed& find_served, std::int64_t longest) {
  for (std::size_t e = 0; e < ready_.size(); ++e) {
    if (!ready_[e].used) continue;
    auto served = find_served(e, longest);
    if (!served.ok()) return InField(fmt::format("engines[{}]", e), served.status());
    if (ready_[e].served == *served) continue;
    ready_[e].table = std::make_unique<StepTable>((*served)->table.WithOverhead(engines_[e].overhead));
    ready_[e].served = *std::move(served);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].described.engine == e) entries_[i].ready = false;
    }
    all_ready_ = false;
  }
  if (all_ready_) return absl::OkStatus();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].ready) GPUETA_RETURN_IF_ERROR(MakeReady(i));
  }
  all_ready_ = true;
  return absl::OkStatus();
}

absl::StatusOr<Admission> Fleet::Judge(const DescribedCandidate& described, const FindServed& find_served,
                                       const ScheduleOptions& options) {
  GPUETA_RETURN_IF_ERROR(CheckCandidate(described.candidate));
  if (entries_.empty()) return FieldError("replicas", "is empty; there is none that could take the request");
  Candidate candidate = described.candidate;
  std::set<std::size_t> chosen;
  for (std::size_t i = 0; i < described.among.size(); ++i) {
    const std::string field = fmt::format("among[{}]", i);
    GPUETA_ASSIGN_OR_RETURN(const std::size_t place, PlaceOf(field, described.among[i]));
    if (!chosen.insert(place).second) return FieldError(field, "is there twice");
    candidate.among.push_back(place);
  }
  std::vector<std::pair<std::size_t, std::int64_t>> cached;
  for (std::size_t i = 0; i < described.cached.size(); ++i) {
    const auto& [name, tokens] = described.cached[i];
    const std::string field = fmt::format("cached[{}]", i);
    GPUETA_ASSIGN_OR_RETURN(const std::size_t place, PlaceOf(field + ".replica", name));
    if (tokens < 0) return FieldError(field + ".tokens", fmt::format("{} must not be negative", tokens));
    cached.emplace_back(place, tokens);
  }
  GPUETA_RETURN_IF_ERROR(Prepare(find_served, LongestFor(described)));
  for (const auto& [place, tokens] : cached) replicas_[place].cached_tokens = tokens;
  absl::StatusOr<AdmitResult> result = gpueta::Admit(replicas_, candidate, limits_, options);
  for (const auto& [place, tokens] : cached) replicas_[place].cached_tokens = 0;
  if (!result.ok()) return result.status();

  Admission admission;
  admission.candidate = described.id;
  const auto name_of = [&](std::size_t i) -> const std::string& {
    return replicas_[candidate.among.empty() ? i : candidate.among[i]].name;
  };
  for (std::size_t i = 0; i < result->replicas.size(); ++i) admission.names.push_back(name_of(i));
  if (result->recommended.has_value()) admission.recommended = name_of(*result->recommended);
  if (result->recommended_prefill.has_value()) admission.recommended_prefill = name_of(*result->recommended_prefill);
  admission.replicas = std::move(result->replicas);
  return admission;
}

}  // namespace gpueta
