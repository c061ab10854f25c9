#include "core/kernels/manifest.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::size_t kMaxNameLength = 120;  // as kernel names in measurements
constexpr std::size_t kMaxDimsOfManifest = 16;
constexpr std::size_t kMaxDefinitions = 64;
constexpr std::size_t kMaxArguments = 128;
constexpr int kMaxZeroBytes = 4096;  // what a kernel's parameters may take, before CUDA 12.1
constexpr std::int64_t kLargestDimValue = std::int64_t{1} << 40;  // a product of two cannot leave 64 bits unnoticed

std::string At(std::string_view list, std::size_t i) { return fmt::format("{}[{}]", list, i); }

absl::Status CheckName(std::string_view name) {
  if (name.empty()) return FieldError("name", "is empty; predictions ask for the kernel by it");
  if (name.size() > kMaxNameLength)
    return FieldError("name", fmt::format("has {} characters, more than {}", name.size(), kMaxNameLength));
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_.-/").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return plain ? absl::OkStatus() : FieldError("name", "may hold letters, digits and _ . - / only");
}

absl::Status CheckFile(const KernelManifest& manifest) {
  const std::string& file = manifest.file;
  if (file.empty()) {
    if (!manifest.entry.empty()) return FieldError("file", "is empty, but an entry is named; give the file it is in");
    if (!manifest.arguments.empty())
      return FieldError("file", "is empty, but there are arguments; give the file to run");
    return absl::OkStatus();
  }
  const bool leaves = file.front() == '/' || file == ".." || file.starts_with("../") || file.ends_with("/..") ||
                      file.find("/../") != std::string::npos;
  if (leaves) return FieldError("file", fmt::format("\"{}\" is outside the manifest's folder", file));
  const auto is_control = [](unsigned char c) { return std::iscntrl(c) != 0; };
  if (std::any_of(file.begin(), file.end(), is_control)) return FieldError("file", "holds control characters");
  if (manifest.entry.empty()) return FieldError("entry", "is empty; name the kernel in the file");
  if (std::any_of(manifest.entry.begin(), manifest.entry.end(), is_control))
    return FieldError("entry", "holds control characters");
  return absl::OkStatus();
}

absl::Status CheckDim(const KernelManifest::Dim& dim) {
  const auto out_of_range = [](std::int64_t value) { return value < 1 || value > kLargestDimValue; };
  if (out_of_range(dim.multiple_of)) return FieldError("multiple_of", "is not between 1 and 2^40");
  for (std::size_t i = 0; i < dim.values.size(); ++i) {
    if (out_of_range(dim.values[i])) return FieldError(At("values", i), "is not between 1 and 2^40");
    if (dim.values[i] % dim.multiple_of != 0)
      return FieldError(At("values", i), fmt::format("is no multiple of {}", dim.multiple_of));
  }
  if (!dim.values.empty()) return absl::OkStatus();
  if (out_of_range(dim.low)) return FieldError("low", "is not between 1 and 2^40; give low and high, or values");
  if (out_of_range(dim.high)) return FieldError("high", "is not between 1 and 2^40; give low and high, or values");
  const std::int64_t first = (dim.low + dim.multiple_of - 1) / dim.multiple_of * dim.multiple_of;
  if (first > dim.high)
    return FieldError("high",
                      fmt::format("there is no multiple of {} from {} to {}", dim.multiple_of, dim.low, dim.high));
  return absl::OkStatus();
}

// The names that expressions may use, in order.
class Symbols {
 public:
  absl::Status Add(const std::string& name) {
    if (!IsSymbolName(name)) return FieldError("name", fmt::format("\"{}\" is no identifier", name));
    if (!known_.insert(name).second) return FieldError("name", fmt::format("\"{}\" is used twice", name));
    return absl::OkStatus();
  }

  absl::Status Check(const SymInt& value) const {
    if (value.overflowed()) return InvalidArgument("is too large an expression, or leaves the range of 64 bits");
    std::set<std::string> used;
    value.CollectSymbols(used);
    for (const std::string& symbol : used) {
      if (!known_.contains(symbol))
        return InvalidArgument("\"{}\" is neither a dim nor a definition before this", symbol);
    }
    return absl::OkStatus();
  }

 private:
  std::set<std::string> known_;
};

absl::Status CheckExtent(const Symbols& symbols, const KernelManifest::Extent& extent) {
  GPUETA_RETURN_IF_ERROR(InField("x", symbols.Check(extent.x)));
  GPUETA_RETURN_IF_ERROR(InField("y", symbols.Check(extent.y)));
  return InField("z", symbols.Check(extent.z));
}

