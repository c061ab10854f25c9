#include "server/feedback/feedback.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/errors.h"
#include "server/feedback/state.pb.h"
#include "server/feedback/state_codec.h"
#include "server/logging.h"

namespace gpueta {
namespace {

// Kinds of rows in the store.
constexpr char kKeyRow[] = "key";
constexpr char kBucketRow[] = "bucket";
constexpr char kWatchRow[] = "watch";

constexpr std::size_t kMaxWatches = 500;
// A correction that long at its bound is no noise.
constexpr std::int64_t kLongAtBound = 100;
// A new factor is served when it differs by this much; less is no news.
constexpr float kNews = 0.004F;
// Worth a line in the log, at most one a second.
constexpr double kOffender = 0.69;  // a factor of 2
// What is not observed any more makes room for others.
constexpr std::int64_t kDay = 86400;
constexpr std::int64_t kNodeKept = 7 * kDay;
constexpr std::int64_t kWatchKept = 30 * kDay;  // as error windows
constexpr std::int64_t kForgetEvery = 300;

std::string KeyText(const CellKey& key, std::size_t length, std::int64_t start) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", key.device, key.family, key.dtype, key.model, key.provenance, key.node,
                     length, start);
}

std::string Text(const SipHashKey& key) { return {reinterpret_cast<const char*>(key.data()), sizeof(SipHashKey)}; }

bool IsNews(const CorrectionCurve& served, const CorrectionCurve& now) {
  if (served.IsNone() != now.IsNone()) return true;
  for (int c = 0; c < kSizeClasses; ++c) {
    const auto i = static_cast<std::size_t>(c);
    if (std::abs(served.factor[i] - now.factor[i]) > kNews * served.factor[i]) return true;
  }
  return false;
}

bool Matches(const CellKey& only, const CellKey& key) {
  const auto fits = [](const std::string& wanted, const std::string& is) { return wanted.empty() || wanted == is; };
  return fits(only.device, key.device) && fits(only.family, key.family) && fits(only.dtype, key.dtype) &&
         fits(only.model, key.model) && fits(only.provenance, key.provenance) && fits(only.node, key.node);
}

// Alarms are worse than none, and no alarm is worse than not knowing yet.
int Badness(DriftDetector::State state) {
  switch (state) {
    case DriftDetector::State::kLearning: return 0;
    case DriftDetector::State::kStable: return 1;
    case DriftDetector::State::kFaster: return 2;
    case DriftDetector::State::kSlower: return 3;
  }
  return 0;
}

bool IsAlarm(DriftDetector::State state) { return Badness(state) >= 2; }

}  // namespace

std::string_view Name(DriftDetector::State state) {
  switch (state) {
    case DriftDetector::State::kLearning: return "learning";
    case DriftDetector::State::kStable: return "stable";
    case DriftDetector::State::kSlower: return "slower";
    case DriftDetector::State::kFaster: return "faster";
  }
  return "";
}

void ObservedCounts::Add(const JudgedObservation& o) {
  constexpr double kMostApe = 10;
  const double ratio = o.predicted_us.p50 / o.observed_us;
  ++ratios[static_cast<std::size_t>(std::lower_bound(std::begin(kRatioBuckets), std::end(kRatioBuckets), ratio) -
                                    std::begin(kRatioBuckets))];
  ratio_sum += ratio;
  BySize& size = sizes[static_cast<std::size_t>(SizeClassOf(o.uncorrected_p50_us))];
  ++size.count;
  size.ape_sum += std::min(std::abs(ratio - 1), kMostApe);
  below_p90 += o.observed_us <= o.predicted_us.p90 ? 1 : 0;
  below_p99 += o.observed_us <= o.predicted_us.p99 ? 1 : 0;
}

void ObservedCounts::Merge(const ObservedCounts& other) {
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] += other.ratios[i];
  ratio_sum += other.ratio_sum;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i].count += other.sizes[i].count;
    sizes[i].ape_sum += other.sizes[i].ape_sum;
  }
  below_p90 += other.below_p90;
  below_p99 += other.below_p99;
}

