#include "core/kernels/kernel_launch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <set>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability":
// the same for all from 5.0 on.
constexpr std::array<std::int64_t, 3> kLargestGrid = {std::numeric_limits<std::int32_t>::max(), 65535, 65535};
constexpr std::array<std::int64_t, 3> kLargestBlock = {1024, 1024, 64};
constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kMostSharedBytes = 227 << 10;  // of a block, on 9.0 and 10.0
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

static_assert(std::endian::native == std::endian::little, "arguments are written as they lie in memory");

absl::StatusOr<std::int64_t> Evaluate(const SymInt& value, const SymbolValues& values, std::int64_t low,
                                      std::int64_t high) {
  const absl::StatusOr<std::int64_t> number = value.Evaluate(values);
  if (!number.ok()) return InvalidArgument("{}: {}", value.ToString(), MessageOf(number.status()));
  if (*number < low || *number > high)
    return InvalidArgument("{} is {}, not between {} and {}", value.ToString(), *number, low, high);
  return *number;
}

absl::StatusOr<std::array<std::uint32_t, 3>> Evaluate(const KernelManifest::Extent& extent, const SymbolValues& values,
                                                      const std::array<std::int64_t, 3>& largest) {
  constexpr std::array kAxes = {"x", "y", "z"};
  const std::array<const SymInt*, 3> axes = {&extent.x, &extent.y, &extent.z};
  std::array<std::uint32_t, 3> out{};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const absl::StatusOr<std::int64_t> value = Evaluate(*axes[i], values, 1, largest[i]);
    if (!value.ok()) return InField(kAxes[i], value.status());
    out[i] = static_cast<std::uint32_t>(*value);
  }
  return out;
}

template <class T>
std::vector<std::byte> BytesOf(T value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

absl::StatusOr<LaunchArgument> Evaluate(const KernelManifest::Argument& argument, const SymbolValues& values) {
  LaunchArgument out;
  out.name = argument.name;
  using Limits32 = std::numeric_limits<std::int32_t>;
  using Limits64 = std::numeric_limits<std::int64_t>;
  if (const auto* buffer = std::get_if<BufferArgument>(&argument.value)) {
    const absl::StatusOr<std::int64_t> bytes = Evaluate(buffer->bytes, values, 0, kMostBytes);
    if (!bytes.ok()) return InField("buffer.bytes", bytes.status());
    out.is_buffer = true;
    out.buffer_bytes = *bytes;
    out.fill = buffer->fill;
  } else if (const auto* int32 = std::get_if<Int32Argument>(&argument.value)) {
    const absl::StatusOr<std::int64_t> value = Evaluate(int32->value, values, Limits32::min(), Limits32::max());
    if (!value.ok()) return InField("int32", value.status());
    out.value = BytesOf(static_cast<std::int32_t>(*value));
  } else if (const auto* int64 = std::get_if<Int64Argument>(&argument.value)) {
    const absl::StatusOr<std::int64_t> value = Evaluate(int64->value, values, Limits64::min(), Limits64::max());
    if (!value.ok()) return InField("int64", value.status());
    out.value = BytesOf(*value);
  } else if (const auto* float32 = std::get_if<float>(&argument.value)) {
    out.value = BytesOf(*float32);
  } else if (const auto* float64 = std::get_if<double>(&argument.value)) {
    out.value = BytesOf(*float64);
  } else {
    out.value.resize(static_cast<std::size_t>(std::get<ZerosArgument>(argument.value).bytes));
  }
  return out;
}

absl::Status CheckDim(const KernelManifest::Dim& dim, std::int64_t value) {
  if (value < 1) return FieldError(dim.name, fmt::format("is {}; dims are at least 1", value));
  if (value % dim.multiple_of != 0)
    return FieldError(dim.name, fmt::format("is {}, but the kernel needs a multiple of {}", value, dim.multiple_of));
  if (!dim.values.empty() && std::find(dim.values.begin(), dim.values.end(), value) == dim.values.end())
    return FieldError(dim.name,
                      fmt::format("is {}, but the kernel is made for {}", value, fmt::join(dim.values, ", ")));
  return absl::OkStatus();
}

// The values of dims, checked, and of what is defined by them.
absl::StatusOr<SymbolValues> Complete(const KernelManifest& manifest, const SymbolValues& dims) {
  SymbolValues values;
  for (const KernelManifest::Dim& dim : manifest.dims) {
    const auto given = dims.find(dim.name);
    if (given == dims.end()) return FieldError(dim.name, fmt::format("has no value; give it, e.g. {}=128", dim.name));
    GPUETA_RETURN_IF_ERROR(CheckDim(dim, given->second));
    values.insert(*given);
  }
  for (const auto& [name, value] : dims) {
    if (!values.contains(name)) return FieldError(name, fmt::format("is no dim of {}", manifest.name));
  }
  for (std::size_t i = 0; i < manifest.definitions.size(); ++i) {
    const KernelManifest::Definition& definition = manifest.definitions[i];
    const absl::StatusOr<std::int64_t> value = definition.value.Evaluate(values);
    if (!value.ok())
      return FieldError(fmt::format("definitions[{}].value", i),
                        fmt::format("{}: {}", definition.value.ToString(), MessageOf(value.status())));
    values[definition.name] = *value;
  }
  return values;
}

absl::StatusOr<Custom> WorkOf(const KernelManifest& manifest, const SymbolValues& values) {
  Custom work;
  work.op = manifest.name;
  Counts counts;
  if (manifest.computes.has_value()) {
    const absl::StatusOr<Kernel> kernel = Bind(*manifest.computes, values);
    if (!kernel.ok()) return InField("computes", kernel.status());
    counts = CountsOf(*kernel);
  }
  const auto value_of = [&](const std::optional<SymInt>& own, Count of_op, std::int64_t& out) -> absl::Status {
    if (!own.has_value()) {
      out = of_op.value();
      return absl::OkStatus();
    }
    GPUETA_ASSIGN_OR_RETURN(out, Evaluate(*own, values, 0, kMostBytes));
    return absl::OkStatus();
  };
  GPUETA_RETURN_IF_ERROR(InField("flops", value_of(manifest.flops, counts.flops, work.flops)));
  GPUETA_RETURN_IF_ERROR(InField("bytes", value_of(manifest.bytes, counts.bytes(), work.bytes)));
  return work;
}

std::int64_t BufferBytes(const KernelLaunch& launch) {
  Count bytes;
  for (const LaunchArgument& argument : launch.arguments) bytes = bytes + Count(argument.buffer_bytes);
  return bytes.value();
}

// Log-uniform over the range, at the multiples that it has.
std::int64_t Draw(const KernelManifest::Dim& dim, std::mt19937_64& random) {
  if (!dim.values.empty())
    return dim.values[std::uniform_int_distribution<std::size_t>(0, dim.values.size() - 1)(random)];
  const std::int64_t step = dim.multiple_of;
  const std::int64_t first = (dim.low + step - 1) / step;
  const std::int64_t last = dim.high / step;
  std::uniform_real_distribution<double> uniform(std::log(static_cast<double>(first) - 0.5),
                                                 std::log(static_cast<double>(last) + 0.5));
  return std::clamp(std::llround(std::exp(uniform(random))), static_cast<long long>(first),
                    static_cast<long long>(last)) *
         step;
}

}  // namespace

