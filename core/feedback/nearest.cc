#include "core/feedback/nearest.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <unordered_map>

#include "core/device/catalogue.h"
#include "core/ops/table_key.h"

namespace gpueta {
namespace {

double OctavesBetween(const Kernel& a, const Kernel& b) {
  double squares = 0;
  for (int d = 0; d < DimNamesOf(a.op()).size; ++d) {
    const auto x = static_cast<double>(std::max<std::int64_t>(GetDim(a, d), 1));
    const auto y = static_cast<double>(std::max<std::int64_t>(GetDim(b, d), 1));
    squares += std::pow(std::log2(x / y), 2);
  }
  return std::sqrt(squares);
}

}  // namespace

std::vector<NearMeasurement> NearestMeasurements(const Measurement& to, std::string_view device,
                                                 std::span<const Measurement> among, std::size_t count) {
  const Catalogue& catalogue = Catalogue::BuiltIn();
  const std::string slug = catalogue.CanonicalSlug(device);
  const TableKey table = KeyOf(to.kernel, to.timing);
  const std::uint64_t label = LabelHash(to.kernel);
  std::unordered_map<std::string_view, bool> is_device;
  std::vector<NearMeasurement> all;
  for (const Measurement& row : among) {
    if (row.kernel.op() != table.op || KeyOf(row.kernel, row.timing) != table) continue;
    const auto [it, is_new] = is_device.try_emplace(row.device, false);
    if (is_new) it->second = catalogue.CanonicalSlug(row.device) == slug;
    if (it->second) all.push_back({&row, OctavesBetween(to.kernel, row.kernel), LabelHash(row.kernel) == label});
  }
  std::stable_sort(all.begin(), all.end(), [](const NearMeasurement& a, const NearMeasurement& b) {
    return std::tuple(!a.same_label, a.octaves) < std::tuple(!b.same_label, b.octaves);
  });
  std::vector<NearMeasurement> nearest;
  std::set<std::uint32_t> shapes;
  for (const NearMeasurement& near : all) {
    if (nearest.size() == count) break;
    if (shapes.insert(HashOf(near.row->kernel)).second) nearest.push_back(near);
  }
  return nearest;
}

}  // namespace gpueta
