#include "core/fit/boosted_trees.h"

#include <algorithm>
#include <numeric>

namespace gpueta {
namespace {

struct Split {
  double gain = 0;
  int feature = -1;
  double threshold = 0;
};

// The rows of a leaf in the order of each feature.
struct Leaf {
  int node = 0;
  std::vector<std::vector<int>> sorted;
  Split best;
};

Split BestSplit(const Eigen::MatrixXd& x, const Eigen::VectorXd& residual, const Leaf& leaf,
                const BoostedTreesOptions& options) {
  Split best;
  const std::vector<int>& rows = leaf.sorted.front();
  const auto n = static_cast<int>(rows.size());
  double total = 0;
  for (int row : rows) total += residual[row];
  const double whole = total * total / (n + options.lambda);
  for (int f = 0; f < static_cast<int>(leaf.sorted.size()); ++f) {
    const std::vector<int>& order = leaf.sorted[static_cast<std::size_t>(f)];
    double left = 0;
    for (int i = 0; i + 1 < n; ++i) {
      const int row = order[static_cast<std::size_t>(i)];
      const int next = order[static_cast<std::size_t>(i) + 1];
      left += residual[row];
      const int count = i + 1;
      if (count < options.min_rows || n - count < options.min_rows || x(row, f) == x(next, f)) continue;
      const double right = total - left;
      const double gain = left * left / (count + options.lambda) + right * right / (n - count + options.lambda) - whole;
      if (gain > best.gain) best = {gain, f, (x(row, f) + x(next, f)) / 2};
    }
  }
  return best;
}

}  // namespace

BoostedTrees BoostedTrees::Fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const BoostedTreesOptions& options) {
  BoostedTrees model;
  std::vector<std::vector<int>> sorted(static_cast<std::size_t>(x.cols()),
                                       std::vector<int>(static_cast<std::size_t>(x.rows())));
  for (Eigen::Index f = 0; f < x.cols(); ++f) {
    std::vector<int>& order = sorted[static_cast<std::size_t>(f)];
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x(a, f) < x(b, f); });
  }
  Eigen::VectorXd residual = y;
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<Node> tree(1);
    std::vector<Leaf> leaves(1);
    leaves[0].sorted = sorted;
    leaves[0].best = BestSplit(x, residual, leaves[0], options);
    while (static_cast<int>(leaves.size()) < options.leaves) {
      const auto widest = std::max_element(leaves.begin(), leaves.end(),
                                           [](const Leaf& a, const Leaf& b) { return a.best.gain < b.best.gain; });
      if (widest->best.feature < 0) break;
      Leaf parent = std::move(*widest);
      leaves.erase(widest);
      const Split split = parent.best;
      Leaf left{.node = static_cast<int>(tree.size()), .sorted = {}, .best = {}};
      Leaf right{.node = left.node + 1, .sorted = {}, .best = {}};
      for (const std::vector<int>& order : parent.sorted) {
        auto& to_left = left.sorted.emplace_back();
        auto& to_right = right.sorted.emplace_back();
        for (int row : order) (x(row, split.feature) <= split.threshold ? to_left : to_right).push_back(row);
      }
      Node& node = tree[static_cast<std::size_t>(parent.node)];
      node = {split.feature, split.threshold, left.node, right.node, 0};
      tree.resize(tree.size() + 2);
      for (Leaf* child : {&left, &right}) {
        child->best = BestSplit(x, residual, *child, options);
        leaves.push_back(std::move(*child));
      }
    }
    for (const Leaf& leaf : leaves) {
      const std::vector<int>& rows = leaf.sorted.front();
      double sum = 0;
      for (int row : rows) sum += residual[row];
      const double value = options.learning_rate * sum / (static_cast<double>(rows.size()) + options.lambda);
      tree[static_cast<std::size_t>(leaf.node)].value = value;
      for (int row : rows) residual[row] -= value;
    }
    model.trees_.push_back(std::move(tree));
  }
  return model;
}

Eigen::VectorXd BoostedTrees::Predict(const Eigen::MatrixXd& x) const {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(x.rows());
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    for (const std::vector<Node>& tree : trees_) {
      const Node* node = tree.data();
      while (node->feature >= 0)
        node = &tree[static_cast<std::size_t>(x(r, node->feature) <= node->threshold ? node->left : node->right)];
      sum[r] += node->value;
    }
  }
  return sum;
}

}  // namespace gpueta
