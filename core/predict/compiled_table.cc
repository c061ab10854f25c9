#include "core/predict/compiled_table.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/ops/vector/vector.h"

namespace gpueta {
namespace {

// Intervals of a label that was not measured are this much wider.
constexpr float kStandInWidening = 2.0F;

// Bits of the filter for each measured kernel: one in 16 look-ups of other
// kernels passes it and pays for a search.
constexpr std::size_t kFilterBitsPerKernel = 16;

}  // namespace

CompiledTable::CompiledTable(const Table& table) : table_(&table) {
  const int features = static_cast<int>(FormInfoOf(table.key.op, table.key.phase).features.size());
  for (std::size_t v = 0; v < table.variants.size(); ++v) {
    variant_hashes_.push_back(LabelHash(table.variants[v].label));
    residuals_.emplace_back(table.residual, features, static_cast<int>(v));
  }
  dim_min_.assign(table.dim_min.begin(), table.dim_min.end());
  dim_max_.assign(table.dim_max.begin(), table.dim_max.end());
  if (!table.measured_hash.empty()) {
    const std::size_t bits =
        std::bit_ceil(std::max<std::size_t>(64, table.measured_hash.size() * kFilterBitsPerKernel));
    measured_filter_.assign(bits / 64, 0);
    for (std::uint32_t hash : table.measured_hash)
      measured_filter_[(hash & (bits - 1)) / 64] |= std::uint64_t{1} << (hash % 64);
  }
}

VariantChoice CompiledTable::ChooseVariant(const Kernel& kernel) const {
  const auto find = [this](std::uint64_t hash) {
    const auto it = std::find(variant_hashes_.begin(), variant_hashes_.end(), hash);
    return it == variant_hashes_.end() ? -1 : static_cast<int>(it - variant_hashes_.begin());
  };
  if (const int exact = find(LabelHash(kernel)); exact >= 0) return {exact, true};
  // One set of parameters answers for every label: nothing stands in.
  if (variant_hashes_.size() == 1) return {0, kernel.op() != Op::kVector && kernel.op() != Op::kCustom};
  if (const auto* vector = std::get_if<Vector>(&kernel.work)) {
    Vector like = *vector;
    like.op = InfoOf(vector->op).like;
    const int similar = find(LabelHash(Kernel{.name = "", .dtype = kernel.dtype, .work = like, .launch = {}}));
    return {std::max(similar, 0), false};
  }
  // An attention whose kernel is not named, a product whose layer was not set
  // apart: the pooled parameters are meant for them.
  return {0, kernel.op() == Op::kAttention || kernel.op() == Op::kGemm};
}

void CompiledTable::Evaluate(const Machine<float>& machine, const VariantChoice& variant, std::uint32_t label_hash,
                             bool use_measured, Input& input, Output& output) const {
  Block& block = input.block;
  const auto v = static_cast<std::size_t>(variant.index);
  const bool residual = !residuals_[v].empty();
  EvaluateForm(table_->key.op, table_->key.phase, machine, table_->variants[v].theta.data(), residual, block);
  if (residual) {
    residuals_[v].AddTo(block);
  } else {
    std::fill_n(block.spread, block.rows, 1.0F);
  }
  const Interval& interval = table_->interval;
  const float widening = variant.exact ? 1.0F : kStandInWidening;
  const float log2_p90 = interval.p90_ln * widening * static_cast<float>(math::kLog2E);
  const float log2_p99 = interval.p99_ln * widening * static_cast<float>(math::kLog2E);
  for (int r = 0; r < block.rows; ++r) {
    output.p50_us[r] = math::Exp2(block.log2_us[r]);
    output.p90_factor[r] = math::Exp2(log2_p90 * block.spread[r]);
    output.p99_factor[r] = math::Exp2(log2_p99 * block.spread[r]);
    output.provenance[r] = variant.exact ? Provenance::kInterpolated : Provenance::kExtrapolated;
  }
  Widen(input, output);
  if (use_measured && !measured_filter_.empty()) ApplyMeasured(label_hash, input, output);
}

// Wider intervals outside the hull of the measured shapes.
void CompiledTable::Widen(const Input& input, Output& output) const {
  const Block& block = input.block;
  for (std::size_t d = 0; d < dim_min_.size(); ++d) {
    int outside = 0;
    for (int r = 0; r < block.rows; ++r) outside += (block.dims[d][r] < dim_min_[d]) | (block.dims[d][r] > dim_max_[d]);
    if (outside == 0) continue;
    for (int r = 0; r < block.rows; ++r) {
      const float x = block.dims[d][r];
      // Dims that may be 0 or negative (padding) count from 1.
      const float octaves = x > dim_max_[d]   ? std::log2(std::max(x, 1.0F) / std::max(dim_max_[d], 1.0F))
                            : x < dim_min_[d] ? std::log2(std::max(dim_min_[d], 1.0F) / std::max(x, 1.0F))
                                              : -1.0F;
      if (octaves < 0) continue;
      const float factor = std::exp(table_->interval.growth_per_octave * octaves);
      output.p90_factor[r] *= factor;
      output.p99_factor[r] *= factor;
      output.provenance[r] = Provenance::kExtrapolated;
    }
  }
}

// Kernels that were measured themselves answer with their measurement.
void CompiledTable::ApplyMeasured(std::uint32_t label_hash, const Input& input, Output& output) const {
  const int rows = input.block.rows;
  const int dims = DimNamesOf(table_->key.op).size;
  std::uint32_t hashes[kBlockRows];
  for (int r = 0; r < rows; ++r) hashes[r] = label_hash;
  for (int d = 0; d < dims; ++d) {
    for (int r = 0; r < rows; ++r) hashes[r] = MixDim(hashes[r], input.raw[d][r]);
  }
  const std::size_t mask = measured_filter_.size() * 64 - 1;
  for (int r = 0; r < rows; ++r) {
    const std::uint32_t hash = hashes[r];
    if ((measured_filter_[(hash & mask) / 64] >> (hash % 64) & 1) == 0) continue;
    const auto it = std::lower_bound(table_->measured_hash.begin(), table_->measured_hash.end(), hash);
    if (it == table_->measured_hash.end() || *it != hash) continue;
    output.p50_us[r] *= std::exp(table_->measured_ln[static_cast<std::size_t>(it - table_->measured_hash.begin())]);
    output.p90_factor[r] = std::exp(table_->interval.measured_p90_ln);
    output.p99_factor[r] = std::exp(table_->interval.measured_p99_ln);
    output.provenance[r] = Provenance::kMeasured;
  }
}

}  // namespace gpueta
