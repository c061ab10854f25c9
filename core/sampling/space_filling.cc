#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "core/base/errors.h"
#include "core/ops/table_key.h"
#include "core/sampling/sampling.h"

namespace gpueta {
namespace {

constexpr double kLabelPower = 0.75;         // of a label's count: rare labels get more than their share
constexpr std::size_t kClusterRows = 12000;  // rows the centres are sought on
constexpr int kIterations = 8;

using Point = std::vector<float>;

float SquaredDistance(const Point& a, const Point& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// Standardised log2 of the dims; constant dims drop out.
std::vector<Point> PointsOf(std::span<const Measurement> rows) {
  const int dims = DimNamesOf(rows.front().kernel.op()).size;
  std::vector<Point> points(rows.size());
  for (int d = 0; d < dims; ++d) {
    double sum = 0, squares = 0;
    std::vector<double> column;
    for (const Measurement& row : rows) {
      column.push_back(std::log2(static_cast<double>(std::max<std::int64_t>(GetDim(row.kernel, d), 1))));
      sum += column.back();
      squares += column.back() * column.back();
    }
    const auto n = static_cast<double>(rows.size());
    const double mean = sum / n;
    const double deviation = std::sqrt(std::max(squares / n - mean * mean, 0.0));
    if (deviation < 1e-9) continue;
    for (std::size_t r = 0; r < rows.size(); ++r)
      points[r].push_back(static_cast<float>((column[r] - mean) / deviation));
  }
  return points;
}

std::size_t Nearest(const std::vector<Point>& centres, const Point& point) {
  std::size_t best = 0;
  float best_distance = std::numeric_limits<float>::max();
  for (std::size_t c = 0; c < centres.size(); ++c) {
    if (const float distance = SquaredDistance(centres[c], point); distance < best_distance) {
      best_distance = distance;
      best = c;
    }
  }
  return best;
}

// Lloyd's algorithm from random rows.
std::vector<Point> Centres(const std::vector<Point>& points, std::vector<std::size_t> rows, std::size_t count,
                           std::mt19937_64& random) {
  std::shuffle(rows.begin(), rows.end(), random);
  rows.resize(std::min(rows.size(), kClusterRows));
  std::vector<Point> centres;
  for (std::size_t i = 0; i < count; ++i) centres.push_back(points[rows[i % rows.size()]]);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    std::vector<Point> sums(count, Point(points.front().size(), 0.0F));
    std::vector<float> sizes(count, 0);
    for (std::size_t row : rows) {
      const std::size_t c = Nearest(centres, points[row]);
      ++sizes[c];
      for (std::size_t i = 0; i < sums[c].size(); ++i) sums[c][i] += points[row][i];
    }
    for (std::size_t c = 0; c < count; ++c) {
      if (sizes[c] == 0) continue;
      for (std::size_t i = 0; i < sums[c].size(); ++i) centres[c][i] = sums[c][i] / sizes[c];
    }
  }
  return centres;
}

// The unused row nearest to each centre.
void TakeNearest(const std::vector<Point>& points, const std::vector<std::size_t>& rows,
                 const std::vector<Point>& centres, std::set<std::size_t>& taken, std::vector<std::size_t>& chosen) {
  for (const Point& centre : centres) {
    std::size_t best = rows.size();
    float best_distance = std::numeric_limits<float>::max();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (taken.contains(rows[i])) continue;
      if (const float distance = SquaredDistance(points[rows[i]], centre); distance < best_distance) {
        best_distance = distance;
        best = i;
      }
    }
    if (best == rows.size()) return;
    taken.insert(rows[best]);
    chosen.push_back(rows[best]);
  }
}

}  // namespace

std::vector<std::size_t> SplitBudget(const std::vector<std::vector<std::size_t>>& groups, std::size_t budget) {
  double total = 0;
  for (const auto& group : groups) total += std::pow(static_cast<double>(group.size()), kLabelPower);
  std::vector<std::size_t> shares;
  std::size_t given = 0;
  for (const auto& group : groups) {
    const double share = static_cast<double>(budget) * std::pow(static_cast<double>(group.size()), kLabelPower) / total;
    shares.push_back(
        std::min({group.size(), std::max<std::size_t>(1, static_cast<std::size_t>(share)), budget - given}));
    given += shares.back();
  }
  // What is left goes where there is room, largest groups first.
  while (given < budget) {
    std::size_t most = groups.size();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (shares[g] < groups[g].size() &&
          (most == groups.size() || groups[g].size() - shares[g] > groups[most].size() - shares[most]))
        most = g;
    }
    if (most == groups.size()) break;
    ++shares[most];
    ++given;
  }
  return shares;
}

absl::StatusOr<std::vector<std::size_t>> ChooseSpaceFilling(std::span<const Measurement> candidates,
                                                            std::span<const Measurement> measured, std::size_t budget,
                                                            std::uint64_t seed) {
  if (candidates.empty()) return std::vector<std::size_t>{};
  const Op op = candidates.front().kernel.op();
  for (const Measurement& row : candidates) {
    if (row.kernel.op() != op) {
      return InvalidArgument("line {}: candidates are of more than one op ({} and {}); plan each on its own", row.line,
                             Name(op), Name(row.kernel.op()));
    }
  }
  std::set<std::pair<TableKey, std::uint32_t>> known;
  for (const Measurement& row : measured) known.emplace(KeyOf(row.kernel, row.timing), HashOf(row.kernel));

  std::map<std::pair<TableKey, std::string>, std::vector<std::size_t>> by_label;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const TableKey key = KeyOf(candidates[i].kernel, candidates[i].timing);
    if (!known.contains({key, HashOf(candidates[i].kernel)}))
      by_label[{EvidenceKeyOf(key), LabelOf(candidates[i].kernel)}].push_back(i);
  }
  std::vector<std::vector<std::size_t>> groups;
  std::mt19937_64 ties(seed);  // between types, which are equally near: each gets its share
  for (auto& [label, rows] : by_label) {
    std::shuffle(rows.begin(), rows.end(), ties);
    groups.push_back(std::move(rows));
  }

  const std::vector<Point> points = PointsOf(candidates);
  const std::vector<std::size_t> shares = SplitBudget(groups, budget);
  std::mt19937_64 random(seed);
  std::vector<std::size_t> chosen;
  std::set<std::size_t> taken;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (shares[g] == groups[g].size()) {
      chosen.insert(chosen.end(), groups[g].begin(), groups[g].end());
      continue;
    }
    if (shares[g] > 0) TakeNearest(points, groups[g], Centres(points, groups[g], shares[g], random), taken, chosen);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace gpueta
