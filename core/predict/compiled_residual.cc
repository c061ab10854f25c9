#include "core/predict/compiled_residual.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "core/predict/clones.h"

namespace gpueta {
namespace {

constexpr int kMaxWidth = 256;  // of a hidden layer, as CheckStructure allows

// Inputs are standardised, clamped to ±4, and counted in steps of 1/8191.
constexpr float kFeatureClamp = 4.0F;
constexpr float kInputSteps = 8191.0F;
constexpr float kLargestInput = kFeatureClamp * kInputSteps;
// Later inputs are the upper 16 bits of sums that are not negative.
constexpr double kSumSteps = 65536.0;
constexpr double kLargestHalf = 32767.0;
// Sums stay below 2^31 by as much as rounding the weights can add.
constexpr double kLargestSum = 0x1p31 - 0x1p23;
constexpr double kLargestScale = 1e30;  // of outputs that hardly vary

using Column = std::int32_t[kGroupRows];

int Padded(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// The lower 16 bits are x·scale + shift, rounded.
GPUETA_INLINE std::uint32_t Steps(float x, float scale, float shift, float limit) {
  constexpr float kRound = 12582912.0F;  // 1.5·2^23
  return std::bit_cast<std::uint32_t>(math::Clamp(math::Fma(x, scale, shift), -limit, limit) + kRound);
}

GPUETA_INLINE std::int32_t PairOf(std::uint32_t first, std::uint32_t second) {
  return static_cast<std::int32_t>((first & 0xffffU) | second << 16);
}

struct Inputs {
  const int* picks;
  const float* scale;
  const float* shift;
  int pairs;
  float limit;  // kLargestInput, but not known to the compiler, which would go on with the constant in a branch
};

// kRows rows of the features. Half a group stands twice: its second half is not
// used.
template <int kRows>
GPUETA_INLINE void StandardiseRows(const Inputs& in, const float (*features)[kBlockRows], int start, Column* out) {
  for (int p = 0; p < in.pairs; ++p) {
    const int q = p + in.pairs;
    const float* first = &features[in.picks[p]][start];
    const float* second = &features[in.picks[q]][start];
    for (int r = 0; r < kGroupRows; ++r) {
      out[p][r] = PairOf(Steps(first[r % kRows], in.scale[p], in.shift[p], in.limit),
                         Steps(second[r % kRows], in.scale[q], in.shift[q], in.limit));
    }
  }
}
GPUETA_CLONES void StandardiseGroup(const Inputs& in, const float (*features)[kBlockRows], int start, int rows,
                                    Column* out) {
  rows == kGroupRows ? StandardiseRows<kGroupRows>(in, features, start, out)
                     : StandardiseRows<kLanes>(in, features, start, out);
}
GPUETA_CLONES void StandardiseRow(const Inputs& in, const float (*features)[kBlockRows], std::int32_t* out) {
  for (int p = 0; p < in.pairs; ++p) {
    const int q = p + in.pairs;
    out[p] = PairOf(Steps(ReadAlone(features[in.picks[p]][0]), in.scale[p], in.shift[p], in.limit),
                    Steps(ReadAlone(features[in.picks[q]][0]), in.scale[q], in.shift[q], in.limit));
  }
}

// The last layer: kLanes sums over every kLanes-th input, added pairwise; for
// many rows and for one the same additions in the same order.
using Lanes [[gnu::vector_size(sizeof(float) * kLanes), gnu::may_alias]] = float;

template <int kHalf = kLanes / 2, class Sum>
GPUETA_INLINE void Fold(Sum* sums) {
  for (int j = 0; j < kHalf; ++j) sums[j] += sums[j + kHalf];
  if constexpr (kHalf > 1) Fold<kHalf / 2>(sums);
}

// `rows` is a multiple of kLanes.
GPUETA_CLONES void LastLayerOfGroup(const float* w, float bias, int inputs, const Column* in, int rows, float* out) {
  const auto* x = reinterpret_cast<const Lanes*>(in);
  constexpr int kVectors = kGroupRows / kLanes;
  for (int c = 0; c < rows / kLanes; ++c) {
    Lanes sums[kLanes] = {};
    for (int i = 0; i < inputs; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) sums[j] += w[i + j] * x[(i + j) * kVectors + c];
    }
    Fold(sums);
    reinterpret_cast<Lanes*>(out)[c] = sums[0] + bias;
  }
}

GPUETA_CLONES float LastLayerOfRow(const float* w, float bias, int inputs, const std::int32_t* in) {
  alignas(64) float sums[kLanes];
  Lanes sum = {};
  for (int i = 0; i < inputs; i += kLanes)
    sum += *reinterpret_cast<const Lanes*>(w + i) * *reinterpret_cast<const Lanes*>(in + i);
  *reinterpret_cast<Lanes*>(sums) = sum;
  Fold(sums);
  return sums[0] + bias;
}

template <class Chunks>
auto& At(Chunks& chunks, int i) {
  return chunks[static_cast<std::size_t>(i / kLanes)].values[i % kLanes];
}

}  // namespace

template <class T>
CompiledResidual::Chunks<T> CompiledResidual::Zeros(int count) {
  return Chunks<T>(static_cast<std::size_t>(Padded(std::max(count, 1), kLanes) / kLanes));
}

void CompiledResidual::PickInputs(const Residual& residual, int features) {
  for (int i = 0; i < features; ++i) {
    const auto u = static_cast<std::size_t>(i);
    if (residual.feature_scale[u] == 0) continue;
    picks_.push_back(i);
    scale_.push_back(residual.feature_scale[u] * kInputSteps);
    shift_.push_back(-residual.feature_mean[u] * residual.feature_scale[u] * kInputSteps);
  }
  if (picks_.size() % 2 != 0 || picks_.empty()) {
    picks_.resize(Padded(static_cast<int>(picks_.size()) + 1, 2), 0);
    scale_.resize(picks_.size(), 0);
    shift_.resize(picks_.size(), 0);
  }
  pairs_ = static_cast<int>(picks_.size()) / 2;
  limit_ = kLargestInput;
}

CompiledResidual::Dense CompiledResidual::FirstLayer(const Residual& residual, int features, int variant) const {
  const int all = static_cast<int>(residual.feature_mean.size());
  const int outputs = residual.hidden[0];
  Dense dense{.inputs = 2 * pairs_, .outputs = outputs, .weights = {}, .biases = {}};
  for (int o = 0; o < outputs; ++o) {
    const float* weights = &residual.weights[static_cast<std::size_t>(o * all)];
    for (std::size_t i = 0; i < picks_.size(); ++i) dense.weights.push_back(scale_[i] == 0 ? 0 : weights[picks_[i]]);
    double bias = residual.weights[static_cast<std::size_t>(outputs * all + o)];
    for (int i = features; i < all; ++i) {
      const auto u = static_cast<std::size_t>(i);
      const float one_hot = i - features == variant ? 1.0F : 0.0F;
      bias += weights[i] * math::Clamp((one_hot - residual.feature_mean[u]) * residual.feature_scale[u], -kFeatureClamp,
                                       kFeatureClamp);
    }
    dense.biases.push_back(bias);
  }
  return dense;
}

// `units`: what one step of each input stands for; becomes that of the outputs.
CompiledResidual::Layer CompiledResidual::Quantise(const Dense& dense, int pairs, bool paired,
                                                   std::vector<double>& units) {
  const int outputs = Padded(dense.outputs, paired ? 2 * kLanes : kLanes);
  Layer out{.layer = {.pairs = pairs, .outputs = outputs, .paired = paired},
            .weights = Zeros<std::int32_t>(pairs * outputs),
            .biases = Zeros<std::int32_t>(outputs)};
  std::vector<double> output_units(static_cast<std::size_t>(outputs), 1.0);
  for (int o = 0; o < dense.outputs; ++o) {
    const double* weights = &dense.weights[static_cast<std::size_t>(o * dense.inputs)];
    const double bias = dense.biases[static_cast<std::size_t>(o)];
    double sum = std::abs(bias);
    double largest = 0;
    for (int i = 0; i < dense.inputs; ++i) {
      const double weight = std::abs(weights[i] * units[static_cast<std::size_t>(i)]);
      sum += weight * kLargestHalf;
      largest = std::max(largest, weight);
    }
    const double scale = std::min({kLargestSum / sum, kLargestHalf / largest, kLargestScale});
    for (int p = 0; p < pairs; ++p) {
      const auto steps = [&](int i) {
        return i < dense.inputs ? std::lround(weights[i] * units[static_cast<std::size_t>(i)] * scale) : 0L;
      };
      At(out.weights, p * outputs + o) =
          PairOf(static_cast<std::uint32_t>(steps(p)), static_cast<std::uint32_t>(steps(p + pairs)));
    }
    At(out.biases, o) =
        static_cast<std::int32_t>(std::lround(bias * scale) + (paired ? std::lround(kSumSteps / 2) : 0));
    output_units[static_cast<std::size_t>(o)] = (paired ? kSumSteps : 1.0) / scale;
  }
  out.layer.weights = out.weights.front().values;
  out.layer.biases = out.biases.front().values;
  units = std::move(output_units);
  return out;
}

CompiledResidual::CompiledResidual(const Residual& residual, int features, int variant) {
  if (residual.weights.empty()) return;
  PickInputs(residual, features);
  std::vector<double> units(picks_.size(), 1.0 / static_cast<double>(kInputSteps));
  Dense dense = FirstLayer(residual, features, variant);
  int pairs = pairs_;
  const float* next = residual.weights.data() + dense.outputs * (static_cast<int>(residual.feature_mean.size()) + 1);
  for (std::size_t l = 0; l < residual.hidden.size(); ++l) {
    const bool paired = l + 1 < residual.hidden.size();
    layers_.push_back(Quantise(dense, pairs, paired, units));
    if (!paired) break;
    const int inputs = dense.outputs;
    const int outputs = residual.hidden[l + 1];
    pairs = layers_.back().layer.outputs / 2;
    dense = {.inputs = inputs, .outputs = outputs, .weights = {next, next + outputs * inputs}, .biases = {}};
    next += outputs * inputs;
    dense.biases.assign(next, next + outputs);
    next += outputs;
  }
  last_ = MakeReadOut(next, math::kLog2E, dense.outputs, units);
  if (!residual.spread_weights.empty()) spread_ = MakeReadOut(residual.spread_weights.data(), 1, dense.outputs, units);
}

// `weights`: one an input, then a constant; `units`: what one step of an input
// stands for.
CompiledResidual::ReadOut CompiledResidual::MakeReadOut(const float* weights, double factor, int inputs,
                                                        const std::vector<double>& units) const {
  ReadOut out{
      .weights = {}, .inputs = layers_.back().layer.outputs, .bias = static_cast<float>(weights[inputs] * factor)};
  out.weights = Zeros<float>(out.inputs);
  for (int i = 0; i < inputs; ++i)
    At(out.weights, i) = static_cast<float>(weights[i] * units[static_cast<std::size_t>(i)] * factor);
  return out;
}

void CompiledResidual::Evaluate(Block& block) const {
  if (block.rows > 1) {
    for (int start = 0; start < block.rows; start += kGroupRows)
      EvaluateGroupOf(block, start, std::min(kGroupRows, block.rows - start));
    return;
  }
  alignas(64) std::int32_t ping[kMaxWidth];
  alignas(64) std::int32_t pong[kMaxWidth];
  StandardiseRow({picks_.data(), scale_.data(), shift_.data(), pairs_, limit_}, block.features, ping);
  std::int32_t* in = ping;
  std::int32_t* out = pong;
  for (const Layer& layer : layers_) {
    EvaluateRow(layer.layer, in, out);
    std::swap(in, out);
  }
  block.residual_log2[0] = LastLayerOfRow(last_.weights.front().values, last_.bias, last_.inputs, in);
  if (has_spread()) block.spread[0] = LastLayerOfRow(spread_.weights.front().values, spread_.bias, spread_.inputs, in);
}

void CompiledResidual::EvaluateGroupOf(Block& block, int start, int rows) const {
  alignas(64) Column ping[kMaxWidth];
  alignas(64) Column pong[kMaxWidth];
  StandardiseGroup({picks_.data(), scale_.data(), shift_.data(), pairs_, limit_}, block.features, start, rows, ping);
  Column* in = ping;
  Column* out = pong;
  for (const Layer& layer : layers_) {
    EvaluateGroup(layer.layer, in[0], out[0]);
    std::swap(in, out);
  }
  LastLayerOfGroup(last_.weights.front().values, last_.bias, last_.inputs, in, rows, &block.residual_log2[start]);
  if (has_spread())
    LastLayerOfGroup(spread_.weights.front().values, spread_.bias, spread_.inputs, in, rows, &block.spread[start]);
}

}  // namespace gpueta
