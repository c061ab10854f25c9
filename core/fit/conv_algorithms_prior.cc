#include "core/fit/conv_algorithms_prior.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/fit/boosted_trees.h"
#include "core/fit/folds.h"
#include "core/fit/least_squares.h"
#include "core/fit/order_statistic.h"

namespace gpueta {
namespace {

enum Class : std::size_t { kDirect, kFusedWinograd, kBatchedWinograd, kFft };
constexpr std::size_t kClasses = 4;
constexpr std::size_t kMinRows = 8;   // of a class that is fitted
constexpr double kLeastShare = 1e-3;  // of the probability

// As cuDNN names its kernels; a plain sgemm in a convolution multiplies
// transformed tiles.
Class ClassOf(std::string_view kernel) {
  const auto has = [&](std::string_view part) { return kernel.find(part) != std::string_view::npos; };
  if (has("gcgemm") || has("fft")) return kFft;
  if (has("winograd")) return has("nonfused") || has("Nonfused") ? kBatchedWinograd : kFusedWinograd;
  return has("_sgemm_") && !has("convolve") ? kBatchedWinograd : kDirect;
}

// Operations and traffic of a shape under each class.
struct Row {
  Machine<double> machine;
  double in_channels = 1;                     // a group
  std::array<double, kClasses> whole{};       // outputs per channel, padded to whole waves of tiles
  std::array<double, kClasses> bare{};        // without the padding
  std::array<double, kClasses> bytes{};       // of a pass over operands and transformed tiles
  std::array<double, kClasses> per_output{};  // multiplications an input channel
  std::array<double, 4> shape{};              // log2: both tilings over outputs, waves of each
};

// Work of tiles of rows × cols over `count` problems, padded to whole waves.
double Waves(double rows, double cols, double count, double tile_rows, double tile_cols, double sms) {
  const double tiles = count * std::ceil(rows / tile_rows) * std::ceil(cols / tile_cols);
  return std::ceil(tiles / sms) * sms * tile_rows * tile_cols;
}

Row MakeRow(const Machine<double>& mc, const Eigen::RowVectorXd& d) {
  const double batch = d[0], height = d[2], width = d[3], out_channels = d[4] / d[11];
  const double taps = d[5] * d[6];
  const auto out = [&](int size, int kernel, int stride, int pad, int dilation, int extra) {
    return std::max(std::floor((d[size] + 2 * d[pad] + d[extra] - d[dilation] * (d[kernel] - 1) - 1) / d[stride]) + 1,
                    1.0);
  };
  const double out_h = out(2, 5, 7, 9, 12, 14), out_w = out(3, 6, 8, 10, 13, 15);
  Row row{.machine = mc, .in_channels = d[1] / d[11]};
  const double outputs = d[11] * batch * out_h * out_w;
  const double in_elements = d[11] * batch * row.in_channels * height * width;
  const double elements = in_elements + outputs * out_channels + d[11] * taps * row.in_channels * out_channels;
  row.per_output = {taps, 16, 1, 4};

  row.whole[kDirect] =
      std::min({Waves(outputs, out_channels, 1, 128, 64, mc.sms), Waves(outputs, out_channels, 1, 128, 128, mc.sms),
                1.1 * Waves(outputs, out_channels, 1, 128, 32, mc.sms)});
  row.bare[kDirect] = outputs * out_channels;
  row.bytes[kDirect] = row.bytes[kFusedWinograd] = elements * mc.a_bytes;

  const double tiles2 = d[11] * batch * std::ceil(out_h / 2) * std::ceil(out_w / 2);
  row.whole[kFusedWinograd] = Waves(4 * tiles2, out_channels, 1, 128, 128, mc.sms) / 4;
  row.bare[kFusedWinograd] = tiles2 * out_channels;

  constexpr double kPoints = 36;  // of a 4×4 tile's transform
  const double tiles4 = d[11] * batch * std::ceil(out_h / 4) * std::ceil(out_w / 4);
  row.whole[kBatchedWinograd] = std::min(Waves(tiles4, out_channels, kPoints, 128, 128, mc.sms),
                                         Waves(tiles4, out_channels, kPoints, 64, 64, mc.sms));
  row.bare[kBatchedWinograd] = kPoints * tiles4 * out_channels;
  const double transformed = tiles4 * (row.in_channels + out_channels) + row.in_channels * out_channels;
  row.bytes[kBatchedWinograd] = (elements + 2 * kPoints * transformed) * mc.a_bytes;

  const double side = height <= 14 ? 16 : 32;  // of an FFT tile
  const double tiles = std::ceil(out_h / (side - d[5] + 1)) * std::ceil(out_w / (side - d[6] + 1)) * batch * d[11];
  const double frequencies = side * (side / 2 + 1);
  row.whole[kFft] = row.bare[kFft] = tiles * frequencies * out_channels;
  row.bytes[kFft] =
      (elements + 4 * frequencies * (tiles * (row.in_channels + out_channels) + row.in_channels * out_channels)) *
      mc.a_bytes;
  row.shape = {std::log2(4 * tiles2 / outputs), std::log2(16 * tiles4 / outputs),
               std::log2(row.whole[kBatchedWinograd] / row.bare[kBatchedWinograd]),
               std::log2(row.whole[kFusedWinograd] / row.bare[kFusedWinograd])};
  return row;
}

enum Param : std::size_t { kFixed, kRate, kMemory, kOverlap, kRho, kStartUp };

std::vector<ParamSpec> Params(double smallest_us) {
  return {{"fixed_us", std::clamp(0.8 * smallest_us, 4.0, 400.0), 3, 500},
          {"rate", 1.2, 0.1, 12},
          {"memory", 1.3, 0.1, 15},
          {"overlap", 1.5, 1.01, 8},
          {"rho", 0.5, 0.01, 0.99},
          {"start_up", 0.5, 0.005, 20}};
}

double LatencyUs(const Row& row, std::size_t cls, const double* p) {
  const double work = (1 - p[kRho]) * row.whole[cls] + p[kRho] * row.bare[cls];
  const double compute = p[kRate] * 2 * row.in_channels * row.per_output[cls] * work / row.machine.peak *
                         (1 + p[kStartUp] * 16 / row.in_channels);
  const double memory = p[kMemory] * row.bytes[cls] / row.machine.bandwidth;
  return p[kFixed] + std::pow(std::pow(compute, p[kOverlap]) + std::pow(memory, p[kOverlap]), 1 / p[kOverlap]);
}

using Probabilities = std::array<double, kClasses>;

// Which class a shape gets: one regression of 0 and 1 for each class present.
class Classifier {
 public:
  Classifier(const Eigen::MatrixXd& x, const std::vector<Class>& classes) {
    constexpr BoostedTreesOptions kOptions{.rounds = 100, .leaves = 8, .learning_rate = 0.1};
    for (std::size_t c = 0; c < kClasses; ++c) {
      Eigen::VectorXd is_class(x.rows());
      for (Eigen::Index r = 0; r < x.rows(); ++r) is_class[r] = classes[static_cast<std::size_t>(r)] == c ? 1 : 0;
      share_[c] = is_class.mean();
      if (share_[c] > 0 && share_[c] < 1) {
        const Eigen::VectorXd centred = is_class.array() - share_[c];
        trees_[c] = BoostedTrees::Fit(x, centred, kOptions);
      }
    }
  }

