#include "core/predict/compiled_residual.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/predict/clones.h"

// Two ways through the network give the same bits: many rows, a row in each
// lane of a vector, and one row, an output in each lane. Both do the same
// multiply-adds for an output in the same order:
// - hidden layers: bias and even inputs in one sum, odd inputs in another;
// - the last layer: kLanes sums over every kLanes-th input, added pairwise.
// Two sums, as one row's time is that of its longest chain.
namespace gpueta {
namespace {

constexpr int kMaxWidth = 256;  // of a hidden layer, as CheckStructure allows
constexpr float kFeatureClamp = 4.0F;

// A vector type, as loops over rows are unrolled before they are vectorised.
using Lanes [[gnu::vector_size(sizeof(float) * kLanes), gnu::may_alias]] = float;

// Rows handled together: weights are read once for all of them.
constexpr int kGroupRows = 2 * kLanes;
constexpr int kVectors = kGroupRows / kLanes;
using Values = float[kMaxWidth][kGroupRows];

// kOutputs outputs of kColumns vectors of rows: as many sums as registers hold.
template <int kOutputs, int kColumns>
GPUETA_INLINE void HiddenTile(const float* w, const float* biases, int inputs, int outputs, const Lanes* x, Lanes* y) {
  Lanes even[kOutputs][kColumns];
  Lanes odd[kOutputs][kColumns];
  const Lanes zero = {};
  for (int o = 0; o < kOutputs; ++o) {
    for (int c = 0; c < kColumns; ++c) {
      even[o][c] = zero + biases[o];
      odd[o][c] = zero;
    }
  }
  int i = 0;
  for (; i + 1 < inputs; i += 2) {
    const float* w0 = w + i * outputs;
    for (int o = 0; o < kOutputs; ++o) {
      for (int c = 0; c < kColumns; ++c) {
        even[o][c] += w0[o] * x[i * kVectors + c];
        odd[o][c] += w0[outputs + o] * x[(i + 1) * kVectors + c];
      }
    }
  }
  if (i < inputs) {
    for (int o = 0; o < kOutputs; ++o) {
      for (int c = 0; c < kColumns; ++c) even[o][c] += w[i * outputs + o] * x[i * kVectors + c];
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    for (int c = 0; c < kColumns; ++c) {
      const Lanes sum = even[o][c] + odd[o][c];
      y[o * kVectors + c] = sum > zero ? sum : zero;
    }
  }
}

template <int kOutputs, int kColumns>
GPUETA_INLINE void HiddenLayer(const float* w, const float* biases, int inputs, int outputs, const Values& in,
                               Values& out) {
  static_assert(kLanes % kOutputs == 0 && kVectors % kColumns == 0);
  const auto* x = reinterpret_cast<const Lanes*>(in);
  auto* y = reinterpret_cast<Lanes*>(out);
  for (int c = 0; c < kVectors; c += kColumns) {
    for (int o = 0; o < outputs; o += kOutputs)
      HiddenTile<kOutputs, kColumns>(w + o, biases + o, inputs, outputs, x + c, y + o * kVectors + c);
  }
}

#ifdef GPUETA_HAS_CLONES
// 32 registers of 16 floats, or 16 of 8.
__attribute__((target("arch=x86-64-v4"))) void Hidden(const float* w, const float* biases, int inputs, int outputs,
                                                      const Values& in, Values& out) {
  HiddenLayer<4, 2>(w, biases, inputs, outputs, in, out);
}
__attribute__((target("arch=x86-64-v3"))) void Hidden(const float* w, const float* biases, int inputs, int outputs,
                                                      const Values& in, Values& out) {
  HiddenLayer<2, 1>(w, biases, inputs, outputs, in, out);
}
__attribute__((target("default")))
#endif
void Hidden(const float* w, const float* biases, int inputs, int outputs, const Values& in, Values& out) {
  HiddenLayer<2, 1>(w, biases, inputs, outputs, in, out);
}

// Adds the upper half to the lower one until one sum is left.
template <int kHalf = kLanes / 2, class Sum>
GPUETA_INLINE void Fold(Sum* sums) {
  for (int j = 0; j < kHalf; ++j) sums[j] += sums[j + kHalf];
  if constexpr (kHalf > 1) Fold<kHalf / 2>(sums);
}

// `vectors` of kLanes rows.
GPUETA_CLONES void LastLayer(const float* w, float bias, int inputs, const Values& in, int vectors, float* out) {
  const auto* x = reinterpret_cast<const Lanes*>(in);
  for (int c = 0; c < vectors; ++c) {
    Lanes sums[kLanes] = {};
    for (int i = 0; i < inputs; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) sums[j] += w[i + j] * x[(i + j) * kVectors + c];
    }
    Fold(sums);
    reinterpret_cast<Lanes*>(out)[c] = sums[0] + bias;
  }
}

// kRows rows of the picked features as x·scale + shift, clamped. Half a group
// stands twice: its second half is not used.
template <int kRows>
GPUETA_INLINE void StandardiseRows(const float (*features)[kBlockRows], int start, const int* picks, const float* scale,
                                   const float* shift, int count, Values& out) {
  for (int i = 0; i < count; ++i) {
    const float* feature = &features[picks[i]][start];
    for (int r = 0; r < kGroupRows; ++r)
      out[i][r] = math::Clamp(math::Fma(feature[r % kRows], scale[i], shift[i]), -kFeatureClamp, kFeatureClamp);
  }
}
GPUETA_CLONES void Standardise(const float (*features)[kBlockRows], int start, int rows, const int* picks,
                               const float* scale, const float* shift, int count, Values& out) {
  if (rows == kGroupRows) {
    StandardiseRows<kGroupRows>(features, start, picks, scale, shift, count, out);
  } else {
    StandardiseRows<kLanes>(features, start, picks, scale, shift, count, out);
  }
}
GPUETA_INLINE void HiddenOfRow(const float* w, const float* biases, int inputs, int outputs, const float* x, float* y) {
  const auto at = [&](int i, int o) { return reinterpret_cast<const Lanes*>(w + i * outputs + o); };
  const Lanes zero = {};
  for (int o = 0; o < outputs; o += kLanes) {
    Lanes even = *reinterpret_cast<const Lanes*>(biases + o);
    Lanes odd = zero;
    int i = 0;
    for (; i + 1 < inputs; i += 2) {
      even += *at(i, o) * x[i];
      odd += *at(i + 1, o) * x[i + 1];
    }
    if (i < inputs) even += *at(i, o) * x[i];
    const Lanes sum = even + odd;
    *reinterpret_cast<Lanes*>(y + o) = sum > zero ? sum : zero;
  }
}

GPUETA_INLINE float LastLayerOfRow(const float* w, float bias, int inputs, const float* x) {
  alignas(64) float sums[kLanes];
  Lanes sum = {};
  for (int i = 0; i < inputs; i += kLanes)
    sum += *reinterpret_cast<const Lanes*>(w + i) * *reinterpret_cast<const Lanes*>(x + i);
  *reinterpret_cast<Lanes*>(sums) = sum;
  Fold(sums);
  return sums[0] + bias;
}

// The first row of the features through all layers.
GPUETA_CLONES float EvaluateRow(const float (*features)[kBlockRows], const int* picks, const float* scale,
                                const float* shift, int count, std::span<const CompiledResidual::Layer> layers) {
  alignas(64) float ping[kMaxWidth];
  alignas(64) float pong[kMaxWidth];
  for (int i = 0; i < count; ++i)
    ping[i] = math::Clamp(math::Fma(features[picks[i]][0], scale[i], shift[i]), -kFeatureClamp, kFeatureClamp);
  float* in = ping;
  float* out = pong;
  for (const auto& layer : layers.first(layers.size() - 1)) {
    HiddenOfRow(layer.w(), layer.b(), layer.inputs, layer.outputs, in, out);
    std::swap(in, out);
  }
  const auto& last = layers.back();
  return LastLayerOfRow(last.w(), last.b()[0], last.inputs, in);
}

int Padded(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace

CompiledResidual::CompiledResidual(const Residual& residual, int features, int variant) {
  if (residual.weights.empty()) return;
  const auto at = [](std::vector<Chunk>& chunks, int i) -> float& {
    return chunks[static_cast<std::size_t>(i / kLanes)].values[i % kLanes];
  };
  const auto zeros = [](int n) {
    return std::vector<Chunk>(static_cast<std::size_t>(Padded(std::max(n, 1)) / kLanes));
  };
  const int all_inputs = static_cast<int>(residual.feature_mean.size());
  std::vector<int> kept;  // inputs of the layer; the others are 0 or fold into the biases
  for (int i = 0; i < features; ++i) {
    const auto u = static_cast<std::size_t>(i);
    if (residual.feature_scale[u] == 0) continue;
    kept.push_back(i);
    scale_.push_back(residual.feature_scale[u]);
    shift_.push_back(-residual.feature_mean[u] * residual.feature_scale[u]);
  }
  picks_ = kept;
  std::vector<int> widths(residual.hidden.begin(), residual.hidden.end());
  widths.push_back(1);
  const float* weights = residual.weights.data();
  int inputs = all_inputs;
  for (std::size_t l = 0; l < widths.size(); ++l) {
    const int outputs = widths[l];
    const float* biases = weights + outputs * inputs;
    const bool last = l + 1 == widths.size();
    const float scale = last ? static_cast<float>(math::kLog2E) : 1.0F;
    Layer layer;
    // Outputs that pad the layer before are 0; so are the weights they meet.
    layer.inputs = l == 0 ? static_cast<int>(kept.size()) : Padded(inputs);
    layer.outputs = Padded(outputs);
    layer.weights = zeros(last ? layer.inputs : layer.inputs * layer.outputs);
    layer.biases = zeros(layer.outputs);
    const int stride = last ? 1 : layer.outputs;
    for (int o = 0; o < outputs; ++o) {
      float bias = biases[o];
      for (int i = features; l == 0 && i < all_inputs; ++i) {
        const auto u = static_cast<std::size_t>(i);
        const float one_hot = i - features == variant ? 1.0F : 0.0F;
        bias += weights[o * inputs + i] * math::Clamp((one_hot - residual.feature_mean[u]) * residual.feature_scale[u],
                                                      -kFeatureClamp, kFeatureClamp);
      }
      at(layer.biases, o) = bias * scale;
      for (std::size_t i = 0; i < kept.size(); ++i)
        at(layer.weights, static_cast<int>(i) * stride + o) = weights[o * inputs + kept[i]] * scale;
    }
    layers_.push_back(std::move(layer));
    weights = biases + outputs;
    inputs = outputs;
    kept.resize(static_cast<std::size_t>(outputs));
    std::iota(kept.begin(), kept.end(), 0);
  }
}

void CompiledResidual::Evaluate(Block& block) const {
  if (block.rows == 1) {
    block.residual_log2[0] = EvaluateRow(block.features, picks_.data(), scale_.data(), shift_.data(),
                                         static_cast<int>(picks_.size()), layers_);
    return;
  }
  for (int start = 0; start < block.rows; start += kGroupRows)
    EvaluateGroup(block, start, std::min(kGroupRows, block.rows - start));
}

void CompiledResidual::EvaluateGroup(Block& block, int start, int rows) const {
  alignas(64) Values ping;
  alignas(64) Values pong;
  Standardise(block.features, start, rows, picks_.data(), scale_.data(), shift_.data(), static_cast<int>(picks_.size()),
              ping);
  Values* in = &ping;
  Values* out = &pong;
  for (std::size_t l = 0; l + 1 < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    Hidden(layer.w(), layer.b(), layer.inputs, layer.outputs, *in, *out);
    std::swap(in, out);
  }
  const Layer& last = layers_.back();
  LastLayer(last.w(), last.b()[0], last.inputs, *in, rows / kLanes, &block.residual_log2[start]);
}

}  // namespace gpueta
