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

// For each prior of the op (the family form; of GEMM also its tiles, of
// convolutions the algorithms) two learn what it leaves over: a Gaussian
// process and boosted trees. They err in different places and are averaged in
// ln(latency) with the weights that cross-validation finds best.
class ExactModel {
 public:
  // `variants` is FitFamily(data); `others` are priors from elsewhere. The cost is
  // cubic in the number of rows.
  static ExactModel Fit(const TableData& data, std::vector<Variant> variants, std::uint64_t seed,
                        std::vector<std::unique_ptr<Prior>> others = {});
  // The same on any priors.
  static ExactModel Fit(const TableData& data, std::vector<std::unique_ptr<Prior>> priors, std::uint64_t seed);

  // ln(latency in µs), one a row.
  Eigen::VectorXd Ln(const TableData& data) const;

  // ln(observed/predicted) of each row by a model that did not see it.
  const Eigen::VectorXd& held_out_ln() const { return held_out_ln_; }
  // Mean |held_out_ln| around each row of `data`, as the family form's process sees them near.
  Eigen::VectorXd LocalErrorAt(const TableData& data) const;
  // The same at the rows that were fitted to, without their own.
  const Eigen::VectorXd& local_error_of_rows() const { return local_error_of_rows_; }
  double noise_variance() const { return learners_.front().gp.noise_variance(); }

 private:
  // `own`: how many of the priors are the rows' own.
  static ExactModel Fit(const TableData& data, std::vector<std::unique_ptr<Prior>> priors, std::uint64_t seed,
                        std::size_t own);

  struct OfLabel {
    int label = 0;
    Standardiser standardise;
    GaussianProcess gp;
  };
  struct Learners {
    std::unique_ptr<Prior> prior;
    Standardiser standardise;
    GaussianProcess gp;
    std::vector<OfLabel> labels;  // that have a process of their own
    BoostedTrees trees;

    // Of the processes.
    Eigen::VectorXd Mean(const TableData& data, const Eigen::MatrixXd& features) const;
  };
  // held_out: what each row's residual would be without the row, of the process
  // and of the trees.
  static Learners FitLearners(const TableData& data, std::unique_ptr<Prior> prior, std::uint64_t seed,
                              Eigen::Ref<Eigen::MatrixXd> held_out);
  static std::vector<OfLabel> FitLabels(const TableData& data, const Eigen::MatrixXd& features,
                                        const Eigen::VectorXd& left_over, std::uint64_t seed,
                                        Eigen::VectorXd& held_out);

  std::vector<Learners> learners_;  // the family form's first
  std::vector<double> weights_;     // of process and trees, learners by learners; sum to 1
  Eigen::VectorXd held_out_ln_;
  Eigen::VectorXd local_error_of_rows_;
};

}  // namespace gpueta
