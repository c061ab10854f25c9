// Columns: one question, many rows.
#include <algorithm>

#include "core/base/errors.h"
#include "core/predict/predictor_state.h"
#include "core/predict/row_loops.h"

namespace gpueta {
namespace {

// Positions of the dims that are part of a label.
constexpr int kVectorOperands = 2;
constexpr int kCollectiveRanks = 1;

std::int64_t DimAt(const KernelColumns& columns, int dim, std::size_t row) {
  const auto& column = columns.dims[static_cast<std::size_t>(dim)];
  if (column.empty()) return *DefaultDim(columns.prototype.op(), dim);
  return column[column.size() == 1 ? 0 : row];
}

// Rows that have a label each, are answered by a form for single kernels, or take
// a floor off that goes by each kernel's work.
absl::Status EstimateRowByRow(const Predictor& predictor, const KernelColumns& columns, const EstimateOptions& options,
                              ColumnsResult& result) {
  Kernel kernel = columns.prototype;
  for (std::size_t row = 0; row < columns.rows; ++row) {
    SetRow(columns, row, kernel);
    GPUETA_ASSIGN_OR_RETURN(const Estimate estimate, predictor.EstimateKernel(kernel, options));
    const Quantiles& us = estimate.latency_us;
    if (!result.p50_us.empty()) result.p50_us[row] = static_cast<float>(us.p50);
    if (!result.p90_us.empty()) result.p90_us[row] = static_cast<float>(us.p90);
    if (!result.p99_us.empty()) result.p99_us[row] = static_cast<float>(us.p99);
    if (!result.provenance.empty()) result.provenance[row] = estimate.provenance;
    result.estimator = estimate.estimator;
  }
  return absl::OkStatus();
}

// Dims that are the same in all rows: once for all blocks.
void LoadConstantDims(const KernelColumns& columns, int dims, CompiledTable::Input& input) {
  for (int d = 0; d < dims; ++d) {
    if (columns.dims[static_cast<std::size_t>(d)].size() > 1) continue;
    const std::int64_t value = DimAt(columns, d, 0);
    std::fill_n(input.raw[d], kBlockRows, FoldHash(static_cast<std::uint64_t>(value)));
    std::fill_n(input.block.dims[d], kBlockRows, static_cast<float>(value));
  }
}

// The product of two floats is the same rounded once as a float and, as for
// single kernels, computed in double and then rounded.
void Store(const CompiledTable::Output& output, std::size_t start, int rows, ColumnsResult& result) {
  const auto count = static_cast<std::size_t>(rows);
  if (!result.p50_us.empty()) std::copy_n(output.p50_us, count, &result.p50_us[start]);
  if (!result.p90_us.empty()) MultiplyRows(output.p50_us, output.p90_factor, rows, &result.p90_us[start]);
  if (!result.p99_us.empty()) MultiplyRows(output.p50_us, output.p99_factor, rows, &result.p99_us[start]);
  if (!result.provenance.empty()) std::copy_n(output.provenance, count, &result.provenance[start]);
}

// The prototype's question, with the dim that its label holds.
absl::StatusOr<Question> AskFor(const Predictor::State& state, const KernelColumns& columns,
                                const EstimateOptions& options) {
  const Kernel& prototype = columns.prototype;
  if (prototype.op() != Op::kVector && prototype.op() != Op::kCollective) return state.Ask(prototype, options);
  // Not a copy of the prototype: its names may be long, and copying allocates.
  Kernel kernel{.name = "", .dtype = prototype.dtype, .work = prototype.work, .launch = {}};
  const int labelled = prototype.op() == Op::kVector ? kVectorOperands : kCollectiveRanks;
  SetDim(kernel, labelled, DimAt(columns, labelled, 0));
  return state.Ask(kernel, options);
}

}  // namespace

void SetRow(const KernelColumns& columns, std::size_t row, Kernel& kernel) {
  const int dims = DimNamesOf(columns.prototype.op()).size;
  for (int d = 0; d < dims; ++d) SetDim(kernel, d, DimAt(columns, d, row));
}

absl::Status Predictor::EstimateColumns(const KernelColumns& columns, const EstimateOptions& options,
                                        ColumnsResult& result) const {
  GPUETA_RETURN_IF_ERROR(CheckEstimator(options.estimator));
  if (columns.rows == 0) return absl::OkStatus();
  const Op op = columns.prototype.op();
  const int dims = DimNamesOf(op).size;
  std::array<DimRange, kMaxDims> ranges;
  for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) {
    if (!columns.dims[d].empty()) ranges[d] = RangeOf(columns.dims[d]);
  }
  GPUETA_RETURN_IF_ERROR(ValidateColumns(columns.prototype, columns.dims, columns.rows, ranges));
  // One label for all rows, except where a dim is part of it.
  const bool label_varies = (op == Op::kVector && columns.dims[kVectorOperands].size() > 1) ||
                            (op == Op::kCollective && columns.dims[kCollectiveRanks].size() > 1);
  const bool by_links = op == Op::kCollective && options.topology.has_value();
  if (label_varies || by_links || IsAskedSingly(options.estimator))
    return EstimateRowByRow(*this, columns, options, result);
  GPUETA_ASSIGN_OR_RETURN(const Question question, AskFor(*state_, columns, options));
  if (question.route.table == nullptr || TakesFloorOff(question) ||
      state_->MayAskLaunch(columns.prototype, question.route, options))
    return EstimateRowByRow(*this, columns, options, result);
  result.estimator = kFamilyEstimator;

  CompiledTable::Input input;
  CompiledTable::Output output;
  LoadConstantDims(columns, dims, input);
  for (std::size_t start = 0; start < columns.rows; start += kBlockRows) {
    const int rows = static_cast<int>(std::min<std::size_t>(kBlockRows, columns.rows - start));
    input.block.rows = PaddedRows(rows);
    for (int d = 0; d < dims; ++d) {
      const auto& column = columns.dims[static_cast<std::size_t>(d)];
      if (column.size() > 1) LoadRows(&column[start], rows, input.block.rows, input.raw[d], input.block.dims[d]);
    }
    state_->Answer(question, nullptr, input, output);
    if (question.correction != nullptr) {
      float factors[kBlockRows];
      CorrectRows(*question.correction, rows, output.p50_us, factors);
    }
    Store(output, start, rows, result);
  }
  return absl::OkStatus();
}

}  // namespace gpueta
