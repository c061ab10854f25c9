#include "calibration/backends/cuda/collectives/plan.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "calibration/backends/cuda/device/identity.h"
#include "core/base/errors.h"
#include "core/graph/passes/parallel.h"

namespace gpueta {
namespace {

constexpr std::array<std::string_view, 5> kOperators = {"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                                        "send_recv"};

std::size_t ElementBytes(DType dtype) { return static_cast<std::size_t>(BitsOf(dtype).activation) / 8; }
std::size_t RoundedUp(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// In elements.
struct Sizes {
  std::size_t whole = 0;
  std::size_t part = 0;  // of one rank
};
Sizes SizesOf(const Collective& collective, DType dtype) {
  const std::size_t whole = RoundedUp(static_cast<std::size_t>(collective.bytes), ElementBytes(dtype));
  return {.whole = whole, .part = RoundedUp(whole, static_cast<std::size_t>(collective.ranks))};
}

}  // namespace

std::vector<int> RankOrdinals(std::span<const DeviceProperties> devices, int own) {
  const auto like = [](const DeviceProperties& a, const DeviceProperties& b) {
    return a.name == b.name && a.compute_capability() == b.compute_capability() && a.sm_count == b.sm_count;
  };
  std::vector<int> ordinals = {own};
  const auto self = std::ranges::find(devices, own, &DeviceProperties::ordinal);
  if (self == devices.end() || MigProfileOf(*self).has_value()) return ordinals;
  for (const DeviceProperties& device : devices) {
    if (device.ordinal != own && like(device, *self)) ordinals.push_back(device.ordinal);
  }
  return ordinals;
}

absl::StatusOr<std::vector<std::size_t>> RankPositions(const Kernel& kernel, std::size_t devices) {
  const auto* collective = std::get_if<Collective>(&kernel.work);
  if (collective == nullptr) return absl::UnimplementedError("no collective");
  if (std::ranges::find(kOperators, collective->op) == kOperators.end()) {
    return absl::UnimplementedError(
        fmt::format("collective \"{}\": measured are {}", collective->op, fmt::join(kOperators, ", ")));
  }
  if (collective->backend != kCollectiveBackend) {
    return absl::UnimplementedError(
        fmt::format("collectives of backend \"{}\": measured are those of \"{}\", as its tools count them",
                    collective->backend, kCollectiveBackend));
  }
  const bool adds = collective->op == "all_reduce" || collective->op == "reduce_scatter";
  if (kernel.dtype == DType::kInt4 || (kernel.dtype == DType::kFp8 && adds)) {
    return absl::UnimplementedError(fmt::format("{} in {}", collective->op, Name(kernel.dtype)));
  }
  const auto ranks = static_cast<std::size_t>(collective->ranks);
  const auto stride = static_cast<std::size_t>(collective->stride);
  if (ranks > devices || (ranks - 1) * stride >= devices) {
    const std::string apart = stride > 1 ? fmt::format(", {} devices apart", stride) : "";
    return absl::UnimplementedError(fmt::format("{} over {} ranks{}: {} GPUs of one kind are open on this node",
                                                collective->op, ranks, apart, devices));
  }
  std::vector<std::size_t> positions;
  for (std::size_t rank = 0; rank < ranks; ++rank) positions.push_back(rank * stride);
  return positions;
}

RankBytes BuffersOf(const Kernel& kernel) {
  const auto& collective = std::get<Collective>(kernel.work);
  const auto [whole, part] = SizesOf(collective, kernel.dtype);
  const std::size_t parts = part * static_cast<std::size_t>(collective.ranks);
  const std::size_t element = ElementBytes(kernel.dtype);
  if (collective.op == "all_gather") return {.from = part * element, .to = parts * element};
  if (collective.op == "reduce_scatter") return {.from = parts * element, .to = part * element};
  if (collective.op == "alltoall") return {.from = parts * element, .to = parts * element};
  return {.from = whole * element, .to = whole * element};
}

std::vector<std::vector<ExchangeCall>> CallsOf(const Kernel& kernel, std::span<const RankBuffers> buffers) {
  const auto& collective = std::get<Collective>(kernel.work);
  const auto [whole, part] = SizesOf(collective, kernel.dtype);
  const auto ranks = static_cast<int>(collective.ranks);
  std::vector<std::vector<ExchangeCall>> calls(buffers.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& [from, to] = buffers[static_cast<std::size_t>(rank)];
    std::vector<ExchangeCall>& mine = calls[static_cast<std::size_t>(rank)];
    if (collective.op == "all_reduce") {
      mine.push_back({.what = Exchange::kAllReduce, .from = from, .to = to, .count = whole});
    } else if (collective.op == "all_gather") {
      mine.push_back({.what = Exchange::kAllGather, .from = from, .to = to, .count = part});
    } else if (collective.op == "reduce_scatter") {
      mine.push_back({.what = Exchange::kReduceScatter, .from = from, .to = to, .count = part});
    } else if (collective.op == "alltoall") {
      for (int peer = 0; peer < ranks; ++peer) {
        const std::size_t offset = static_cast<std::size_t>(peer) * part * ElementBytes(kernel.dtype);
        mine.push_back({.what = Exchange::kSend, .from = from + offset, .count = part, .peer = peer});
        mine.push_back({.what = Exchange::kReceive, .to = to + offset, .count = part, .peer = peer});
      }
    } else {
      mine.push_back({.what = Exchange::kSend, .from = from, .count = whole, .peer = (rank + 1) % ranks});
      mine.push_back({.what = Exchange::kReceive, .to = to, .count = whole, .peer = (rank + ranks - 1) % ranks});
    }
  }
  return calls;
}

}  // namespace gpueta