absl::StatusOr<KernelLaunch> LaunchOf(const KernelManifest& manifest, const SymbolValues& dims) {
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues values, Complete(manifest, dims));
  KernelLaunch launch;
  const auto grid = Evaluate(manifest.grid, values, kLargestGrid);
  if (!grid.ok()) return InField("grid", grid.status());
  launch.grid = *grid;
  const auto block = Evaluate(manifest.block, values, kLargestBlock);
  if (!block.ok()) return InField("block", block.status());
  launch.block = *block;
  const auto [x, y, z] = launch.block;
  if (const std::int64_t threads = std::int64_t{x} * y * z; threads > kMostThreads)
    return FieldError("block", fmt::format("has {} threads, more than {}", threads, kMostThreads));
  const auto shared = Evaluate(manifest.shared_bytes, values, 0, kMostSharedBytes);
  if (!shared.ok()) return InField("shared_bytes", shared.status());
  launch.shared_bytes = static_cast<std::uint32_t>(*shared);
  for (std::size_t i = 0; i < manifest.arguments.size(); ++i) {
    absl::StatusOr<LaunchArgument> argument = Evaluate(manifest.arguments[i], values);
    if (!argument.ok()) return InField(fmt::format("arguments[{}]", i), argument.status());
    launch.arguments.push_back(*std::move(argument));
  }
  GPUETA_ASSIGN_OR_RETURN(Custom work, WorkOf(manifest, values));
  launch.kernel.dtype = manifest.dtype;
  launch.kernel.work = std::move(work);
  launch.kernel.launch.grid_x = launch.grid[0];
  launch.kernel.launch.grid_y = launch.grid[1];
  launch.kernel.launch.grid_z = launch.grid[2];
  launch.kernel.launch.block_x = launch.block[0];
  GPUETA_RETURN_IF_ERROR(Validate(launch.kernel));
  return launch;
}

std::string DescribeShape(const KernelManifest& manifest, const SymbolValues& dims) {
  std::string text;
  for (const KernelManifest::Dim& dim : manifest.dims) {
    const auto value = dims.find(dim.name);
    if (value != dims.end()) text += fmt::format("{}{}={}", text.empty() ? "" : " ", dim.name, value->second);
  }
  return text;
}

absl::StatusOr<std::vector<SymbolValues>> SampleShapes(const KernelManifest& manifest, std::size_t count,
                                                       std::int64_t memory_bytes, std::uint64_t seed) {
  constexpr std::size_t kAttemptsPerShape = 20;
  std::mt19937_64 random(seed);
  std::set<SymbolValues> seen;
  std::vector<SymbolValues> shapes;
  std::string refused;
  for (std::size_t attempt = 0; attempt < kAttemptsPerShape * (count + 1) && shapes.size() < count; ++attempt) {
    SymbolValues shape;
    for (const KernelManifest::Dim& dim : manifest.dims) shape[dim.name] = Draw(dim, random);
    if (!seen.insert(shape).second) continue;
    const absl::StatusOr<KernelLaunch> launch = LaunchOf(manifest, shape);
    if (launch.ok() && BufferBytes(*launch) <= memory_bytes) {
      shapes.push_back(std::move(shape));
      continue;
    }
    if (!refused.empty()) continue;
    refused = DescribeShape(manifest, shape) + ": " +
              (launch.ok() ? fmt::format("needs {} bytes of memory, more than {}", BufferBytes(*launch), memory_bytes)
                           : MessageOf(launch.status()));
  }
  if (shapes.empty() && count > 0)
    return InvalidArgument("{}: no shape within the ranges of its dims can be run, e.g. {}", manifest.name, refused);
  return shapes;
}

}  // namespace gpueta