absl::Status CheckArgument(const Symbols& symbols, const KernelManifest::Argument& argument) {
  if (const auto* buffer = std::get_if<BufferArgument>(&argument.value))
    return InField("buffer.bytes", symbols.Check(buffer->bytes));
  if (const auto* value = std::get_if<Int32Argument>(&argument.value))
    return InField("int32", symbols.Check(value->value));
  if (const auto* value = std::get_if<Int64Argument>(&argument.value))
    return InField("int64", symbols.Check(value->value));
  if (const auto* zeros = std::get_if<ZerosArgument>(&argument.value);
      zeros != nullptr && (zeros->bytes < 1 || zeros->bytes > kMaxZeroBytes))
    return FieldError("zero_bytes", fmt::format("is not between 1 and {}", kMaxZeroBytes));
  return absl::OkStatus();
}

absl::Status CheckWork(const KernelManifest& manifest, const Symbols& symbols) {
  if (manifest.flops.has_value()) GPUETA_RETURN_IF_ERROR(InField("flops", symbols.Check(*manifest.flops)));
  if (manifest.bytes.has_value()) GPUETA_RETURN_IF_ERROR(InField("bytes", symbols.Check(*manifest.bytes)));
  if (!manifest.computes.has_value()) {
    if (!manifest.flops.has_value()) return FieldError("flops", "is missing; give an expression, 0 if there are none");
    if (!manifest.bytes.has_value()) return FieldError("bytes", "is missing; give an expression of what it moves");
    return absl::OkStatus();
  }
  const GraphNode& node = *manifest.computes;
  GPUETA_RETURN_IF_ERROR(InField("computes", ValidateKernel(node)));
  if (node.kernel.dtype != manifest.dtype)
    return FieldError("computes.kernel.dtype",
                      fmt::format("is {}, but the manifest's is {}", Name(node.kernel.dtype), Name(manifest.dtype)));
  for (const GraphNode::SymbolicDim& dim : node.symbolic_dims) {
    const std::string_view name = DimNamesOf(node.kernel.op()).names[static_cast<std::size_t>(dim.dim)];
    GPUETA_RETURN_IF_ERROR(InField(fmt::format("computes.symbolic_dims.{}", name), symbols.Check(dim.value)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const KernelManifest& manifest) {
  GPUETA_RETURN_IF_ERROR(CheckName(manifest.name));
  GPUETA_RETURN_IF_ERROR(CheckFile(manifest));
  Symbols symbols;
  if (manifest.dims.size() > kMaxDimsOfManifest)
    return FieldError("dims", fmt::format("are {}, more than {}", manifest.dims.size(), kMaxDimsOfManifest));
  for (std::size_t i = 0; i < manifest.dims.size(); ++i) {
    GPUETA_RETURN_IF_ERROR(InField(At("dims", i), symbols.Add(manifest.dims[i].name)));
    GPUETA_RETURN_IF_ERROR(InField(At("dims", i), CheckDim(manifest.dims[i])));
  }
  if (manifest.definitions.size() > kMaxDefinitions)
    return FieldError("definitions", fmt::format("are {}, more than {}", manifest.definitions.size(), kMaxDefinitions));
  for (std::size_t i = 0; i < manifest.definitions.size(); ++i) {
    const KernelManifest::Definition& definition = manifest.definitions[i];
    GPUETA_RETURN_IF_ERROR(InField(At("definitions", i) + ".value", symbols.Check(definition.value)));
    GPUETA_RETURN_IF_ERROR(InField(At("definitions", i), symbols.Add(definition.name)));
  }
  GPUETA_RETURN_IF_ERROR(InField("grid", CheckExtent(symbols, manifest.grid)));
  GPUETA_RETURN_IF_ERROR(InField("block", CheckExtent(symbols, manifest.block)));
  GPUETA_RETURN_IF_ERROR(InField("shared_bytes", symbols.Check(manifest.shared_bytes)));
  if (manifest.arguments.size() > kMaxArguments)
    return FieldError("arguments", fmt::format("are {}, more than {}", manifest.arguments.size(), kMaxArguments));
  for (std::size_t i = 0; i < manifest.arguments.size(); ++i)
    GPUETA_RETURN_IF_ERROR(InField(At("arguments", i), CheckArgument(symbols, manifest.arguments[i])));
  return CheckWork(manifest, symbols);
}

}  // namespace gpueta