std::int64_t ObservedCounts::count() const {
  std::int64_t sum = 0;
  for (const std::int64_t n : ratios) sum += n;
  return sum;
}

absl::StatusOr<std::unique_ptr<Feedback>> Feedback::Open(Store& store, Clock clock, const Limits& limits,
                                                         bool serve_corrections) {
  GPUETA_ASSIGN_OR_RETURN(const StoreContents contents, store.Load());
  SipHashKey key{};
  for (const FeedbackRow& row : contents.feedback) {
    if (row.kind == kKeyRow && row.value.size() == sizeof(key)) std::memcpy(key.data(), row.value.data(), sizeof(key));
  }
  if (key == SipHashKey{}) {
    key = RandomKey();
    StoreChange change;
    change.feedback.push_back({kKeyRow, "prediction_id", 0, Text(key)});
    GPUETA_RETURN_IF_ERROR(store.Commit(change));
  }
  std::unique_ptr<Feedback> feedback(new Feedback(store, std::move(clock), limits, serve_corrections, key));
  GPUETA_RETURN_IF_ERROR(feedback->Load(contents.feedback));
  return feedback;
}

Feedback::Feedback(Store& store, Clock clock, const Limits& limits, bool serve_corrections, const SipHashKey& key)
    : ids_(key),
      store_(&store),
      clock_(std::move(clock)),
      limits_(limits),
      serve_corrections_(serve_corrections),
      cells_(static_cast<std::size_t>(limits.error_cells)) {}

absl::Status Feedback::Load(const std::vector<FeedbackRow>& rows) {
  const std::lock_guard lock(mutex_);
  const std::int64_t now = Now();
  int unreadable = 0;
  for (const FeedbackRow& row : rows) {
    if (row.expires_unix_s > 0 && row.expires_unix_s < now) continue;
    if (row.kind == kBucketRow) {
      server::StoredBucket bucket;
      if (!bucket.ParseFromString(row.value) || bucket.length() >= ErrorWindows::kLengths.size()) {
        ++unreadable;
        continue;
      }
      cells_.Restore(KeyOf(bucket), bucket.length(), bucket.start_unix_s(), StatsOf(bucket));
    } else if (row.kind == kWatchRow) {
      server::StoredWatch stored;
      const bool read = stored.ParseFromString(row.value);
      const auto family = ParseFamily(stored.family());
      if (!read || !family.has_value()) {
        ++unreadable;
        continue;
      }
      Watch& watch = watches_[{stored.device(), *family}];
      watch.profile = stored.profile();
      watch.learner = LearnerOf(stored);
      watch.detector = Decode(stored.detector());
      watch.recent = RecentOf(stored);
      const auto observed = [now](std::int64_t at) { return at == 0 ? now : at; };  // 0: stored by an older server
      watch.observed_unix_s = observed(stored.observed_unix_s());
      watch.changed = stored.observed_unix_s() == 0;
      for (const auto& node : stored.nodes())
        watch.nodes[node.name()] = {Decode(node.detector()), observed(node.observed_unix_s())};
      nodes_ += watch.nodes.size();
      for (const auto& task : stored.tasks()) {
        watch.tasks.push_back({.id = task.id(),
                               .device = stored.device(),
                               .family = *family,
                               .node = task.node(),
                               .reason = task.reason() == 0 ? TaskReason::kDrift : TaskReason::kCorrectionAtBound,
                               .ln_ratio = task.ln_ratio(),
                               .created_unix_s = task.created_unix_s()});
      }
    }
  }
  if (unreadable > 0) Log(LogLevel::kError, "observations left out", {{"rows", unreadable}});
  ServeCorrections();
  return absl::OkStatus();
}

Feedback::Watch* Feedback::FindWatch(const std::string& device, Family family) {
  const auto it = watches_.find({device, family});
  if (it != watches_.end()) return &it->second;
  if (watches_.size() >= kMaxWatches || device == kOther) return nullptr;
  return &watches_[{device, family}];
}

