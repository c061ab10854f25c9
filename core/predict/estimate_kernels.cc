// Batches of kernels of any ops: sorted by question, then evaluated in blocks.
#include <algorithm>

#include "core/base/errors.h"
#include "core/ops/launch.h"
#include "core/predict/predictor_state.h"
#include "core/predict/row_loops.h"

namespace gpueta {
namespace {

// Kernels sorted at a time. The working set lies on the stack and in the
// second-level cache.
constexpr std::size_t kBatch = 512;
// Questions told apart in a batch; kernels past these are evaluated alone.
constexpr std::size_t kMaxGroups = 48;
constexpr std::size_t kSlots = 128;  // of the hash table that finds them; a power of two
constexpr std::uint8_t kNone = 255;
static_assert(kMaxGroups < kNone && kSlots >= 2 * kMaxGroups);

// What makes questions equal, given equal options.
struct Key {
  std::uint64_t label_hash = 0;
  std::uint32_t kind = 0;  // op, phase and types
  friend bool operator==(const Key&, const Key&) = default;
};

Key KeyOf(const Kernel& kernel) {
  auto kind = static_cast<std::uint32_t>(kernel.op()) << 24 | static_cast<std::uint32_t>(kernel.dtype) << 16;
  if (const auto* attention = std::get_if<Attention>(&kernel.work))
    kind |= static_cast<std::uint32_t>(attention->kv_dtype) << 8 | static_cast<std::uint32_t>(attention->phase);
  return {LabelHash(kernel), kind};
}

struct Group {
  Key key;
  Question question;
  const Machine<double>* machine = nullptr;
  Op op = Op::kGemm;
  int count = 0;  // kernels of the batch
  int start = 0;  // of its kernels among the sorted ones
};

// The questions met so far. They last from batch to batch.
class Groups {
 public:
  Groups(const Predictor::State& state, const EstimateOptions& options) : state_(state), options_(options) {
    std::fill_n(slots_, kSlots, kNone);
  }

  // kNone for a kernel that has to be evaluated alone.
  absl::StatusOr<std::uint8_t> Find(const Kernel& kernel);
  std::span<Group> all() { return {groups_, count_}; }

