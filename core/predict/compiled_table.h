// A fitted table made ready for evaluation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/ops/machine.h"
#include "core/predict/block.h"
#include "core/predict/compiled_residual.h"
#include "core/predict/estimate.h"
#include "core/profile/profile.h"

namespace gpueta {

// Which parameters answer for a label.
struct VariantChoice {
  int index = 0;
  bool exact = true;  // false: the label was not measured, another one stands in
  // Where plain products were not measured, but linear layers and batched products
  // were: `index` is that of linear layers, this one that of batched products. A
  // library may run either's kernels: the quicker ones.
  int batched = -1;
};

// Immutable.
class CompiledTable {
 public:
  // `table` must outlive this.
  explicit CompiledTable(const Table& table);

  const Table& table() const { return *table_; }

  // `label_hash` is LabelHash(kernel).
  VariantChoice ChooseVariant(const Kernel& kernel, std::uint64_t label_hash) const;

  // Rows to estimate: dims as floats and, for look-ups of measured kernels, as
  // integers (folded to 32 bits). Both hold block.rows valid entries.
  struct Input {
    Block block;
    alignas(64) std::uint32_t raw[kMaxDims][kBlockRows];
  };
  // Makes products batched ones: what has more rows than a slice becomes as many
  // slices that share B. The same blocks run.
  static void CutIntoSlices(const Machine<float>& machine, Block& block);
  // Puts a kernel's dims into a row.
  static void LoadKernel(const Kernel& kernel, int row, Input& input);
  struct Output {
    alignas(64) float p50_us[kBlockRows];
    alignas(64) float p90_factor[kBlockRows];  // what p50 is multiplied by
    alignas(64) float p99_factor[kBlockRows];
    Provenance provenance[kBlockRows];
  };
  // `machine` holds the numbers of the device and dtype asked for. `label_hash`
  // is LabelHash of the kernels; pass use_measured = false when the table
  // stands in for another device, dtype or timing.
  void Evaluate(const Machine<float>& machine, const VariantChoice& variant, std::uint64_t label_hash,
                bool use_measured, Input& input, Output& output) const;

 private:
  void LeaveHull(Block& block, Output& output) const;
  void ApplyMeasured(const std::uint32_t* hashes, const std::uint8_t* hits, Block& block, Output& output) const;

  const Table* table_;
  std::vector<std::uint64_t> variant_hashes_;
  std::vector<CompiledResidual> residuals_;  // one a variant
  std::vector<float> dim_min_;
  std::vector<float> dim_max_;
  float measured_p90_ = 1;  // factors of kernels that were measured
  float measured_p99_ = 1;
  std::vector<std::uint32_t> measured_filter_;  // of measured_hash, see FilterBits
};

// A profile with all its tables compiled. Neither copied nor moved: the
// compiled tables point into the profile.
class CompiledProfile {
 public:
  explicit CompiledProfile(LoadedProfile loaded) : loaded_(std::move(loaded)) {
    for (const Table& table : loaded_.profile.tables) tables_.emplace_back(table);
  }
  CompiledProfile(const CompiledProfile&) = delete;
  CompiledProfile& operator=(const CompiledProfile&) = delete;

  const LoadedProfile& loaded() const { return loaded_; }
  const std::vector<CompiledTable>& tables() const { return tables_; }

 private:
  LoadedProfile loaded_;
  std::vector<CompiledTable> tables_;
};

}  // namespace gpueta
