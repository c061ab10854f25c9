// A matrix product as the library's choice among tiles and splits of k.
//
// Each configuration has a cost; the library is taken to choose about the
// cheapest: T = softmin over configurations of
//   rate·e^penalty(tile)·[(1−rho)·⌈w⌉ + rho·max(w, 1)]·2·tm·tn·(k/s)/(peak/SM)
//   + latency·k/s + overhead·⌈w⌉·√(tm·tn/16384) + reduction of the s parts,
// w = tiles/SM; memory with a weight for each operand. It errs elsewhere than
// GemmForm, so that their mean is better than either (docs/accuracy.md).
#pragma once

#include <memory>

#include "core/fit/prior.h"

namespace gpueta {

// `data` must be rows of a GEMM table, at least 24 of them.
std::unique_ptr<Prior> FitGemmTilesPrior(const TableData& data);

}  // namespace gpueta
