// What the server makes of observations: error figures, drift, corrections,
// wishes for measurements.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/feedback/correction_learner.h"
#include "core/feedback/drift_detector.h"
#include "core/feedback/error_stats.h"
#include "server/clock.h"
#include "server/feedback/asked_shapes.h"
#include "server/feedback/correction_table.h"
#include "server/feedback/error_cells.h"
#include "server/feedback/family.h"
#include "server/feedback/prediction_id.h"
#include "server/feedback/seen.h"
#include "server/limits.h"
#include "server/snapshot_pointer.h"
#include "server/store/store.h"

namespace gpueta {

// An observation whose prediction is known.
struct JudgedObservation {
  Quantiles predicted_us;         // as answered
  double uncorrected_p50_us = 0;  // the same without correction
  double observed_us = 0;
  std::uint64_t serial = 0;  // for telling duplicates; 0: cannot be one
};

// What the observations of one group share.
struct ObservedGroup {
  CellKey key;
  Family family = Family::kGemm;
  bool of_active_profile = false;  // and undisturbed: learnt from
  std::uint64_t profile = 0;       // the active one of the device
};

enum class TaskReason : std::uint8_t { kDrift, kCorrectionAtBound };

struct CalibrationTask {
  std::uint64_t id = 0;
  std::string device;
  Family family = Family::kGemm;
  std::string node;  // empty: the device
  TaskReason reason = TaskReason::kDrift;
  double ln_ratio = 0;  // recent mean of ln(observed/predicted)
  std::int64_t created_unix_s = 0;
};

struct ErrorQuery {
  bool by_device = false, by_family = false, by_dtype = false, by_model = false, by_provenance = false, by_node = false;
  std::int64_t since_unix_s = 0;
  CellKey only;  // empty parts match everything
};

struct ErrorRow {
  CellKey key;  // parts not asked for are empty
  ErrorSummary errors;
  DriftDetector::State drift = DriftDetector::State::kLearning;
  std::optional<CorrectionCurve> correction;  // of rows of one device and family that have one
};

// Upper ends for predicted/observed, symmetric about 1 on a log scale.
inline constexpr double kRatioBuckets[] = {0.1, 0.25, 0.5, 0.71, 0.83, 0.91, 0.95, 1, 1.05, 1.1, 1.2, 1.4, 2, 4, 10};

// What was observed since the process started.
struct ObservedCounts {
  std::array<std::int64_t, std::size(kRatioBuckets) + 1> ratios{};  // by kRatioBuckets, then what is above
  double ratio_sum = 0;
  struct BySize {
    std::int64_t count = 0;
    double ape_sum = 0;  // each at most 10
  };
  std::array<BySize, kSizeClasses> sizes;
  std::int64_t below_p90 = 0;
  std::int64_t below_p99 = 0;

  void Add(const JudgedObservation& observation);
  void Merge(const ObservedCounts& other);
  std::int64_t count() const;
};

// One family on one device, as metrics show it.
struct WatchSample {
  std::string device;
  Family family = Family::kGemm;
  DriftDetector::State drift = DriftDetector::State::kLearning;
  CorrectionCurve correction;
  RecentErrors recent;
  int nodes = 0;
  int nodes_in_alarm = 0;
  ObservedCounts observed;
};

struct FeedbackSample {
  std::vector<WatchSample> watches;
  std::vector<CalibrationTask> open_tasks;
  std::int64_t tasks_created = 0;
  struct Model {
    std::string device;
    std::string model;
    double mape = 0;
  };
  std::vector<Model> models;                     // of the last hour, most observed first
  std::map<std::string, std::int64_t> outcomes;  // by name: accepted, forged, …
};

// Safe to use from any thread. Corrections() never waits; Take and the queries
// wait for each other for moments, not for the disk; Commit waits for the disk.
class Feedback {
 public:
  // Reads what the store has. `store` must outlive it. Without
  // serve_corrections they are learnt but Corrections() stays empty.
  static absl::StatusOr<std::unique_ptr<Feedback>> Open(Store& store, Clock clock, const Limits& limits,
                                                        bool serve_corrections = true);

  const PredictionIds& ids() const { return ids_; }
  AskedShapes& shapes() { return shapes_; }
  std::shared_ptr<const CorrectionTable> Corrections() const { return serving_.Read(); }
  std::int64_t Now() const { return UnixSeconds(clock_); }

