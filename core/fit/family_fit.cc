#include "core/fit/family_fit.h"

#include <algorithm>
#include <cmath>

#include "core/fit/least_squares.h"
#include "core/fit/order_statistic.h"
#include "core/fit/prior.h"

namespace gpueta {
namespace {

// With fewer rows a label keeps the pooled parameters; with a few it is pulled
// to them harder.
constexpr std::size_t kMinLabelRows = 3;
constexpr std::size_t kEnoughLabelRows = 8;
constexpr double kPullOfFew = 0.3;
// Alternations between the labels' own parameters and the shared ones.
constexpr int kRounds = 3;

// Evaluates ln(latency) of some rows of the data.
class Rows {
 public:
  Rows(const TableData& data, std::vector<std::size_t> positions) : data_(data), positions_(std::move(positions)) {
    row_dims_.reserve(positions_.size());
    for (std::size_t p : positions_) {
      std::vector<double> dims;
      for (Eigen::Index d = 0; d < data.dims.cols(); ++d) dims.push_back(data.dims(static_cast<Eigen::Index>(p), d));
      row_dims_.push_back(std::move(dims));
    }
  }
  std::size_t size() const { return positions_.size(); }
  const std::vector<std::size_t>& positions() const { return positions_; }

  // out[i] = ln(predicted/observed) of row i with parameters theta_of(i).
  template <class ThetaOf>
  void Residuals(const ThetaOf& theta_of, std::span<double> out) const {
    VisitForm(data_.key.op, data_.key.phase, [&]<class Form>() {
      for (std::size_t i = 0; i < positions_.size(); ++i) {
        const std::size_t p = positions_[i];
        const double* theta = theta_of(i);
        double scaled[Form::kParams.size()];
        if (!data_.scales.empty()) {
          for (std::size_t t = 0; t < Form::kParams.size(); ++t)
            scaled[t] = theta[t] * ScaleFactor(data_.scales[p], Form::kParams[t].scales);
          theta = scaled;
        }
        const double us = Form::template LatencyUs<double>(data_.machines[p], theta, row_dims_[i].data());
        out[i] = std::log(us) - data_.ln_us[static_cast<Eigen::Index>(p)];
      }
    });
  }

