// What a workload keeps fixed: a model runs few products and head layouts, with
// any number of tokens, sequences and lengths.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/measurements/measurements.h"

namespace gpueta {

// The kernels of one op that agree in the dims which are set here; the others
// are free.
struct Line {
  Op op = Op::kGemm;
  std::array<std::optional<std::int64_t>, kMaxDims> dims;
  std::array<std::optional<int>, kMaxDims> same_as;  // a free dim that always equals an earlier one
  std::optional<Attention::Phase> phase;             // attention; nullopt: both
  std::optional<Gemm::Layer> layer;                  // GEMM; nullopt: any
  std::string label;                                 // operator of a vector, collective or custom kernel; empty: any
  std::optional<DType> dtype;                        // of shapes generated on the line; candidates may have any

  friend bool operator==(const Line&, const Line&) = default;
};

// Whether a kernel lies on the line. Of layers only products of activations
// (bmm) are told from products with weights: the same product is `gemm` in one
// table and `linear` in another.
bool IsOn(const Line& line, const Kernel& kernel);

// The lines of a model's kernels of one op, each once. Free are the dims that
// depend on a symbol, and those that grow with what is asked of the model
// (batch, rows of a product, lengths, tokens) even where the file fixes them.
std::vector<Line> LinesOf(const Graph& graph, Op op);

// Lines from a CSV: one a row, columns named like the op's dims (an empty cell
// is a free dim), and phase, layer, name or collective where the op has them. Rows whose
// columns op or device name another op or device are skipped; columns lines and
// draw, which number sets of lines, are not read. INVALID_ARGUMENT with file,
// line and column for an unknown column, a bad value or a row that fixes no
// dim; and if no row is left.
absl::StatusOr<std::vector<Line>> ReadLines(std::istream& in, std::string_view file_name, Op op,
                                            std::string_view device);

// Indices of the rows on at least one of the lines.
std::vector<std::size_t> RowsOn(std::span<const Line> lines, std::span<const Measurement> rows);

}  // namespace gpueta
