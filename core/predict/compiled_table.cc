#include "core/predict/compiled_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/ops/vector/vector.h"
#include "core/predict/row_loops.h"

namespace gpueta {
namespace {

// Intervals of a label that was not measured are this much wider.
constexpr float kStandInWidening = 2.0F;

// Measured kernels a word of the filter stands for: one in some hundred
// look-ups of other kernels passes it and pays for a search.
constexpr std::size_t kKernelsPerWord = 2;

// Rows of the largest tiles of libraries: slices of as many waste none.
constexpr float kSliceRows = 256;
// Of its arithmetic a slice may take for reading B again.
constexpr float kReadAgainShare = 0.125F;

}  // namespace

CompiledTable::CompiledTable(const Table& table) : table_(&table) {
  const int features = static_cast<int>(FormInfoOf(table.key.op, table.key.phase).features.size());
  for (std::size_t v = 0; v < table.variants.size(); ++v) {
    variant_hashes_.push_back(LabelHash(table.variants[v].label));
    residuals_.emplace_back(table.residual, features, static_cast<int>(v));
  }
  measured_p90_ = std::exp(table.interval.measured_p90_ln);
  measured_p99_ = std::exp(table.interval.measured_p99_ln);
  dim_min_.assign(table.dim_min.begin(), table.dim_min.end());
  dim_max_.assign(table.dim_max.begin(), table.dim_max.end());
  if (!table.measured_hash.empty()) {
    const std::size_t words = std::bit_ceil(table.measured_hash.size() / kKernelsPerWord + 1);
    measured_filter_.assign(words, 0);
    for (std::uint32_t hash : table.measured_hash) measured_filter_[hash & (words - 1)] |= FilterBits(hash);
  }
}

VariantChoice CompiledTable::ChooseVariant(const Kernel& kernel, std::uint64_t label_hash) const {
  const auto find = [this](std::uint64_t hash) {
    const auto it = std::find(variant_hashes_.begin(), variant_hashes_.end(), hash);
    return it == variant_hashes_.end() ? -1 : static_cast<int>(it - variant_hashes_.begin());
  };
  if (const int exact = find(label_hash); exact >= 0) return {exact, true};
  // One set of parameters answers for every label: nothing stands in.
  if (variant_hashes_.size() == 1) return {0, kernel.op() != Op::kVector && kernel.op() != Op::kCustom};
  if (const auto* vector = std::get_if<Vector>(&kernel.work)) {
    Vector like = *vector;
    like.op = InfoOf(vector->op).like;
    const int similar = find(LabelHash(Kernel{.name = "", .dtype = kernel.dtype, .work = like, .launch = {}}));
    return {std::max(similar, 0), false};
  }
  if (const auto* gemm = std::get_if<Gemm>(&kernel.work); gemm != nullptr && gemm->layer == Gemm::Layer::kGemm) {
    const int linear = find(LabelHash(Name(Gemm::Layer::kLinear)));
    const int batched = find(LabelHash(Name(Gemm::Layer::kBmm)));
    if (linear >= 0 && batched >= 0) return {linear, true, batched};
  }
  // An attention whose kernel is not named, a product whose layer was not set
  // apart: the pooled parameters are meant for them.
  return {0, kernel.op() == Op::kAttention || kernel.op() == Op::kGemm};
}

void CompiledTable::CutIntoSlices(const Machine<float>& machine, Block& block) {
  // A row takes 2·k·n operations, reading B again k·n elements.
  const float rows_that_hide_b = machine.w_bytes * machine.per_byte / (2 * machine.per_flop * kReadAgainShare);
  const float slice = kSliceRows * std::max(std::ceil(rows_that_hide_b / kSliceRows), 1.0F);
  for (int r = 0; r < block.rows; ++r) {
    float& batch = block.dims[0][r];
    float& m = block.dims[1][r];
    batch *= std::max(m / slice, 1.0F);
    m = std::min(m, slice);
  }
}

void CompiledTable::LoadKernel(const Kernel& kernel, int row, Input& input) {
  std::array<std::int64_t, kMaxDims> dims;
  const int count = GetDims(kernel, dims);
  for (int d = 0; d < count; ++d) {
    const std::int64_t value = dims[static_cast<std::size_t>(d)];
    input.block.dims[d][row] = static_cast<float>(value);
    input.raw[d][row] = FoldHash(static_cast<std::uint64_t>(value));
  }
}

void CompiledTable::Evaluate(const Machine<float>& machine, const VariantChoice& variant, std::uint64_t label_hash,
                             bool use_measured, Input& input, Output& output) const {
  Block& block = input.block;
  const int rows = block.rows;
  const CompiledResidual& residual = residuals_[static_cast<std::size_t>(variant.index)];
  const bool learnt = !residual.empty();
  EvaluateForm(table_->key.op, table_->key.phase, machine,
               table_->variants[static_cast<std::size_t>(variant.index)].theta.data(), learnt, block);
  if (learnt) residual.Evaluate(block);

  const float per_ln = static_cast<float>(math::kLog2E) * (variant.exact ? 1.0F : kStandInWidening);
  const float log2_p90 = table_->interval.p90_ln * per_ln;
  const float log2_p99 = table_->interval.p99_ln * per_ln;
  if (!residual.has_spread()) std::fill_n(block.spread, rows, 1.0F);
  SpreadRows(log2_p90, block.spread, rows, output.p90_factor);
  SpreadRows(log2_p99, block.spread, rows, output.p99_factor);
  std::fill_n(output.provenance, rows, variant.exact ? Provenance::kInterpolated : Provenance::kExtrapolated);

  alignas(64) std::uint32_t hashes[kBlockRows];
  alignas(64) std::uint8_t hits[kBlockRows];
  Known known{.low = dim_min_, .high = dim_max_, .filter = {}, .label_hash = FoldHash(label_hash)};
  if (use_measured) known.filter = measured_filter_;
  const Sighting seen = LookUpRows(known, block.dims, input.raw, rows, hashes, hits);
  if (seen.outside > 0) LeaveHull(block, output);
  ScaleRows(block.us, learnt ? block.residual_log2 : nullptr, rows, output.p50_us);
  if (seen.hits > 0) ApplyMeasured(hashes, hits, block, output);
  LimitRows(block.limit_us, rows, output.p50_us);
}

// Outside the hull of the measured shapes intervals are wider, and the residual
// counts less.
void CompiledTable::LeaveHull(Block& block, Output& output) const {
  const int dims = static_cast<int>(dim_min_.size());
  const int rows = block.rows;
  alignas(64) float octaves[kBlockRows];
  alignas(64) std::uint8_t outside[kBlockRows];
  OctavesOutside(block.dims, dims, rows, dim_min_.data(), dim_max_.data(), octaves, outside);
  const float log2_growth = table_->interval.growth_per_octave * static_cast<float>(math::kLog2E);
  GrowRows(log2_growth, octaves, rows, output.p90_factor);
  GrowRows(log2_growth, octaves, rows, output.p99_factor);
  DampRows(octaves, rows, block.residual_log2);
  for (int r = 0; r < rows; ++r) {
    if (outside[r] != 0) output.provenance[r] = Provenance::kExtrapolated;
  }
}

// Kernels that were measured themselves answer with their measurement.
void CompiledTable::ApplyMeasured(const std::uint32_t* hashes, const std::uint8_t* hits, Block& block,
                                  Output& output) const {
  for (int r = 0; r < block.rows; ++r) {
    if (hits[r] == 0) continue;
    const auto it = std::lower_bound(table_->measured_hash.begin(), table_->measured_hash.end(), hashes[r]);
    if (it == table_->measured_hash.end() || *it != hashes[r]) continue;
    output.p50_us[r] *= std::exp(table_->measured_ln[static_cast<std::size_t>(it - table_->measured_hash.begin())]);
    output.p90_factor[r] = measured_p90_;
    output.p99_factor[r] = measured_p99_;
    block.limit_us[r] = 0;
    output.provenance[r] = Provenance::kMeasured;
  }
}

}  // namespace gpueta
