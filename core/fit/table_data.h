// The rows of one table, ready for fitting.
#pragma once

#include <Eigen/Core>
#include <span>
#include <string>
#include <vector>

#include "core/measurements/measurements.h"
#include "core/ops/forms.h"
#include "core/ops/machine.h"
#include "core/ops/table_key.h"
#include "core/profile/transfer.h"

namespace gpueta {

struct TableData {
  TableKey key;
  std::vector<const Measurement*> rows;
  std::vector<Machine<double>> machines;  // one a row
  Eigen::MatrixXd dims;                   // [row][dim of the op]
  Eigen::VectorXd ln_us;
  std::vector<std::string> labels;  // "*" first, then every label that occurs, sorted
  std::vector<int> label_of_row;    // index into labels, never 0 unless there are no labels
  // What parameters are multiplied by, one a row; empty: they are the devices'
  // own. Of rows of several devices only.
  std::vector<DeviceScale> scales;

  Eigen::Index size() const { return ln_us.size(); }

  // Family features followed by one input for each label, as Residual reads
  // them.
  Eigen::MatrixXd Features() const;

  // The rows at these positions.
  TableData Subset(std::span<const std::size_t> positions) const;
};

// `machine_of(row)` gives the device numbers of a row.
TableData MakeTableData(const TableKey& key, std::vector<const Measurement*> rows,
                        const std::function<Machine<double>(const Measurement&)>& machine_of);

// Features of one kernel with the input of label `label` set.
void FillFeatures(const TableKey& key, const Machine<double>& machine, std::span<const double> dims, int label,
                  std::size_t label_count, std::span<double> out);

}  // namespace gpueta