  std::vector<Probabilities> operator()(const Eigen::MatrixXd& x) const {
    std::vector<Probabilities> out(static_cast<std::size_t>(x.rows()));
    for (std::size_t c = 0; c < kClasses; ++c) {
      const bool varies = share_[c] > 0 && share_[c] < 1;
      const Eigen::VectorXd above = varies ? trees_[c].Predict(x) : Eigen::VectorXd::Zero(x.rows());
      for (std::size_t r = 0; r < out.size(); ++r) {
        const double p = share_[c] + above[static_cast<Eigen::Index>(r)];
        out[r][c] = share_[c] > 0 ? std::clamp(p, kLeastShare, 1.0) : 0;
      }
    }
    for (Probabilities& p : out) {
      const double sum = std::accumulate(p.begin(), p.end(), 0.0);
      for (double& value : p) value /= sum;
    }
    return out;
  }

 private:
  std::array<double, kClasses> share_{};
  std::array<BoostedTrees, kClasses> trees_;
};

std::vector<Row> MakeRows(const TableData& data) {
  std::vector<Row> rows;
  for (Eigen::Index r = 0; r < data.size(); ++r)
    rows.push_back(MakeRow(data.machines[static_cast<std::size_t>(r)], data.dims.row(r)));
  return rows;
}

// Those of the family form, then how the tilings fit.
Eigen::MatrixXd ShapeFeatures(const TableData& data, const std::vector<Row>& rows) {
  const Eigen::MatrixXd family = data.Features();
  const Eigen::Index own = static_cast<Eigen::Index>(Row{}.shape.size());
  Eigen::MatrixXd features(family.rows(), family.cols() + own);
  features.leftCols(family.cols()) = family;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (Eigen::Index i = 0; i < own; ++i)
      features(static_cast<Eigen::Index>(r), family.cols() + i) = rows[r].shape[static_cast<std::size_t>(i)];
  }
  return features;
}

using Thetas = std::array<std::vector<double>, kClasses>;  // empty: the class is not fitted

class ConvAlgorithmsPrior : public Prior {
 public:
  ConvAlgorithmsPrior(Thetas thetas, Classifier classifier, std::map<std::uint32_t, Probabilities> of_rows)
      : thetas_(std::move(thetas)), classifier_(std::move(classifier)), of_rows_(std::move(of_rows)) {}

