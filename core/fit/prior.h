// What is known of a latency before a residual is learnt.
#pragma once

#include <Eigen/Core>
#include <memory>
#include <vector>

#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

// Fitted to rows of one table; evaluates any rows of that table. Priors other
// than the family form are used while fitting only: what they know reaches a
// profile through the network that the residual is distilled into.
class Prior {
 public:
  virtual ~Prior() = default;
  // ln(latency in µs), one a row.
  virtual Eigen::VectorXd Ln(const TableData& data) const = 0;
  // Inputs of the residual on this prior, one row a row.
  virtual Eigen::MatrixXd Features(const TableData& data) const = 0;
};

// The family form with fitted variants.
std::unique_ptr<Prior> MakeFamilyPrior(std::vector<Variant> variants);

}  // namespace gpueta
