#include "server/feedback/asked_shapes.h"

#include <algorithm>
#include <unordered_map>

namespace gpueta {
namespace {

bool IsSampled() {
  thread_local std::uint32_t offers = 0;
  return offers++ % AskedShapes::kOneIn == 0;
}

}  // namespace

void AskedShapes::Offer(std::string_view device, const Kernel& kernel) {
  if (IsSampled()) Keep(device, kernel);
}

void AskedShapes::Offer(std::string_view device, const KernelColumns& columns) {
  if (columns.rows == 0 || !IsSampled()) return;
  thread_local std::size_t turn = 0;
  Kernel kernel = columns.prototype;
  SetRow(columns, turn++ % columns.rows, kernel);
  Keep(device, std::move(kernel));
}

void AskedShapes::Keep(std::string_view device, Kernel kernel) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  auto it = kept_.find(device);
  if (it == kept_.end()) {
    if (kept_.size() >= kDevices) return;
    it = kept_.try_emplace(std::string(device)).first;
  }
  kernel.name.clear();
  std::vector<Kernel>& kept = it->second[static_cast<std::size_t>(kernel.op())];
  if (kept.size() < kKept) {
    kept.push_back(std::move(kernel));
    return;
  }
  // Knuth's generator; the high bits are the good ones.
  random_ = random_ * 6364136223846793005U + 1442695040888963407U;
  kept[(random_ >> 33) % kKept] = std::move(kernel);
}

std::vector<AskedShape> AskedShapes::Most(std::string_view device, Op op, std::size_t count) const {
  std::vector<AskedShape> shapes;
  const std::lock_guard lock(mutex_);
  const auto it = kept_.find(device);
  if (it == kept_.end()) return shapes;
  const std::vector<Kernel>& kept = it->second[static_cast<std::size_t>(op)];
  std::unordered_map<std::string, std::size_t> place;
  for (const Kernel& kernel : kept) {
    const auto [at, is_new] = place.try_emplace(Describe(kernel) + kernel.launch.kernel, shapes.size());
    if (is_new) shapes.push_back({kernel, 0});
    shapes[at->second].weight += 1 / static_cast<double>(kept.size());
  }
  std::stable_sort(shapes.begin(), shapes.end(),
                   [](const AskedShape& a, const AskedShape& b) { return a.weight > b.weight; });
  if (shapes.size() > count) {
    shapes.resize(count);
    double sum = 0;
    for (const AskedShape& shape : shapes) sum += shape.weight;
    for (AskedShape& shape : shapes) shape.weight /= sum;
  }
  return shapes;
}

}  // namespace gpueta
