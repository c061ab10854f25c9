#include "core/fit/table_data.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace gpueta {

TableData MakeTableData(const TableKey& key, std::vector<const Measurement*> rows,
                        const std::function<Machine<double>(const Measurement&)>& machine_of) {
  TableData data;
  data.key = key;
  data.rows = std::move(rows);
  const auto n = static_cast<Eigen::Index>(data.rows.size());
  const int dims = DimNamesOf(key.op).size;
  data.dims.resize(n, dims);
  data.ln_us.resize(n);
  std::set<std::string> labels;
  for (const Measurement* row : data.rows) labels.insert(LabelOf(row->kernel));
  labels.erase("");
  data.labels = {"*"};
  data.labels.insert(data.labels.end(), labels.begin(), labels.end());
  for (Eigen::Index r = 0; r < n; ++r) {
    const Measurement& row = *data.rows[static_cast<std::size_t>(r)];
    data.machines.push_back(machine_of(row));
    for (int d = 0; d < dims; ++d) data.dims(r, d) = static_cast<double>(GetDim(row.kernel, d));
    data.ln_us[r] = std::log(row.latency_us);
    const auto it = std::lower_bound(data.labels.begin() + 1, data.labels.end(), LabelOf(row.kernel));
    const bool found = it != data.labels.end() && *it == LabelOf(row.kernel);
    data.label_of_row.push_back(found ? static_cast<int>(it - data.labels.begin()) : 0);
  }
  return data;
}

void FillFeatures(const TableKey& key, const Machine<double>& machine, std::span<const double> dims, int label,
                  std::size_t label_count, std::span<double> out) {
  const std::size_t features = FormInfoOf(key.op, key.phase).features.size();
  FormFeatures(key.op, key.phase, machine, dims, out.first(features));
  for (std::size_t l = 0; l < label_count; ++l) out[features + l] = static_cast<int>(l) == label ? 1.0 : 0.0;
}

Eigen::MatrixXd TableData::Features() const {
  const std::size_t width = FormInfoOf(key.op, key.phase).features.size() + labels.size();
  Eigen::MatrixXd out(size(), static_cast<Eigen::Index>(width));
  std::vector<double> row_dims(static_cast<std::size_t>(dims.cols()));
  std::vector<double> row(width);
  for (Eigen::Index r = 0; r < size(); ++r) {
    for (Eigen::Index d = 0; d < dims.cols(); ++d) row_dims[static_cast<std::size_t>(d)] = dims(r, d);
    FillFeatures(key, machines[static_cast<std::size_t>(r)], row_dims, label_of_row[static_cast<std::size_t>(r)],
                 labels.size(), row);
    for (std::size_t f = 0; f < width; ++f) out(r, static_cast<Eigen::Index>(f)) = row[f];
  }
  return out;
}

TableData TableData::Subset(std::span<const std::size_t> positions) const {
  TableData out;
  out.key = key;
  out.labels = labels;
  out.dims.resize(static_cast<Eigen::Index>(positions.size()), dims.cols());
  out.ln_us.resize(static_cast<Eigen::Index>(positions.size()));
  Eigen::Index r = 0;
  for (std::size_t position : positions) {
    out.rows.push_back(rows[position]);
    out.machines.push_back(machines[position]);
    out.label_of_row.push_back(label_of_row[position]);
    if (!scales.empty()) out.scales.push_back(scales[position]);
    out.dims.row(r) = dims.row(static_cast<Eigen::Index>(position));
    out.ln_us[r] = ln_us[static_cast<Eigen::Index>(position)];
    ++r;
  }
  return out;
}

}  // namespace gpueta