void Feedback::ResetWatch(Watch& watch, std::uint64_t profile) {
  watch.profile = profile;
  watch.learner.Reset();
  watch.detector.Reset();
  nodes_ -= watch.nodes.size();
  watch.nodes.clear();
  watch.recent = {};
  watch.tasks.clear();
  watch.changed = true;
}

void Feedback::Take(const ObservedGroup& group, std::span<const JudgedObservation> observations,
                    std::span<bool> is_new) {
  const std::int64_t now = Now();
  const std::lock_guard lock(mutex_);
  const std::string& device = group.key.device;
  Watch* watch = FindWatch(device, group.family);
  if (watch != nullptr) {
    watch->changed = true;
    watch->observed_unix_s = now;
    if (group.of_active_profile && watch->profile != group.profile) ResetWatch(*watch, group.profile);
  }
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const JudgedObservation& o = observations[i];
    is_new[i] = o.serial == 0 || seen_.Insert(o.serial);
    ++outcomes_[is_new[i] ? "accepted" : "duplicate"];
    if (!is_new[i]) continue;
    const PredictedAndObserved pair{o.predicted_us, o.observed_us};
    cells_.Add(group.key, now, pair);
    if (watch == nullptr) continue;
    watch->observed.Add(o);
    if (std::abs(LnErrorOf(pair)) > kOffender && now > last_offender_unix_s_) {
      last_offender_unix_s_ = now;
      Log(LogLevel::kInfo, "prediction far off",
          {{"device", device},
           {"op", group.key.family},
           {"model", group.key.model},
           {"node", group.key.node},
           {"predicted_us", o.predicted_us.p50},
           {"observed_us", o.observed_us},
           {"serial", fmt::format("{:016x}", o.serial)}});
    }
    watch->recent.Add(pair);
    if (group.of_active_profile) Learn({device, group.family}, *watch, group.key.node, o);
  }
  if (watch != nullptr && group.of_active_profile) {
    const CorrectionCurve factors = watch->learner.Factors();
    const auto served = served_.find({device, group.family});
    if (IsNews(served == served_.end() ? CorrectionCurve() : served->second, factors)) ServeCorrections();
  }
}

void Feedback::Learn(const WatchKey& key, Watch& watch, const std::string& node, const JudgedObservation& o) {
  const double ln_ratio = std::log(o.observed_us / o.uncorrected_p50_us);
  const bool was_alarm = watch.detector.alarm();
  const bool raised = watch.detector.Add(ln_ratio);
  if (raised) watch.learner.Forget(watch.detector.recent_level());
  watch.learner.Add(SizeClassOf(o.uncorrected_p50_us), ln_ratio);
  if (raised) OpenTask(key, watch, "", TaskReason::kDrift, watch.detector.recent_level());
  if (watch.learner.observations_at_bound() == kLongAtBound)
    OpenTask(key, watch, "", TaskReason::kCorrectionAtBound, watch.detector.recent_level());
  if (was_alarm && !watch.detector.alarm()) {
    std::erase_if(watch.tasks,
                  [](const CalibrationTask& t) { return t.node.empty() && t.reason == TaskReason::kDrift; });
    watch.learner.Forget(watch.detector.recent_level());
    Log(LogLevel::kInfo, "drift is over", {{"device", key.first}, {"op", std::string(Name(key.second))}});
  }
  if (!node.empty()) LearnNode(key, watch, node, ln_ratio);
}

void Feedback::LearnNode(const WatchKey& key, Watch& watch, const std::string& node, double ln_ratio) {
  auto it = watch.nodes.find(node);
  if (it == watch.nodes.end()) {
    if (nodes_ >= static_cast<std::size_t>(limits_.watched_nodes)) return;
    it = watch.nodes.try_emplace(node).first;
    ++nodes_;
  }
  it->second.observed_unix_s = watch.observed_unix_s;
  DriftDetector& detector = it->second.detector;
  const bool was_alarm = detector.alarm();
  const bool raised = detector.Add(ln_ratio);
  // With all nodes changed it is the device; with one node they are the same.
  if (raised && !watch.detector.alarm() && watch.nodes.size() > 1)
    OpenTask(key, watch, node, TaskReason::kDrift, detector.recent_level());
  if (was_alarm && !detector.alarm())
    std::erase_if(watch.tasks, [&node](const CalibrationTask& t) { return t.node == node; });
}

