// Cross-validation.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace gpueta {

struct Fold {
  std::vector<Eigen::Index> train;
  std::vector<Eigen::Index> test;
};

// Each of `rows` rows is tested in one fold; which one, the seed decides.
inline std::vector<Fold> Folds(Eigen::Index rows, std::uint64_t seed) {
  constexpr std::size_t kFolds = 5;
  std::vector<Eigen::Index> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<Fold> folds(kFolds);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t f = 0; f < kFolds; ++f) (i % kFolds == f ? folds[f].test : folds[f].train).push_back(order[i]);
  }
  return folds;
}

}  // namespace gpueta