  // Counts and learns; is_new[i] says whether observation i counted or is a
  // duplicate.
  void Take(const ObservedGroup& group, std::span<const JudgedObservation> observations, std::span<bool> is_new);
  void CountRefused(const std::string& outcome, std::int64_t count);

  // On return all that was taken before is in the store.
  absl::Status Commit();

  std::vector<ErrorRow> Summaries(const ErrorQuery& query) const;
  FeedbackSample Sample() const;

  // The profile that answers for a device is this one now: what was learnt on
  // another one is forgotten, its tasks are done.
  void ProfileIs(const std::string& device, std::uint64_t profile);

  // `on_task` is called for every task that is open, with was_open, before
  // Subscribe returns, then for every new one; it must not call this object.
  // After Unsubscribe it is not called again.
  using OnTask = std::function<void(const CalibrationTask&, bool was_open)>;
  std::int64_t Subscribe(OnTask on_task);
  void Unsubscribe(std::int64_t subscription);

 private:
  // One family on one device.
  struct Watch {
    std::uint64_t profile = 0;
    CorrectionLearner learner;
    DriftDetector detector;
    RecentErrors recent;
    struct Node {
      DriftDetector detector;
      std::int64_t observed_unix_s = 0;  // last
    };
    std::map<std::string, Node> nodes;
    std::vector<CalibrationTask> tasks;  // open
    bool changed = false;
    std::int64_t observed_unix_s = 0;  // last
    ObservedCounts observed;
  };
  using WatchKey = std::pair<std::string, Family>;

  Feedback(Store& store, Clock clock, const Limits& limits, bool serve_corrections, const SipHashKey& key);
  absl::Status Load(const std::vector<FeedbackRow>& rows);

  // Those below expect mutex_ to be held.
  Watch* FindWatch(const std::string& device, Family family);
  void Learn(const WatchKey& key, Watch& watch, const std::string& node, const JudgedObservation& observation);
  void LearnNode(const WatchKey& key, Watch& watch, const std::string& node, double ln_ratio);
  void OpenTask(const WatchKey& key, Watch& watch, const std::string& node, TaskReason reason, double ln_ratio);
  void ResetWatch(Watch& watch, std::uint64_t profile);
  void ServeCorrections();
  std::vector<FeedbackRow> TakeChangedRows();
  void ForgetOld(std::int64_t now);

  // These take mutex_ themselves, for moments: figures are computed while
  // observations come in.
  struct WatchedState {
    WatchKey where;
    DriftDetector::State drift = DriftDetector::State::kLearning;
    std::map<std::string, DriftDetector::State> nodes;  // where the query is about nodes
    std::optional<CorrectionCurve> correction;          // that is served
  };
  std::vector<WatchedState> WatchedStates(const ErrorQuery& query) const;
  static DriftDetector::State DriftOf(const CellKey& key, const ErrorQuery& query,
                                      const std::vector<WatchedState>& states);
  std::map<CellKey, ErrorStats> GroupsOf(const ErrorQuery& query) const;

  PredictionIds ids_;
  AskedShapes shapes_;
  SnapshotPointer<CorrectionTable> serving_{std::make_shared<const CorrectionTable>()};
  Store* store_;
  Clock clock_;
  Limits limits_;
  bool serve_corrections_;

  std::mutex commit_mutex_;                                             // taken before mutex_
  std::map<std::pair<std::string, std::string>, FeedbackRow> unsaved_;  // guarded by commit_mutex_
  mutable std::mutex mutex_;
  ErrorCells cells_;
  Seen seen_;
  std::map<WatchKey, Watch> watches_;
  std::map<WatchKey, CorrectionCurve> served_;
  std::size_t nodes_ = 0;
  std::map<std::string, std::int64_t> outcomes_;
  std::int64_t tasks_created_ = 0;
  std::int64_t last_offender_unix_s_ = 0;
  std::int64_t last_forgotten_unix_s_ = 0;
  std::map<std::int64_t, OnTask> subscriptions_;
  std::int64_t last_subscription_ = 0;
};

// The name of a state as metrics and the command line have it.
std::string_view Name(DriftDetector::State state);

}  // namespace gpueta
