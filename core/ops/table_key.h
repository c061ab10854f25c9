// What a table of measurements or parameters is about.
#pragma once

#include <compare>
#include <string>

#include "core/ops/kernel.h"
#include "core/ops/timing.h"

namespace gpueta {

// Rows with different keys are never fitted together.
struct TableKey {
  Op op = Op::kGemm;
  Attention::Phase phase = Attention::Phase::kPrefill;  // attention only
  DType dtype = DType::kFp32;
  DType kv_dtype = DType::kFp32;  // attention only
  Timing timing = Timing::kKernel;
  std::string backend;  // collectives only

  friend auto operator<=>(const TableKey&, const TableKey&) = default;
};

TableKey KeyOf(const Kernel& kernel, Timing timing);

// Tables for which this is the same teach each other: what a collective takes
// depends on its bytes, little on their type.
TableKey EvidenceKeyOf(TableKey key);

// e.g. "gemm bf16 graph" or "attention prefill bf16/fp8 kernel".
std::string Describe(const TableKey& key);

}  // namespace gpueta