  Eigen::VectorXd Ln(const TableData& data) const override {
    const std::vector<Row> rows = MakeRows(data);
    const std::vector<Probabilities> probabilities = ProbabilitiesOf(data, ShapeFeatures(data, rows));
    Eigen::VectorXd ln(data.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double sum = 0;
      double weight = 0;
      for (std::size_t c = 0; c < kClasses; ++c) {
        if (thetas_[c].empty()) continue;
        sum += probabilities[r][c] * std::log(LatencyUs(rows[r], c, thetas_[c].data()));
        weight += probabilities[r][c];
      }
      ln[static_cast<Eigen::Index>(r)] = sum / weight;
    }
    return ln;
  }

  Eigen::MatrixXd Features(const TableData& data) const override {
    const Eigen::MatrixXd shape = ShapeFeatures(data, MakeRows(data));
    const std::vector<Probabilities> probabilities = ProbabilitiesOf(data, shape);
    Eigen::MatrixXd features(shape.rows(), shape.cols() + static_cast<Eigen::Index>(kClasses));
    features.leftCols(shape.cols()) = shape;
    for (std::size_t r = 0; r < probabilities.size(); ++r) {
      for (std::size_t c = 0; c < kClasses; ++c)
        features(static_cast<Eigen::Index>(r), shape.cols() + static_cast<Eigen::Index>(c)) = probabilities[r][c];
    }
    return features;
  }

 private:
  // Of rows that were fitted to, as a classifier says that did not see them:
  // the residual must not learn to trust it more than it deserves.
  std::vector<Probabilities> ProbabilitiesOf(const TableData& data, const Eigen::MatrixXd& shape) const {
    std::vector<Probabilities> probabilities = classifier_(shape);
    for (std::size_t r = 0; r < probabilities.size(); ++r) {
      const auto known = of_rows_.find(HashOf(data.rows[r]->kernel));
      if (known != of_rows_.end()) probabilities[r] = known->second;
    }
    return probabilities;
  }

