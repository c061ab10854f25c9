// A kernel: one operator instance with concrete dims and dtype.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "core/ops/attention/attention.h"
#include "core/ops/collective/collective.h"
#include "core/ops/conv2d/conv2d.h"
#include "core/ops/counts.h"
#include "core/ops/custom/custom.h"
#include "core/ops/dtype.h"
#include "core/ops/gemm/gemm.h"
#include "core/ops/moe/moe.h"
#include "core/ops/vector/vector.h"

namespace gpueta {

// In the order of the alternatives of Work.
enum class Op : std::uint8_t { kGemm, kConv2d, kAttention, kMoe, kVector, kCollective, kCustom };
using Work = std::variant<Gemm, Conv2d, Attention, Moe, Vector, Collective, Custom>;

inline constexpr std::array kAllOps = {Op::kGemm,   Op::kConv2d,     Op::kAttention, Op::kMoe,
                                       Op::kVector, Op::kCollective, Op::kCustom};

std::string_view Name(Op op);
std::optional<Op> ParseOp(std::string_view name);

// How the library launched it, where known. Empty and 0 mean unknown.
struct Launch {
  std::string kernel;  // name without namespaces, template arguments and parameters
  std::int64_t grid_x = 0;
  std::int64_t grid_y = 0;
  std::int64_t grid_z = 0;
  std::int64_t block_x = 0;

  std::int64_t blocks() const { return grid_x * grid_y * grid_z; }
  friend bool operator==(const Launch&, const Launch&) = default;
};

struct Kernel {
  std::string name;  // the caller's label; not part of what is computed
  DType dtype = DType::kFp32;
  Work work;
  Launch launch;

  Op op() const { return static_cast<Op>(work.index()); }
};

// INVALID_ARGUMENT naming the field for a missing, out-of-range or
// inconsistent dim, and for work of more than 2^62 FLOPs or bytes.
absl::Status Validate(const Kernel& kernel);
// The same; fills CountsOf(kernel) where it is valid.
absl::Status Validate(const Kernel& kernel, Counts& counts);

// FLOPs and bytes; the formula of each op stands in its folder.
Counts CountsOf(const Kernel& kernel);
// Multiply-adds of convolutions and matrix products alone. A custom kernel
// stands for one (a 3-D convolution, say): half its FLOPs.
Count MacsOf(const Kernel& kernel, const Counts& counts);

// The integer dims by position, in the order of the op's dim list.
inline constexpr int kMaxDims = 16;
struct DimNames {
  std::array<std::string_view, kMaxDims> names;
  int size = 0;
};
const DimNames& DimNamesOf(Op op);
std::optional<int> FindDim(Op op, std::string_view name);
std::int64_t SmallestDim(Op op, int dim);
std::optional<std::int64_t> DefaultDim(Op op, int dim);  // nullopt: must be given
std::int64_t GetDim(const Kernel& kernel, int dim);
void SetDim(Kernel& kernel, int dim, std::int64_t value);
// All of them; returns how many. Those past the last one stay as they are.
int GetDims(const Kernel& kernel, std::array<std::int64_t, kMaxDims>& dims);

// Dims of many kernels: columns[i] is dim i, one value a row, or 1 value that
// holds for every row, or none for the dim's default.
using DimColumns = std::array<std::span<const std::uint32_t>, kMaxDims>;
struct DimRange {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};
// As Validate for each row, with the op, dtype and names of `prototype`; errors
// name the field and the row. ranges[i] holds the extremes of columns[i]; that
// of an empty column is not read.
absl::Status ValidateColumns(const Kernel& prototype, const DimColumns& columns, std::size_t rows,
                             std::span<const DimRange> ranges);

// What else sets kernels of one op apart within a table: the layer of a GEMM,
// the operator and operands of a vector op ("add/2"), the operator and ranks of a
// collective ("all_reduce/8"), the kernel of an attention, the gradient of a convolution
// (launch.h; none of a forward one), the distribution of a MoE, a custom kernel's name.
std::string LabelOf(const Kernel& kernel);

// FNV-1a of LabelOf(kernel), without building the string.
std::uint64_t LabelHash(const Kernel& kernel);
std::uint64_t LabelHash(std::string_view label);

// Identity of the work within its table (dims and label, not name or launch
// geometry): MixDim over the dims in order, starting from the folded label
// hash. Stable across versions and machines: it is stored in profiles.
std::uint32_t HashOf(const Kernel& kernel);
inline std::uint32_t FoldHash(std::uint64_t hash) { return static_cast<std::uint32_t>(hash ^ (hash >> 32)); }
inline std::uint32_t MixDim(std::uint32_t hash, std::uint32_t dim) {
  hash = (hash ^ dim) * 0x9E3779B1U;  // 2^32 over the golden ratio
  return hash ^ (hash >> 15);
}

// One line for people, e.g. "gemm bf16 m=512 n=4096 k=4096".
std::string Describe(const Kernel& kernel);

}  // namespace gpueta
