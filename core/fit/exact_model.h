// The best prediction that the rows of a table allow, whatever evaluating it
// costs: what profiles are distilled from, and the oracle of their tests.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/fit/boosted_trees.h"
#include "core/fit/gaussian_process.h"
#include "core/fit/prior.h"
#include "core/fit/standardiser.h"
#include "core/fit/table_data.h"

namespace gpueta {

// Members that err in different places, averaged in ln(latency) with the
// weights that cross-validation finds best:
// - for each prior of the op (the family form; of GEMM also its tiles) a
//   Gaussian process on what the prior leaves over,
// - boosted trees on what the family form leaves over.
class ExactModel {
 public:
  // `variants` is FitFamily(data). The cost is cubic in the number of rows.
  static ExactModel Fit(const TableData& data, std::vector<Variant> variants, std::uint64_t seed);

  // ln(latency in µs), one a row.
  Eigen::VectorXd Ln(const TableData& data) const;

  // ln(observed/predicted) of each row by a model that did not see it.
  const Eigen::VectorXd& held_out_ln() const { return held_out_ln_; }
  // held_out_ln as it would be at the rows of `data`: that of a row, over how
  // unsure the model was of it, times how unsure it is of those on average. Rows
  // are bought where the model is unsure, so that held_out_ln is too large.
  Eigen::VectorXd HeldOutLnAt(const TableData& data) const;
  double noise_variance() const { return processes_.front().gp.noise_variance(); }

 private:
  struct Process {
    std::unique_ptr<Prior> prior;
    Standardiser standardise;
    GaussianProcess gp;
  };
  static Process FitProcess(const TableData& data, std::unique_ptr<Prior> prior, std::uint64_t seed);

  std::vector<Process> processes_;  // the family form's first
  BoostedTrees trees_;
  std::vector<double> weights_;  // of the processes, then of the trees; sum to 1
  Eigen::VectorXd held_out_ln_;
};

}  // namespace gpueta