void Feedback::OpenTask(const WatchKey& key, Watch& watch, const std::string& node, TaskReason reason,
                        double ln_ratio) {
  for (const CalibrationTask& open : watch.tasks) {
    if (open.node == node) return;
  }
  const CalibrationTask task{.id = RandomKey()[0],
                             .device = key.first,
                             .family = key.second,
                             .node = node,
                             .reason = reason,
                             .ln_ratio = ln_ratio,
                             .created_unix_s = Now()};
  watch.tasks.push_back(task);
  ++tasks_created_;
  Log(LogLevel::kWarning, reason == TaskReason::kDrift ? "drift" : "correction at its bound",
      {{"device", key.first},
       {"op", std::string(Name(key.second))},
       {"node", node},
       {"observed_over_predicted", std::exp(ln_ratio)}});
  for (const auto& [id, on_task] : subscriptions_) on_task(task, false);
}

void Feedback::ServeCorrections() {
  if (!serve_corrections_) return;
  std::map<std::string, CorrectionTable::Entry, std::less<>> entries;
  served_.clear();
  for (const auto& [key, watch] : watches_) {
    const CorrectionCurve factors = watch.learner.Factors();
    if (factors.IsNone()) continue;
    CorrectionTable::Entry& entry = entries[key.first];
    // Of all families of a device the same, but for moments after a change.
    if (entry.profile != watch.profile) entry = {};
    entry.profile = watch.profile;
    CorrectionCurve& curve = key.second == Family::kGraph
                                 ? entry.corrections.graphs
                                 : entry.corrections.kernels[static_cast<std::size_t>(key.second)];
    curve = factors;
    served_[key] = factors;
  }
  serving_.Swap(std::make_shared<const CorrectionTable>(std::move(entries)));
}

void Feedback::CountRefused(const std::string& outcome, std::int64_t count) {
  const std::lock_guard lock(mutex_);
  outcomes_[outcome] += count;
}

void Feedback::ProfileIs(const std::string& device, std::uint64_t profile) {
  const std::lock_guard lock(mutex_);
  bool changed = false;
  for (auto it = watches_.lower_bound({device, Family::kGemm}); it != watches_.end() && it->first.first == device;
       ++it) {
    if (it->second.profile == profile) continue;
    ResetWatch(it->second, profile);
    changed = true;
  }
  if (changed) ServeCorrections();
}

std::vector<FeedbackRow> Feedback::TakeChangedRows() {
  std::vector<FeedbackRow> rows;
  for (const ErrorCells::Bucket& bucket : cells_.TakeChanged()) {
    server::StoredBucket message;
    Encode(bucket, message);
    const ErrorWindows::Length& length = ErrorWindows::kLengths[bucket.length];
    rows.push_back({kBucketRow, KeyText(*bucket.key, bucket.length, bucket.start_unix_s),
                    bucket.start_unix_s + length.seconds * (length.buckets + 1), message.SerializeAsString()});
  }
  for (auto& [key, watch] : watches_) {
    if (!watch.changed) continue;
    watch.changed = false;
    server::StoredWatch message;
    message.set_device(key.first);
    message.set_family(std::string(Name(key.second)));
    message.set_profile(watch.profile);
    Encode(watch.learner, message);
    Encode(watch.detector, *message.mutable_detector());
    Encode(watch.recent, message);
    message.set_observed_unix_s(watch.observed_unix_s);
    for (const auto& [name, node] : watch.nodes) {
      auto& stored = *message.add_nodes();
      stored.set_name(name);
      stored.set_observed_unix_s(node.observed_unix_s);
      Encode(node.detector, *stored.mutable_detector());
    }
    for (const CalibrationTask& task : watch.tasks) {
      auto& stored = *message.add_tasks();
      stored.set_id(task.id);
      stored.set_node(task.node);
      stored.set_reason(task.reason == TaskReason::kDrift ? 0 : 1);
      stored.set_ln_ratio(task.ln_ratio);
      stored.set_created_unix_s(task.created_unix_s);
    }
    rows.push_back({kWatchRow, fmt::format("{}|{}", key.first, Name(key.second)), watch.observed_unix_s + kWatchKept,
                    message.SerializeAsString()});
  }
  return rows;
}

