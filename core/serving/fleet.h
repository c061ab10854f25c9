// What a router knows of its replicas, kept between questions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/serving/admit.h"
#include "core/serving/engine_metrics.h"
#include "core/serving/served_model.h"

namespace gpueta {

// A replica as it is described: its table is still to be found.
struct DescribedReplica {
  Replica replica;         // without table; of the state's limits nothing is read
  std::size_t engine = 0;  // place in the list of engines
  // In place of running and waiting requests.
  std::optional<EngineMetrics> metrics;
};

struct DescribedCandidate {
  std::string id;
  Candidate candidate;                                       // without `among`
  std::vector<std::pair<std::string, std::int64_t>> cached;  // tokens in replicas' prefix caches, by name
  std::vector<std::string> among;                            // names; empty: all
};

// Taken as a whole or not at all, in this order.
struct FleetChange {
  std::optional<std::vector<EngineSetup>> engines;
  std::optional<LatencyLimits> limits;
  std::vector<std::string> removed;
  std::vector<DescribedReplica> replicas;  // added, or in place of that of the same name
  // At the end of a replica's queue.
  std::vector<std::pair<std::string, Request>> joined;
};

// A decision with names in place of positions.
struct Admission {
  std::string candidate;
  std::vector<std::string> names;  // of the replicas
  std::vector<ReplicaDecision> replicas;
  std::string recommended;  // empty: none
  std::string recommended_prefill;
};

struct FleetLimits {
  std::int64_t engines = 64;
  std::int64_t replicas = 16'384;
  std::int64_t requests = 131'072;  // in all replicas, those that metrics stand for included
};

// Not thread-safe.
class Fleet {
 public:
  // The model of one of the engines with contexts up to `longest`.
  using FindServed =
      std::function<absl::StatusOr<std::shared_ptr<const ServedModel>>(std::size_t engine, std::int64_t longest)>;

  explicit Fleet(const FleetLimits& limits = {}) : most_(limits) {}

  // INVALID_ARGUMENT naming the field as in the messages (engines[0].…,
  // replicas[2].running[1].…, removed_replicas[0], joined[0].…), NOT_FOUND for
  // names that are not there, RESOURCE_EXHAUSTED past a limit, whose field is
  // "engines", "replicas" or "requests". Nothing changed then.
  absl::Status Apply(FleetChange change);

  // The engines' tables must cover this many tokens to judge the candidates.
  std::int64_t LongestFor(const DescribedCandidate& candidate) const;
  // Decisions that this takes.
  std::size_t DecisionsFor(const DescribedCandidate& candidate) const;

  // Errors as Apply and gpueta::Admit, fields from the candidate on.
  absl::StatusOr<Admission> Judge(const DescribedCandidate& candidate, const FindServed& find_served,
                                  const ScheduleOptions& options = {});

  std::size_t size() const { return replicas_.size(); }
  const std::vector<EngineSetup>& engines() const { return engines_; }

 private:
  struct Entry {
    DescribedReplica described;
    std::int64_t requests = 0;
    std::int64_t longest = 0;  // context of its requests
    bool ready = false;        // whether its replica can be judged
  };

  absl::Status CheckChange(FleetChange& change) const;
  // Finds the tables; replicas whose state is new are made ready.
  absl::Status Prepare(const FindServed& find_served, std::int64_t longest);
  absl::Status MakeReady(std::size_t place);
  // Of a replica by its name; NOT_FOUND naming `field`.
  absl::StatusOr<std::size_t> PlaceOf(std::string_view field, const std::string& name) const;
  void Remove(const std::vector<std::string>& names);
  void Put(DescribedReplica described);

  FleetLimits most_;
  std::vector<EngineSetup> engines_;
  LatencyLimits limits_;
  // Alike in order.
  std::vector<Entry> entries_;
  std::vector<Replica> replicas_;
  std::unordered_map<std::string, std::size_t> places_;
  // Of all entries; kept by Apply, so that a question about a few replicas need
  // not look at all.
  std::int64_t longest_ = 0;
  bool all_ready_ = false;
  // By engine; replicas point to the tables, which have the engine's overhead.
  struct Ready {
    bool used = false;
    std::shared_ptr<const ServedModel> served;
    std::unique_ptr<StepTable> table;
  };
  std::vector<Ready> ready_;
};

}  // namespace gpueta
