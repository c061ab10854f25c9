#include "server/feedback/state_codec.h"

#include <algorithm>
#include <vector>

#include "server/feedback/state.pb.h"

namespace gpueta {
namespace {

void Encode(const DriftDetector::Run& run, server::StoredDetector::Run& message) {
  message.set_sum(run.sum);
  message.set_total(run.total);
  message.set_count(run.count);
}

DriftDetector::Run Decode(const server::StoredDetector::Run& m) { return {m.sum(), m.total(), m.count()}; }

}  // namespace

void Encode(const ErrorCells::Bucket& bucket, server::StoredBucket& message) {
  message.set_device(bucket.key->device);
  message.set_family(bucket.key->family);
  message.set_dtype(bucket.key->dtype);
  message.set_model(bucket.key->model);
  message.set_provenance(bucket.key->provenance);
  message.set_node(bucket.key->node);
  message.set_length(static_cast<std::uint32_t>(bucket.length));
  message.set_start_unix_s(bucket.start_unix_s);
  for (const ErrorSketch::Bin& bin : bucket.stats->errors.bins()) {
    message.add_bin_index(bin.index);
    message.add_bin_count(bin.count);
  }
  message.set_below_p50(bucket.stats->below_p50);
  message.set_below_p90(bucket.stats->below_p90);
  message.set_below_p99(bucket.stats->below_p99);
  message.set_p90_width(bucket.stats->p90_width);
}

CellKey KeyOf(const server::StoredBucket& m) {
  return {m.device(), m.family(), m.dtype(), m.model(), m.provenance(), m.node()};
}

ErrorStats StatsOf(const server::StoredBucket& message) {
  std::vector<ErrorSketch::Bin> bins;
  for (int i = 0; i < std::min(message.bin_index_size(), message.bin_count_size()); ++i)
    bins.push_back({static_cast<std::int16_t>(message.bin_index(i)), message.bin_count(i)});
  return {.errors = ErrorSketch::FromBins(bins),
          .below_p50 = message.below_p50(),
          .below_p90 = message.below_p90(),
          .below_p99 = message.below_p99(),
          .p90_width = message.p90_width()};
}

void Encode(const DriftDetector& detector, server::StoredDetector& message) {
  const DriftDetector::Memory& m = detector.memory();
  message.set_state(static_cast<std::uint32_t>(detector.state()));
  message.set_count(m.count);
  message.set_level(m.level);
  message.set_deviation(m.deviation);
  Encode(m.up, *message.mutable_up());
  Encode(m.down, *message.mutable_down());
  message.set_recent(m.recent);
  message.set_normal_level(m.normal_level);
  message.set_back_count(m.back_count);
}

DriftDetector Decode(const server::StoredDetector& m) {
  const auto state = std::min(m.state(), static_cast<std::uint32_t>(DriftDetector::State::kFaster));
  return DriftDetector::Restore(static_cast<DriftDetector::State>(state), {.count = m.count(),
                                                                           .level = m.level(),
                                                                           .deviation = m.deviation(),
                                                                           .up = Decode(m.up()),
                                                                           .down = Decode(m.down()),
                                                                           .recent = m.recent(),
                                                                           .normal_level = m.normal_level(),
                                                                           .back_count = m.back_count()});
}

void Encode(const CorrectionLearner& learner, server::StoredWatch& message) {
  const CorrectionLearner::Memory& m = learner.memory();
  for (const auto& mean : m.classes) {
    message.add_class_weight(mean.weight);
    message.add_class_sum(mean.sum);
  }
  message.set_deviation(m.deviation);
  message.set_deviation_weight(m.deviation_weight);
  message.set_gain_weight(m.gain_weight);
  message.set_gain(m.gain);
  message.set_squared_gain(m.squared_gain);
  message.set_helps(m.helps);
  message.set_at_bound(m.at_bound);
}

CorrectionLearner LearnerOf(const server::StoredWatch& message) {
  CorrectionLearner::Memory m;
  for (int c = 0; c < std::min({kSizeClasses, message.class_weight_size(), message.class_sum_size()}); ++c)
    m.classes[static_cast<std::size_t>(c)] = {message.class_weight(c), message.class_sum(c)};
  m.deviation = message.deviation();
  m.deviation_weight = message.deviation_weight();
  m.gain_weight = message.gain_weight();
  m.gain = message.gain();
  m.squared_gain = message.squared_gain();
  m.helps = message.helps();
  m.at_bound = message.at_bound();
  return CorrectionLearner::Restore(m);
}

void Encode(const RecentErrors& r, server::StoredWatch& message) {
  for (const double value : {r.weight, r.ape, r.ln_error, r.below_p90, r.below_p99}) message.add_recent(value);
}

RecentErrors RecentOf(const server::StoredWatch& message) {
  RecentErrors recent;
  if (message.recent_size() != 5) return recent;
  recent.weight = message.recent(0);
  recent.ape = message.recent(1);
  recent.ln_error = message.recent(2);
  recent.below_p90 = message.recent(3);
  recent.below_p99 = message.recent(4);
  return recent;
}

}  // namespace gpueta