 private:
  const Predictor::State& state_;
  const EstimateOptions& options_;
  std::uint8_t slots_[kSlots];
  Group groups_[kMaxGroups];
  std::size_t count_ = 0;
};

absl::StatusOr<std::uint8_t> Groups::Find(const Kernel& kernel) {
  // A collective's backend is part of its question. A known launch may choose
  // another form; an attention's kernel is in its label.
  if (IsAskedSingly(options_.estimator) || kernel.op() == Op::kCollective ||
      (TellsLaunch(kernel) && kernel.op() != Op::kAttention))
    return kNone;
  const Key key = KeyOf(kernel);
  std::size_t slot = (key.label_hash ^ (key.label_hash >> 32) ^ ((key.kind * 0x9E3779B1U) >> 16)) % kSlots;
  for (; slots_[slot] != kNone; slot = (slot + 1) % kSlots) {
    if (groups_[slots_[slot]].key == key) return slots_[slot];
  }
  if (count_ == kMaxGroups) return kNone;
  GPUETA_ASSIGN_OR_RETURN(const Question question, state_.Ask(kernel, options_));
  if (question.route.table == nullptr || state_.MayAskLaunch(kernel, question.route, options_)) return kNone;
  const auto group = static_cast<std::uint8_t>(count_++);
  groups_[group] = {key, question, &state_.MachineFor(kernel), kernel.op(), 0, 0};
  slots_[slot] = group;
  return group;
}

// What one batch needs of its kernels.
struct Batch {
  std::span<const Kernel> kernels;
  std::span<Estimate> estimates;
  Counts counts[kBatch];
  std::uint16_t sorted[kBatch];  // positions, group by group
};

void EvaluateGroup(const Predictor::State& state, const Group& group, Batch& batch) {
  CompiledTable::Input input;
  CompiledTable::Output output;
  alignas(64) float work_us[kBlockRows];
  for (int done = 0; done < group.count; done += kBlockRows) {
    const std::uint16_t* members = &batch.sorted[group.start + done];
    const int rows = std::min(kBlockRows, group.count - done);
    input.block.rows = PaddedRows(rows);
    for (int r = 0; r < input.block.rows; ++r)
      CompiledTable::LoadKernel(batch.kernels[members[r < rows ? r : 0]], r, input);
    if (TakesFloorOff(group.question)) {
      for (int r = 0; r < input.block.rows; ++r)
        work_us[r] = static_cast<float>(RooflineUs(batch.counts[members[r < rows ? r : 0]], *group.machine));
    }
    state.Answer(group.question, work_us, input, output);
    for (int r = 0; r < rows; ++r) {
      Estimate& estimate = batch.estimates[members[r]];
      estimate.bound = BoundOf(group.op, batch.counts[members[r]], *group.machine, output.p50_us[r]);
      estimate.correction = 1;
    }
    if (group.question.correction != nullptr) {
      float factors[kBlockRows];
      CorrectRows(*group.question.correction, rows, output.p50_us, factors);
      for (int r = 0; r < rows; ++r) batch.estimates[members[r]].correction = factors[r];
    }
    for (int r = 0; r < rows; ++r) {
      const double p50 = output.p50_us[r];
      Estimate& estimate = batch.estimates[members[r]];
      estimate.latency_us = {p50, p50 * output.p90_factor[r], p50 * output.p99_factor[r]};
      estimate.provenance = output.provenance[r];
      estimate.estimator = kFamilyEstimator;
    }
  }
}

// `first`: position of the batch's first kernel, for errors.
absl::Status EvaluateBatch(const Predictor::State& state, const EstimateOptions& options, std::size_t first,
                           Groups& groups, Batch& batch) {
  std::uint8_t group_of[kBatch];
  for (Group& group : groups.all()) group.count = 0;
  for (std::size_t i = 0; i < batch.kernels.size(); ++i) {
    const Kernel& kernel = batch.kernels[i];
    const auto in_kernel = [&](const absl::Status& status) {
      return InField(fmt::format("kernels[{}]", first + i), status);
    };
    if (const absl::Status valid = Validate(kernel, batch.counts[i]); !valid.ok()) return in_kernel(valid);
    const absl::StatusOr<std::uint8_t> group = groups.Find(kernel);
    if (!group.ok()) return in_kernel(group.status());
    group_of[i] = *group;
    if (*group != kNone) {
      ++groups.all()[*group].count;
      continue;
    }
    const absl::StatusOr<Estimate> alone = state.EstimateValid(kernel, batch.counts[i], options);
    if (!alone.ok()) return in_kernel(alone.status());
    batch.estimates[i] = *alone;
  }
  int start = 0;
  int next[kMaxGroups];
  for (std::size_t g = 0; g < groups.all().size(); ++g) {
    Group& group = groups.all()[g];
    next[g] = group.start = start;
    start += group.count;
  }
  for (std::size_t i = 0; i < batch.kernels.size(); ++i) {
    if (group_of[i] != kNone) batch.sorted[next[group_of[i]]++] = static_cast<std::uint16_t>(i);
  }
  for (const Group& group : groups.all()) EvaluateGroup(state, group, batch);
  return absl::OkStatus();
}

}  // namespace

absl::Status Predictor::EstimateKernels(std::span<const Kernel> kernels, const EstimateOptions& options,
                                        std::span<Estimate> estimates) const {
  GPUETA_RETURN_IF_ERROR(CheckEstimator(options.estimator));
  Groups groups(*state_, options);
  Batch batch;
  for (std::size_t start = 0; start < kernels.size(); start += kBatch) {
    const std::size_t count = std::min(kBatch, kernels.size() - start);
    batch.kernels = kernels.subspan(start, count);
    batch.estimates = estimates.subspan(start, count);
    GPUETA_RETURN_IF_ERROR(EvaluateBatch(*state_, options, start, groups, batch));
  }
  return absl::OkStatus();
}

}  // namespace gpueta
