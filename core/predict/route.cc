#include "core/predict/route.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

namespace gpueta {
namespace {

// How much wider intervals get when a table stands in for another one.
constexpr float kOtherTimingWidening = 1.3F;
constexpr float kOtherDTypeWidening = 1.6F;
constexpr float kSliceWidening = 1.6F;

// Types that stand in for a type without tables, nearest first.
std::span<const DType> RelativesOf(DType dtype) {
  using enum DType;
  static constexpr std::array kOfFp64 = {kFp32, kTf32};
  static constexpr std::array kOfFp32 = {kTf32, kFp16, kBf16, kFp64};
  static constexpr std::array kOfTf32 = {kBf16, kFp16, kFp32};
  static constexpr std::array kOfFp16 = {kBf16, kTf32, kFp8, kInt8, kFp32};
  static constexpr std::array kOfBf16 = {kFp16, kTf32, kFp8, kInt8, kFp32};
  static constexpr std::array kOfFp8 = {kInt8, kBf16, kFp16, kTf32, kFp32};
  static constexpr std::array kOfInt8 = {kFp8, kFp16, kBf16, kTf32, kFp32};
  static constexpr std::array kOfInt4 = {kBf16, kFp16, kFp8, kInt8, kFp32};
  switch (dtype) {
    case kFp64: return kOfFp64;
    case kFp32: return kOfFp32;
    case kTf32: return kOfTf32;
    case kFp16: return kOfFp16;
    case kBf16: return kOfBf16;
    case kFp8: return kOfFp8;
    case kInt8: return kOfInt8;
    case kInt4: break;
  }
  return kOfInt4;
}

// 0 for the same type, then by nearness; nullopt for no relative.
std::optional<int> DistanceOf(DType asked, DType has) {
  if (asked == has) return 0;
  const auto relatives = RelativesOf(asked);
  const auto it = std::find(relatives.begin(), relatives.end(), has);
  if (it == relatives.end()) return std::nullopt;
  return static_cast<int>(it - relatives.begin()) + 1;
}

// Types whose kernels move as many bytes of operands and run at one rate where a
// device has both: nearer than the same type on another device.
bool AreAlike(DType a, DType b) {
  const ElementBits x = BitsOf(a), y = BitsOf(b);
  return x.activation < 32 && x.activation == y.activation && x.weight == y.weight;
}

// So few kernels of other devices say less than another type's many.
constexpr std::int64_t kFewRows = 100;

Route::Narrowing NarrowingOf(DType asked, DType has, bool widened) {
  const ElementBits to = BitsOf(asked), from = BitsOf(has);
  if (from.weight != 16 || to.weight >= 16) return Route::Narrowing::kNone;
  return to.activation < 16 && !widened ? Route::Narrowing::kOperands : Route::Narrowing::kWeights;
}

// Where the route of a question is kept.
constexpr std::size_t kTimings = kAllTimings.size() + 1;  // one of them, or any
constexpr std::size_t kForms = kAllOps.size() + 1;        // attention has two phases
constexpr std::size_t kKeptRoutes = kForms * kAllDTypes.size() * kTimings;

std::size_t PlaceOf(Op op, Attention::Phase phase, DType dtype, std::optional<Timing> timing) {
  const std::size_t form =
      op == Op::kAttention && phase == Attention::Phase::kDecode ? kAllOps.size() : static_cast<std::size_t>(op);
  const std::size_t time = timing.has_value() ? static_cast<std::size_t>(*timing) : kAllTimings.size();
  return (form * kAllDTypes.size() + static_cast<std::size_t>(dtype)) * kTimings + time;
}

// A vector operator of which nothing alike was measured: what operators are
// like on average says little.
bool IsUnlike(const CompiledTable& table, const Kernel& kernel, std::uint64_t label_hash) {
  return kernel.op() == Op::kVector && table.table().variants.size() > 1 &&
         table.ChooseVariant(kernel, label_hash).index == 0;
}

}  // namespace

Route Route::For(Timing answer) const {
  Route route = *this;
  route.timing = answer;
  if (table != nullptr && exact && table->table().key.timing != answer) {
    route.exact = false;
    route.widening *= kOtherTimingWidening;
  }
  return route;
}

template <class Unlike>
Route Routes::Search(const TableKey& asked, bool any_timing, Unlike unlike) const {
  Route best;
  best.timing = asked.timing;
  int best_cost = std::numeric_limits<int>::max();
  const auto consider = [&](const CompiledTable& table, bool is_own) {
    const TableKey& has = table.table().key;
    if (has.op != asked.op || has.phase != asked.phase) return;
    const auto distance = DistanceOf(asked.dtype, has.dtype);
    if (!distance.has_value()) return;
    const bool other_timing = !any_timing && has.timing != asked.timing;
    const bool other_kv = asked.op == Op::kAttention && has.kv_dtype != asked.kv_dtype;
    const bool other_backend = !asked.backend.empty() && has.backend != asked.backend;
    // An operator like the one asked for before the same type, own evidence
    // before others', a type like it before others' evidence, the same type
    // before the same timing; of equally good tables the one nearest to device
    // time, then the larger one.
    const int other_type = *distance == 0 ? 0 : 100 * *distance + (AreAlike(asked.dtype, has.dtype) ? 500 : 2000);
    const bool widened = widened_[static_cast<std::size_t>(asked.dtype)];
    // Other devices' say little where there are few, or with units that are missing here.
    const bool little = !is_own && (table.table().rows < kFewRows || (widened && *distance == 0));
    const int cost = (unlike(table) ? 4000 : 0) + (is_own ? 0 : 1000) + (little ? 2500 : 0) + other_type +
                     (other_backend ? 400 : 0) + (other_kv ? 200 : 0) + (other_timing ? 50 : 0) +
                     10 * (static_cast<int>(Timing::kKernel) - static_cast<int>(has.timing));
    if (cost > best_cost || (cost == best_cost && table.table().rows <= best.table->table().rows)) return;
    best_cost = cost;
    best.table = &table;
    best.own = is_own;
    best.timing = any_timing ? has.timing : asked.timing;
    best.widening = (other_timing ? kOtherTimingWidening : 1) *
                    (*distance > 0 || other_kv || other_backend ? kOtherDTypeWidening : 1);
    best.narrowing = NarrowingOf(asked.dtype, has.dtype, widened);
    best.repeats = is_own && *distance == 0 && !other_kv && !other_backend;
    best.exact = best.repeats && !other_timing;
    if (is_own && of_slice_) {
      best.own = best.repeats = best.exact = false;
      best.widening *= kSliceWidening;
    }
  };
  if (own_ != nullptr) {
    for (const CompiledTable& table : own_->tables()) consider(table, true);
  }
  if (transfer_ != nullptr) {
    for (const CompiledTable& table : transfer_->tables()) consider(table, false);
  }
  return best;
}

Routes::Routes(const CompiledProfile* own, const CompiledProfile* transfer, const DeviceSpec& spec, bool of_slice)
    : own_(own), transfer_(transfer), of_slice_(of_slice) {
  const double wide = std::max(PeakTflops(spec, DType::kFp16), PeakTflops(spec, DType::kBf16));
  for (const DType dtype : kAllDTypes) {
    widened_[static_cast<std::size_t>(dtype)] = BitsOf(dtype).activation == 8 && PeakTflops(spec, dtype) <= wide;
  }
  found_.resize(kKeptRoutes);
  const auto keep = [&](Op op, Attention::Phase phase, DType dtype, std::optional<Timing> timing) {
    TableKey key{.op = op, .phase = phase, .dtype = dtype, .timing = timing.value_or(Timing::kKernel)};
    if (op == Op::kAttention) key.kv_dtype = dtype;
    found_[PlaceOf(op, phase, dtype, timing)] =
        Search(key, !timing.has_value(), [](const CompiledTable&) { return false; });
  };
  for (const Op op : kAllOps) {
    for (const DType dtype : kAllDTypes) {
      for (std::size_t t = 0; t < kTimings; ++t) {
        std::optional<Timing> timing;
        if (t < kAllTimings.size()) timing = kAllTimings[t];
        keep(op, Attention::Phase::kPrefill, dtype, timing);
        if (op == Op::kAttention) keep(op, Attention::Phase::kDecode, dtype, timing);
      }
    }
  }
}

Route Routes::Find(const Kernel& kernel, std::uint64_t label_hash, std::optional<Timing> timing) const {
  const Op op = kernel.op();
  const auto* attention = std::get_if<Attention>(&kernel.work);
  if (op != Op::kCollective && (attention == nullptr || attention->kv_dtype == kernel.dtype)) {
    const auto phase = attention == nullptr ? Attention::Phase::kPrefill : attention->phase;
    const Route& route = found_[PlaceOf(op, phase, kernel.dtype, timing)];
    // Tables that are unlike only ever cost more, so the cheapest one stays the
    // cheapest unless it is unlike itself.
    if (route.table == nullptr || !IsUnlike(*route.table, kernel, label_hash)) return route;
  }
  return Search(KeyOf(kernel, timing.value_or(Timing::kKernel)), !timing.has_value(),
                [&](const CompiledTable& table) { return IsUnlike(table, kernel, label_hash); });
}

}  // namespace gpueta