void Feedback::ForgetOld(std::int64_t now) {
  if (now < last_forgotten_unix_s_ + kForgetEvery) return;
  last_forgotten_unix_s_ = now;
  cells_.Forget(now);
  for (auto& [key, watch] : watches_) {
    for (auto it = watch.nodes.begin(); it != watch.nodes.end();) {
      if (it->second.observed_unix_s + kNodeKept > now) {
        ++it;
        continue;
      }
      std::erase_if(watch.tasks, [&it](const CalibrationTask& task) { return task.node == it->first; });
      it = watch.nodes.erase(it);
      --nodes_;
      watch.changed = true;
    }
  }
  const auto forgotten = std::erase_if(watches_, [this, now](const auto& entry) {
    const bool old = entry.second.observed_unix_s + kWatchKept <= now;
    if (old) nodes_ -= entry.second.nodes.size();
    return old;
  });
  if (forgotten > 0) ServeCorrections();
}

absl::Status Feedback::Commit() {
  const std::lock_guard commit_lock(commit_mutex_);
  const std::int64_t now = Now();
  {
    const std::lock_guard lock(mutex_);
    ForgetOld(now);
    for (FeedbackRow& row : TakeChangedRows()) unsaved_.insert_or_assign({row.kind, row.key}, std::move(row));
  }
  // As the store does: while it fails, no more than what is kept piles up.
  std::erase_if(unsaved_, [now](const auto& entry) { return entry.second.expires_unix_s < now; });
  if (unsaved_.empty()) return absl::OkStatus();
  StoreChange change;
  for (const auto& [key, row] : unsaved_) change.feedback.push_back(row);
  change.forget_feedback_before_unix_s = now;
  GPUETA_RETURN_IF_ERROR(store_->Commit(change));
  unsaved_.clear();
  return absl::OkStatus();
}

std::vector<Feedback::WatchedState> Feedback::WatchedStates(const ErrorQuery& query) const {
  const bool nodes = query.by_node || !query.only.node.empty();
  std::vector<WatchedState> states;
  const std::lock_guard lock(mutex_);
  for (const auto& [where, watch] : watches_) {
    if (!query.only.device.empty() && where.first != query.only.device) continue;
    if (!query.only.family.empty() && Name(where.second) != query.only.family) continue;
    const auto served = served_.find(where);
    WatchedState& state = states.emplace_back();
    state.where = where;
    state.drift = watch.detector.state();
    if (served != served_.end()) state.correction = served->second;
    if (!nodes) continue;
    for (const auto& [name, node] : watch.nodes) state.nodes[name] = node.detector.state();
  }
  return states;
}

DriftDetector::State Feedback::DriftOf(const CellKey& key, const ErrorQuery& query,
                                       const std::vector<WatchedState>& states) {
  const std::string& node = query.by_node ? key.node : query.only.node;
  DriftDetector::State worst = DriftDetector::State::kLearning;
  for (const WatchedState& state : states) {
    if (query.by_device && state.where.first != key.device) continue;
    if (query.by_family && Name(state.where.second) != key.family) continue;
    DriftDetector::State drift = state.drift;
    if (query.by_node || !node.empty()) {
      const auto it = state.nodes.find(node);
      if (it == state.nodes.end()) continue;
      drift = it->second;
    }
    if (Badness(drift) > Badness(worst)) worst = drift;
  }
  return worst;
}

