#include "core/ops/kernel.h"

#include <algorithm>
#include <type_traits>

#include "core/base/errors.h"
#include "core/ops/launch.h"

namespace gpueta {
namespace {

template <class W>
constexpr const auto& DimsOf() {
  if constexpr (std::is_same_v<W, Gemm>)
    return kGemmDims;
  else if constexpr (std::is_same_v<W, Conv2d>)
    return kConv2dDims;
  else if constexpr (std::is_same_v<W, Attention>)
    return kAttentionDims;
  else if constexpr (std::is_same_v<W, Moe>)
    return kMoeDims;
  else if constexpr (std::is_same_v<W, Vector>)
    return kVectorDims;
  else if constexpr (std::is_same_v<W, Collective>)
    return kCollectiveDims;
  else
    return kCustomDims;
}

template <class W>
constexpr DimNames NamesOf() {
  DimNames names;
  for (const auto& dim : DimsOf<W>()) names.names[names.size++] = dim.name;
  return names;
}

// Calls f with dim `dim` of the op's list.
template <class F>
auto VisitDim(Op op, int dim, F f) {
  const auto i = static_cast<std::size_t>(dim);
  switch (op) {
    case Op::kGemm: return f(kGemmDims[i]);
    case Op::kConv2d: return f(kConv2dDims[i]);
    case Op::kAttention: return f(kAttentionDims[i]);
    case Op::kMoe: return f(kMoeDims[i]);
    case Op::kVector: return f(kVectorDims[i]);
    case Op::kCollective: return f(kCollectiveDims[i]);
    case Op::kCustom: break;
  }
  return f(kCustomDims[i]);
}

template <class... Args>
absl::Status DimError(Op op, std::string_view dim, fmt::format_string<Args...> problem, Args&&... args) {
  return FieldError(fmt::format("{}.{}", Name(op), dim), fmt::format(problem, std::forward<Args>(args)...));
}

// Checks that go past the range of one dim.
absl::Status CheckConsistency(const Gemm&) { return absl::OkStatus(); }

absl::Status CheckConsistency(const Conv2d& c) {
  if (c.in_channels % c.groups != 0)
    return DimError(Op::kConv2d, "groups", "{} does not divide in_channels {}", c.groups, c.in_channels);
  if (c.out_channels % c.groups != 0)
    return DimError(Op::kConv2d, "groups", "{} does not divide out_channels {}", c.groups, c.out_channels);
  if (OutHeight(c) < 1) return DimError(Op::kConv2d, "kernel_h", "the kernel is larger than the padded input");
  if (OutWidth(c) < 1) return DimError(Op::kConv2d, "kernel_w", "the kernel is larger than the padded input");
  return absl::OkStatus();
}

absl::Status CheckConsistency(const Attention& a) {
  if (a.heads % a.kv_heads != 0)
    return DimError(Op::kAttention, "kv_heads", "{} does not divide heads {}", a.kv_heads, a.heads);
  if (a.causal > 1) return DimError(Op::kAttention, "causal", "must be 0 or 1");
  if (a.causal == 1 && a.query_len > a.kv_len) {
    return DimError(Op::kAttention, "query_len", "{} exceeds kv_len {} under a causal mask", a.query_len, a.kv_len);
  }
  if (a.phase == Attention::Phase::kDecode && a.query_len != 1)
    return DimError(Op::kAttention, "query_len", "must be 1 in phase decode");
  return absl::OkStatus();
}

absl::Status CheckConsistency(const Moe& m) {
  if (m.top_k > m.num_experts) return DimError(Op::kMoe, "top_k", "{} exceeds num_experts {}", m.top_k, m.num_experts);
  if (m.num_experts % m.ep != 0)
    return DimError(Op::kMoe, "ep", "{} does not divide num_experts {}", m.ep, m.num_experts);
  if (m.inter_size % m.tp != 0) return DimError(Op::kMoe, "tp", "{} does not divide inter_size {}", m.tp, m.inter_size);
  return absl::OkStatus();
}

absl::Status CheckConsistency(const Vector& v) {
  return v.op.empty() ? DimError(Op::kVector, "op", "is empty; give the operator's name, e.g. add") : absl::OkStatus();
}

absl::Status CheckConsistency(const Collective& c) {
  if (c.op.empty()) return DimError(Op::kCollective, "op", "is empty; give the collective's name, e.g. all_reduce");
  constexpr std::int64_t kMostDevices = 1 << 30;
  if (c.stride < 1 || c.stride > kMostDevices) return DimError(Op::kCollective, "stride", "must be from 1 to 2^30");
  return absl::OkStatus();
}

absl::Status CheckConsistency(const Custom& c) {
  if (c.op.empty()) return DimError(Op::kCustom, "op", "is empty; give the kernel's name");
  if (c.flops == 0 && c.bytes == 0)
    return DimError(Op::kCustom, "bytes", "flops and bytes are both 0; declare at least one");
  return absl::OkStatus();
}

absl::Status TooLarge(Op op) { return DimError(op, "dims", "more than 2^62 operations or bytes; check the dims"); }

// Ops whose dims restrict each other.
template <class W>
constexpr bool kDimsAreTied =
    std::is_same_v<W, Conv2d> || std::is_same_v<W, Attention> || std::is_same_v<W, Moe> || std::is_same_v<W, Custom>;

// Counts are below 2^62 where the product of all dims is below this: they are
// products of dims and of small numbers (64 bits an element, a few operations).
constexpr double kSurelySmall = 1e15;

template <class W>
bool IsSurelySmall(const W& work) {
  double product = 1;
  for (const auto& dim : DimsOf<W>()) product *= static_cast<double>(std::max<std::int64_t>(work.*dim.member, 1));
  return product < kSurelySmall;
}

// The conditions between dims, and counts unless they are known to be small.
template <class W>
absl::Status CheckRows(const W& prototype, DType dtype, const DimColumns& columns, std::size_t rows, bool small) {
  if constexpr (!kDimsAreTied<W>) {
    if (absl::Status status = CheckConsistency(prototype); !status.ok() || small) return status;
  }
  W work = prototype;
  bool varies = false;
  for (std::size_t d = 0; d < DimsOf<W>().size(); ++d) {
    const auto& dim = DimsOf<W>()[d];
    work.*dim.member = columns[d].empty() ? dim.otherwise : columns[d][0];
    varies = varies || columns[d].size() > 1;
  }
  for (std::size_t row = 0; row < (varies ? rows : 1); ++row) {
    for (std::size_t d = 0; d < DimsOf<W>().size(); ++d) {
      if (columns[d].size() > 1) work.*DimsOf<W>()[d].member = columns[d][row];
    }
    absl::Status status = CheckConsistency(work);
    if (status.ok() && !small && !IsSurelySmall(work) && CountsOf(work, dtype).overflowed())
      status = TooLarge(static_cast<Op>(Work(work).index()));
    if (!status.ok()) return InField(fmt::format("rows[{}]", row), status);
  }
  return absl::OkStatus();
}

// FNV-1a, 64 bits.
class Hasher {
 public:
  void Add(std::string_view text) {
    for (char c : text) state_ = (state_ ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  }
  void AddDecimal(std::int64_t value) {
    char digits[20];
    int n = 0;
    for (; value >= 10; value /= 10) digits[n++] = static_cast<char>('0' + value % 10);
    digits[n++] = static_cast<char>('0' + value);
    while (n > 0) Add(std::string_view(&digits[--n], 1));
  }
  std::uint64_t hash() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::string_view Name(Op op) {
  switch (op) {
    case Op::kGemm: return "gemm";
    case Op::kConv2d: return "conv2d";
    case Op::kAttention: return "attention";
    case Op::kMoe: return "moe";
    case Op::kVector: return "vector";
    case Op::kCollective: return "collective";
    case Op::kCustom: return "custom";
  }
  return "?";
}

std::optional<Op> ParseOp(std::string_view name) {
  for (Op op : kAllOps) {
    if (Name(op) == name) return op;
  }
  return std::nullopt;
}

absl::Status Validate(const Kernel& kernel) {
  Counts counts;
  return Validate(kernel, counts);
}

absl::Status Validate(const Kernel& kernel, Counts& counts) {
  const Op op = kernel.op();
  absl::Status status = std::visit(
      [op]<class W>(const W& work) {
        for (const auto& dim : DimsOf<W>()) {
          const std::int64_t value = work.*dim.member;
          if (value < dim.smallest) return DimError(op, dim.name, "is {}, must be at least {}", value, dim.smallest);
        }
        return CheckConsistency(work);
      },
      kernel.work);
  if (!status.ok()) return status;
  counts = CountsOf(kernel);
  if (counts.overflowed()) return TooLarge(op);
  const Launch& l = kernel.launch;
  if (l.grid_x < 0 || l.grid_y < 0 || l.grid_z < 0 || l.block_x < 0) {
    return DimError(op, "launch", "grid and block must not be negative");
  }
  if (l.grid_x != 0 && Product({l.grid_x, l.grid_y, l.grid_z}).overflowed())
    return DimError(op, "launch", "the grid has more than 2^62 blocks");
  return absl::OkStatus();
}

absl::Status ValidateColumns(const Kernel& prototype, const DimColumns& columns, std::size_t rows,
                             std::span<const DimRange> ranges) {
  return std::visit(
      [&]<class W>(const W& work) {
        const Op op = prototype.op();
        double product = 1;
        for (std::size_t d = 0; d < DimsOf<W>().size(); ++d) {
          const auto& dim = DimsOf<W>()[d];
          const std::span<const std::uint32_t> column = columns[d];
          if (column.empty()) {
            if (dim.required()) return DimError(op, dim.name, "is empty; give one value a row, or one for all rows");
            continue;
          }
          if (column.size() != 1 && column.size() != rows) {
            return DimError(op, dim.name, "has {} values, must have {} (the number of rows) or 1", column.size(), rows);
          }
          if (ranges[d].low < dim.smallest) {
            const auto bad = std::find_if(column.begin(), column.end(), [&](auto v) { return v < dim.smallest; });
            return DimError(op, fmt::format("{}[{}]", dim.name, bad - column.begin()), "is {}, must be at least {}",
                            *bad, dim.smallest);
          }
          product *= std::max(ranges[d].high, 1U);
        }
        return CheckRows(work, prototype.dtype, columns, rows, product < kSurelySmall);
      },
      prototype.work);
}

Counts CountsOf(const Kernel& kernel) {
  return std::visit([&](const auto& work) { return CountsOf(work, kernel.dtype); }, kernel.work);
}

Count MacsOf(const Kernel& kernel, const Counts& counts) {
  return kernel.op() == Op::kCustom ? Count(counts.flops.value() / 2) : counts.macs;
}

const DimNames& DimNamesOf(Op op) {
  static constexpr std::array<DimNames, 7> all = {NamesOf<Gemm>(),  NamesOf<Conv2d>(), NamesOf<Attention>(),
                                                  NamesOf<Moe>(),   NamesOf<Vector>(), NamesOf<Collective>(),
                                                  NamesOf<Custom>()};
  return all[static_cast<std::size_t>(op)];
}

std::optional<int> FindDim(Op op, std::string_view name) {
  const DimNames& names = DimNamesOf(op);
  for (int i = 0; i < names.size; ++i) {
    if (names.names[static_cast<std::size_t>(i)] == name) return i;
  }
  return std::nullopt;
}

std::int64_t SmallestDim(Op op, int dim) {
  return VisitDim(op, dim, [](const auto& field) { return field.smallest; });
}

std::optional<std::int64_t> DefaultDim(Op op, int dim) {
  return VisitDim(op, dim,
                  [](const auto& field) { return field.required() ? std::nullopt : std::optional(field.otherwise); });
}

std::int64_t GetDim(const Kernel& kernel, int dim) {
  return std::visit([dim]<class W>(const W& work) { return work.*DimsOf<W>()[static_cast<std::size_t>(dim)].member; },
                    kernel.work);
}

void SetDim(Kernel& kernel, int dim, std::int64_t value) {
  std::visit([&]<class W>(W& work) { work.*DimsOf<W>()[static_cast<std::size_t>(dim)].member = value; }, kernel.work);
}

int GetDims(const Kernel& kernel, std::array<std::int64_t, kMaxDims>& dims) {
  return std::visit(
      [&dims]<class W>(const W& work) {
        for (std::size_t d = 0; d < DimsOf<W>().size(); ++d) dims[d] = work.*DimsOf<W>()[d].member;
        return static_cast<int>(DimsOf<W>().size());
      },
      kernel.work);
}

std::string LabelOf(const Kernel& kernel) {
  struct Visitor {
    const Kernel& kernel;
    std::string operator()(const Gemm& g) const { return std::string(Name(g.layer)); }
    std::string operator()(const Conv2d&) const { return std::string(GradientOf(kernel)); }
    std::string operator()(const Attention&) const { return kernel.launch.kernel; }
    std::string operator()(const Moe& m) const { return m.distribution; }
    std::string operator()(const Vector& v) const { return fmt::format("{}/{}", v.op, v.operands); }
    std::string operator()(const Collective& c) const { return fmt::format("{}/{}", c.op, c.ranks); }
    std::string operator()(const Custom& c) const { return c.op; }
  };
  return std::visit(Visitor{kernel}, kernel.work);
}

std::uint64_t LabelHash(std::string_view label) {
  Hasher hasher;
  hasher.Add(label);
  return hasher.hash();
}

std::uint64_t LabelHash(const Kernel& kernel) {
  Hasher hasher;
  if (const auto* vector = std::get_if<Vector>(&kernel.work)) {
    hasher.Add(vector->op);
    hasher.Add("/");
    hasher.AddDecimal(vector->operands);
  } else if (const auto* collective = std::get_if<Collective>(&kernel.work)) {
    hasher.Add(collective->op);
    hasher.Add("/");
    hasher.AddDecimal(collective->ranks);
  } else if (const auto* gemm = std::get_if<Gemm>(&kernel.work)) {
    hasher.Add(Name(gemm->layer));
  } else if (const auto* moe = std::get_if<Moe>(&kernel.work)) {
    hasher.Add(moe->distribution);
  } else if (const auto* custom = std::get_if<Custom>(&kernel.work)) {
    hasher.Add(custom->op);
  } else if (std::holds_alternative<Attention>(kernel.work)) {
    hasher.Add(kernel.launch.kernel);
  } else if (std::holds_alternative<Conv2d>(kernel.work)) {
    hasher.Add(GradientOf(kernel));
  }
  return hasher.hash();
}

std::uint32_t HashOf(const Kernel& kernel) {
  std::uint32_t hash = FoldHash(LabelHash(kernel));
  for (int i = 0; i < DimNamesOf(kernel.op()).size; ++i) {
    hash = MixDim(hash, FoldHash(static_cast<std::uint64_t>(GetDim(kernel, i))));
  }
  return hash;
}

std::string Describe(const Kernel& kernel) {
  std::string text = fmt::format("{} {}", Name(kernel.op()), Name(kernel.dtype));
  if (const std::string label = LabelOf(kernel); !label.empty()) text += " " + label;
  std::visit(
      [&text]<class W>(const W& work) {
        for (const auto& dim : DimsOf<W>()) {
          if (work.*dim.member == dim.otherwise) continue;
          text += fmt::format(" {}={}", dim.name, work.*dim.member);
        }
      },
      kernel.work);
  return text;
}

}  // namespace gpueta
