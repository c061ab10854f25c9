// How a device departs from a pooled table, from any number of its rows.
//
// ln(latency) = ln(form, scaled) + network: nonlinear in three scales, linear in
// the weights of the network's last layer. Their prior is normal around what
// relatives say; the posterior is found by Gauss-Newton with Huber's loss, its
// covariance and evidence by Laplace's approximation. One row moves it a
// little, many rows leave nothing of the prior.
#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

struct DeviationFit {
  Eigen::VectorXd mean;  // as Deviation::values
  Eigen::MatrixXd covariance;
  double ln_evidence = 0;       // of the rows, up to a constant of their number
  Eigen::VectorXd held_out_ln;  // ln(observed/predicted) of each row without it, approximately
};

// Labels of the rows become those of the table's variants; rows of others are
// taken for "*".
void Relabel(const Table& pooled, TableData& data);

// `data` holds rows of `device`, relabelled. Prior: mean `expected`, standard
// deviations those of the table times sqrt(variance).
DeviationFit FitDeviation(const TableData& data, const Table& pooled, const DeviceSpec& device,
                          std::span<const double> expected, double variance);

// Standard deviation of ln(latency) at each row that the posterior leaves,
// noise not included.
Eigen::VectorXd DeviationOf(const TableData& data, const Table& pooled, const DeviceSpec& device,
                            const DeviationFit& fit);

// ln(latency) by the table of `device` with this deviation.
Eigen::VectorXd PredictWithDeviation(const TableData& data, const Table& pooled, const DeviceSpec& device,
                                     std::span<const double> deviation);

}  // namespace gpueta