std::map<CellKey, ErrorStats> Feedback::GroupsOf(const ErrorQuery& query) const {
  constexpr int kCellsALock = 32;
  const std::int64_t now = Now();
  std::map<CellKey, ErrorStats> groups;
  std::optional<CellKey> last;
  for (bool more = true; more;) {
    const std::lock_guard lock(mutex_);
    const auto& cells = cells_.cells();
    auto it = last.has_value() ? cells.upper_bound(*last) : cells.begin();
    for (int i = 0; i < kCellsALock && it != cells.end(); ++i, ++it) {
      const auto& [key, windows] = *it;
      last = key;
      if (!Matches(query.only, key)) continue;
      const ErrorStats stats = windows.Since(query.since_unix_s, now);
      if (stats.count() == 0) continue;
      groups[{query.by_device ? key.device : "", query.by_family ? key.family : "", query.by_dtype ? key.dtype : "",
              query.by_model ? key.model : "", query.by_provenance ? key.provenance : "",
              query.by_node ? key.node : ""}]
          .Merge(stats);
    }
    more = it != cells.end();
  }
  return groups;
}

std::vector<ErrorRow> Feedback::Summaries(const ErrorQuery& query) const {
  const std::map<CellKey, ErrorStats> groups = GroupsOf(query);
  const std::vector<WatchedState> states = WatchedStates(query);
  std::vector<ErrorRow> rows;
  for (const auto& [key, stats] : groups) {
    ErrorRow row{.key = key, .errors = SummaryOf(stats), .drift = DriftOf(key, query, states), .correction = {}};
    const std::string& device = query.by_device ? key.device : query.only.device;
    const auto family = ParseFamily(query.by_family ? key.family : query.only.family);
    if (family.has_value()) {
      const auto state = std::ranges::find(states, WatchKey(device, *family), &WatchedState::where);
      if (state != states.end()) row.correction = state->correction;
    }
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ErrorRow& a, const ErrorRow& b) { return a.errors.n > b.errors.n; });
  return rows;
}

FeedbackSample Feedback::Sample() const {
  constexpr std::int64_t kHour = 3600;
  const auto groups = GroupsOf({.by_device = true, .by_model = true, .since_unix_s = Now() - kHour});
  const std::lock_guard lock(mutex_);
  FeedbackSample sample;
  for (const auto& [key, watch] : watches_) {
    WatchSample& out = sample.watches.emplace_back();
    out.device = key.first;
    out.family = key.second;
    out.drift = watch.detector.state();
    const auto served = served_.find(key);
    if (served != served_.end()) out.correction = served->second;
    out.recent = watch.recent;
    out.nodes = static_cast<int>(watch.nodes.size());
    for (const auto& [name, node] : watch.nodes) out.nodes_in_alarm += IsAlarm(node.detector.state()) ? 1 : 0;
    out.observed = watch.observed;
    sample.open_tasks.insert(sample.open_tasks.end(), watch.tasks.begin(), watch.tasks.end());
  }
  std::vector<std::pair<std::int64_t, FeedbackSample::Model>> models;
  for (const auto& [key, stats] : groups) {
    if (!key.model.empty()) models.push_back({stats.count(), {key.device, key.model, SummaryOf(stats).mape}});
  }
  std::stable_sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [count, model] : models) sample.models.push_back(std::move(model));
  sample.tasks_created = tasks_created_;
  sample.outcomes = outcomes_;
  return sample;
}

std::int64_t Feedback::Subscribe(OnTask on_task) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, watch] : watches_) {
    for (const CalibrationTask& task : watch.tasks) on_task(task, true);
  }
  subscriptions_.emplace(++last_subscription_, std::move(on_task));
  return last_subscription_;
}

void Feedback::Unsubscribe(std::int64_t subscription) {
  const std::lock_guard lock(mutex_);
  subscriptions_.erase(subscription);
}

}  // namespace gpueta