 private:
  const TableData& data_;
  std::vector<std::size_t> positions_;
  std::vector<std::vector<double>> row_dims_;
};

// The fixed cost starts just below the smallest latencies seen.
double StartOfFixed(const TableData& data, const ParamSpec& param) {
  const double small_us = std::exp(NthSmallest(data.ln_us, data.size() / 50));
  return std::clamp(0.9 * small_us, param.low * 1.1, param.high * 0.9);
}

std::vector<float> ToFloat(const std::vector<double>& theta, std::span<const ParamSpec> params) {
  std::vector<float> out;
  for (std::size_t i = 0; i < theta.size(); ++i) {
    out.push_back(static_cast<float>(std::clamp(theta[i], params[i].low, params[i].high)));
  }
  return out;
}

}  // namespace

std::vector<Variant> FitFamily(const TableData& data, bool every_param_by_label) {
  const std::span<const ParamSpec> params = FormInfoOf(data.key.op, data.key.phase).params;
  std::vector<double> start;
  for (const ParamSpec& param : params) start.push_back(param.start);
  start[0] = StartOfFixed(data, params[0]);

  std::vector<std::size_t> all(static_cast<std::size_t>(data.size()));
  std::vector<std::vector<std::size_t>> of_label(data.labels.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    all[r] = r;
    of_label[static_cast<std::size_t>(data.label_of_row[r])].push_back(r);
  }
  const Rows everything(data, all);
  const std::vector<bool> every_param(params.size(), true);
  const std::vector<double> pooled =
      FitBounded(params, start, every_param, everything.size(),
                 [&](auto theta, auto out) { everything.Residuals([&](std::size_t) { return theta.data(); }, out); });

  std::vector<bool> own, shared;
  std::size_t own_count = 0;
  for (const ParamSpec& param : params) {
    const bool by_label = param.per_label || every_param_by_label;
    own.push_back(by_label);
    shared.push_back(!by_label);
    own_count += by_label ? 1 : 0;
  }
  std::vector<std::vector<double>> thetas(data.labels.size(), pooled);
  std::vector<bool> has_own(data.labels.size(), false);
  std::size_t fitted = 0;
  for (std::size_t l = 1; l < data.labels.size(); ++l) {
    has_own[l] = own_count > 0 && of_label[l].size() >= kMinLabelRows;
    fitted += has_own[l] ? 1 : 0;
  }
  const bool one_label = data.labels.size() <= 2;
  for (int round = 0; round < kRounds && fitted > 0 && !one_label; ++round) {
    for (std::size_t l = 1; l < data.labels.size(); ++l) {
      if (!has_own[l]) continue;
      const Rows rows(data, of_label[l]);
      // From the pooled parameters each time: the pull is towards them.
      std::vector<double> from = pooled;
      for (std::size_t i = 0; i < params.size(); ++i) {
        if (shared[i]) from[i] = thetas[l][i];
      }
      const BoundedFitOptions options{.pull = rows.size() < kEnoughLabelRows ? kPullOfFew : BoundedFitOptions{}.pull};
      thetas[l] = FitBounded(
          params, from, own, rows.size(),
          [&](auto theta, auto out) { rows.Residuals([&](std::size_t) { return theta.data(); }, out); }, options);
    }
    if (own_count == params.size()) break;  // nothing is shared
    std::vector<std::vector<double>> scratch = thetas;
    const std::vector<double> common =
        FitBounded(params, thetas[0], shared, everything.size(), [&](auto theta, auto out) {
          for (auto& t : scratch) {
            for (std::size_t i = 0; i < params.size(); ++i) {
              if (shared[i]) t[i] = theta[i];
            }
          }
          everything.Residuals(
              [&](std::size_t i) { return scratch[static_cast<std::size_t>(data.label_of_row[i])].data(); }, out);
        });
    for (auto& theta : thetas) {
      for (std::size_t i = 0; i < params.size(); ++i) {
        if (shared[i]) theta[i] = common[i];
      }
    }
  }
  // "*" keeps the pooled parameters: a label that was not measured is of no
  // kind in particular.
  thetas[0] = pooled;

  std::vector<Variant> variants;
  for (std::size_t l = 0; l < data.labels.size(); ++l) {
    variants.push_back({data.labels[l], ToFloat(thetas[l], params),
                        static_cast<std::int64_t>(l == 0 ? all.size() : of_label[l].size())});
  }
  return variants;
}

Eigen::VectorXd PredictFamily(const TableData& data, const std::vector<Variant>& variants) {
  std::vector<std::size_t> all(static_cast<std::size_t>(data.size()));
  for (std::size_t r = 0; r < all.size(); ++r) all[r] = r;
  std::vector<std::vector<double>> thetas;
  for (const Variant& variant : variants) thetas.emplace_back(variant.theta.begin(), variant.theta.end());
  Eigen::VectorXd out(data.size());
  Rows(data, all).Residuals(
      [&](std::size_t i) { return thetas[static_cast<std::size_t>(data.label_of_row[i])].data(); },
      std::span(out.data(), all.size()));
  return out + data.ln_us;
}

namespace {

class FamilyPrior : public Prior {
 public:
  explicit FamilyPrior(std::vector<Variant> variants) : variants_(std::move(variants)) {}
  Eigen::VectorXd Ln(const TableData& data) const override { return PredictFamily(data, variants_); }
  Eigen::MatrixXd Features(const TableData& data) const override { return data.Features(); }

 private:
  std::vector<Variant> variants_;
};

}  // namespace

std::unique_ptr<Prior> MakeFamilyPrior(std::vector<Variant> variants) {
  return std::make_unique<FamilyPrior>(std::move(variants));
}

}  // namespace gpueta