  Thetas thetas_;
  Classifier classifier_;
  std::map<std::uint32_t, Probabilities> of_rows_;
};

std::map<std::uint32_t, Probabilities> HeldOutProbabilities(const TableData& data, const Eigen::MatrixXd& x,
                                                            const std::vector<Class>& classes, std::uint64_t seed) {
  std::map<std::uint32_t, Probabilities> held_out;
  for (const auto& [train, test] : Folds(x.rows(), seed)) {
    std::vector<Class> train_classes;
    for (Eigen::Index r : train) train_classes.push_back(classes[static_cast<std::size_t>(r)]);
    const std::vector<Probabilities> said = Classifier(x(train, Eigen::all), train_classes)(x(test, Eigen::all));
    for (std::size_t i = 0; i < test.size(); ++i)
      held_out[HashOf(data.rows[static_cast<std::size_t>(test[i])]->kernel)] = said[i];
  }
  return held_out;
}

// The kernels of a table by their class; nullopt where one has no name or fewer
// than two classes have rows enough.
struct KnownClasses {
  std::vector<Class> of_row;
  std::array<std::vector<std::size_t>, kClasses> members;
};
std::optional<KnownClasses> ClassesOf(const TableData& data) {
  KnownClasses known;
  for (const Measurement* row : data.rows) {
    if (row->kernel.launch.kernel.empty()) return std::nullopt;
    const Class cls = ClassOf(row->kernel.launch.kernel);
    known.members[cls].push_back(known.of_row.size());
    known.of_row.push_back(cls);
  }
  const auto enough = [](const auto& rows) { return rows.size() >= kMinRows; };
  if (std::count_if(known.members.begin(), known.members.end(), enough) < 2) return std::nullopt;
  return known;
}

// Each class's parameters, fitted to its rows.
Thetas FitClasses(const TableData& data, const std::vector<Row>& rows, const KnownClasses& known) {
  Thetas thetas;
  for (std::size_t c = 0; c < kClasses; ++c) {
    const std::vector<std::size_t>& members = known.members[c];
    if (members.size() < kMinRows) continue;
    Eigen::VectorXd ln(static_cast<Eigen::Index>(members.size()));
    for (std::size_t i = 0; i < members.size(); ++i)
      ln[static_cast<Eigen::Index>(i)] = data.ln_us[static_cast<Eigen::Index>(members[i])];
    const std::vector<ParamSpec> params = Params(std::exp(NthSmallest(ln, ln.size() / 50)));
    std::vector<double> start;
    for (const ParamSpec& param : params) start.push_back(param.start);
    thetas[c] = FitBounded(params, start, std::vector<bool>(params.size(), true), members.size(),
                           [&](std::span<const double> theta, std::span<double> out) {
                             for (std::size_t i = 0; i < members.size(); ++i)
                               out[i] = std::log(LatencyUs(rows[members[i]], c, theta.data())) -
                                        ln[static_cast<Eigen::Index>(i)];
                           });
  }
  return thetas;
}

// Waves of the blocks that ran, in place of those of usual tiles.
std::vector<Row> MakeLaunchedRows(const TableData& data) {
  std::vector<Row> rows = MakeRows(data);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Launch& launch = data.rows[r]->kernel.launch;
    if (launch.blocks() <= 0) continue;
    const double waves = static_cast<double>(launch.blocks()) / rows[r].machine.sms;
    const Class cls = ClassOf(launch.kernel);
    rows[r].whole[cls] = rows[r].bare[cls] * std::ceil(waves) / waves;
  }
  return rows;
}

class KnownAlgorithmsPrior : public Prior {
 public:
  KnownAlgorithmsPrior(Thetas thetas, std::unique_ptr<Prior> other)
      : thetas_(std::move(thetas)), other_(std::move(other)) {}

  Eigen::VectorXd Ln(const TableData& data) const override {
    const std::vector<Row> rows = MakeLaunchedRows(data);
    Eigen::VectorXd ln = other_->Ln(data);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Class cls = ClassOf(data.rows[r]->kernel.launch.kernel);
      if (!thetas_[cls].empty())
        ln[static_cast<Eigen::Index>(r)] = std::log(LatencyUs(rows[r], cls, thetas_[cls].data()));
    }
    return ln;
  }
  Eigen::MatrixXd Features(const TableData& data) const override { return other_->Features(data); }

 private:
  Thetas thetas_;
  std::unique_ptr<Prior> other_;
};

}  // namespace

std::unique_ptr<Prior> FitConvAlgorithmsPrior(const TableData& data, std::uint64_t seed) {
  const std::optional<KnownClasses> known = ClassesOf(data);
  if (!known.has_value()) return nullptr;
  const std::vector<Row> rows = MakeRows(data);
  const Eigen::MatrixXd x = ShapeFeatures(data, rows);
  return std::make_unique<ConvAlgorithmsPrior>(FitClasses(data, rows, *known), Classifier(x, known->of_row),
                                               HeldOutProbabilities(data, x, known->of_row, seed));
}

std::unique_ptr<Prior> FitKnownConvAlgorithms(const TableData& data, std::unique_ptr<Prior> other) {
  const std::optional<KnownClasses> known = ClassesOf(data);
  if (!known.has_value()) return nullptr;
  return std::make_unique<KnownAlgorithmsPrior>(FitClasses(data, MakeLaunchedRows(data), *known), std::move(other));
}

}  // namespace gpueta
