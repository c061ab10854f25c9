#include "core/predict/block.h"

#include <algorithm>

// Native speed from a portable build: the loader picks the widest variant the
// CPU runs. Contraction is off for this file, so all variants agree to the bit.
// Sanitizers cannot run the resolvers.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(GPUETA_TSAN)
#define GPUETA_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GPUETA_CLONES
#endif

namespace gpueta {
namespace {

constexpr int kMaxWidth = 256;  // of a hidden layer, as CheckStructure allows
constexpr float kFeatureClamp = 4.0F;

template <class Form, bool kWithFeatures>
GPUETA_INLINE void FormLoop(const Machine<float>& machine, const float* theta, Block& block) {
  const Machine<float> mc = machine;
  float p[Form::kParams.size()];
  for (std::size_t i = 0; i < Form::kParams.size(); ++i) p[i] = theta[i];
  const int rows = block.rows;
#pragma GCC ivdep
  for (int row = 0; row < rows; ++row) {
    float d[Form::kDims];
    for (int i = 0; i < Form::kDims; ++i) d[i] = block.dims[i][row];
    block.log2_us[row] = math::Log2(Form::template LatencyUs<float>(mc, p, d));
    if constexpr (kWithFeatures) {
      float f[Form::kFeatures.size()];
      Form::template Features<float>(mc, d, f);
      for (std::size_t i = 0; i < Form::kFeatures.size(); ++i) block.features[i][row] = f[i];
    }
  }
}

#define GPUETA_FORM_FUNCTIONS(Form)                                                                   \
  GPUETA_CLONES void Plain##Form(const Machine<float>& machine, const float* theta, Block& b) {       \
    FormLoop<Form, false>(machine, theta, b);                                                         \
  }                                                                                                   \
  GPUETA_CLONES void Full##Form(const Machine<float>& machine, const float* theta, Block& b) {        \
    FormLoop<Form, true>(machine, theta, b);                                                          \
  }                                                                                                   \
  void Run(const Form*, const Machine<float>& machine, const float* theta, bool features, Block& b) { \
    features ? Full##Form(machine, theta, b) : Plain##Form(machine, theta, b);                        \
  }

GPUETA_FORM_FUNCTIONS(GemmForm)
GPUETA_FORM_FUNCTIONS(Conv2dForm)
GPUETA_FORM_FUNCTIONS(PrefillForm)
GPUETA_FORM_FUNCTIONS(DecodeForm)
GPUETA_FORM_FUNCTIONS(MoeForm)
GPUETA_FORM_FUNCTIONS(VectorForm)
GPUETA_FORM_FUNCTIONS(CollectiveForm)
GPUETA_FORM_FUNCTIONS(CustomForm)

// Rows handled together in the network: one vector register of AVX-512. A
// vector type, as loops over rows are unrolled before they are vectorised.
constexpr int kGroup = 16;
using Lanes [[gnu::vector_size(sizeof(float) * kGroup), gnu::may_alias]] = float;

// out[o][r] = bias[o] + Σ weight[o][i]·in[i][r]; four outputs at a time keep
// the sums in registers.
GPUETA_CLONES void DenseLayer(const float* weights, const float* biases, int inputs, int outputs, bool relu,
                              const float (*in)[kGroup], float (*out)[kGroup]) {
  const auto* x = reinterpret_cast<const Lanes*>(in);
  auto* y = reinterpret_cast<Lanes*>(out);
  const Lanes zero = {};
  for (int o = 0; o < outputs; o += 4) {
    const float* w = weights + o * inputs;
    Lanes sum0 = zero + biases[o];
    Lanes sum1 = zero + biases[o + 1];
    Lanes sum2 = zero + biases[o + 2];
    Lanes sum3 = zero + biases[o + 3];
    for (int i = 0; i < inputs; ++i) {
      sum0 += w[i] * x[i];
      sum1 += w[inputs + i] * x[i];
      sum2 += w[2 * inputs + i] * x[i];
      sum3 += w[3 * inputs + i] * x[i];
    }
    y[o] = relu ? (sum0 > zero ? sum0 : zero) : sum0;
    y[o + 1] = relu ? (sum1 > zero ? sum1 : zero) : sum1;
    y[o + 2] = relu ? (sum2 > zero ? sum2 : zero) : sum2;
    y[o + 3] = relu ? (sum3 > zero ? sum3 : zero) : sum3;
  }
}

int PaddedToFour(int n) { return (n + 3) / 4 * 4; }

}  // namespace

void EvaluateForm(Op op, Attention::Phase phase, const Machine<float>& machine, const float* theta, bool with_features,
                  Block& block) {
  VisitForm(op, phase,
            [&]<class Form>() { Run(static_cast<const Form*>(nullptr), machine, theta, with_features, block); });
}

CompiledResidual::CompiledResidual(const Residual& residual, int features, int variant) {
  if (residual.weights.empty()) return;
  const int all_inputs = static_cast<int>(residual.feature_mean.size());
  mean_.assign(residual.feature_mean.begin(), residual.feature_mean.begin() + features);
  scale_.assign(residual.feature_scale.begin(), residual.feature_scale.begin() + features);
  std::vector<int> widths(residual.hidden.begin(), residual.hidden.end());
  widths.push_back(1);
  has_spread_ = !residual.spread_weights.empty();
  const float* next = residual.weights.data();
  int inputs = all_inputs;
  for (std::size_t l = 0; l < widths.size(); ++l) {
    const int outputs = widths[l];
    const float* weights = next;
    const float* biases = next + outputs * inputs;
    next = biases + outputs;
    Layer layer;
    layer.inputs = l == 0 ? features : PaddedToFour(inputs);
    layer.outputs = PaddedToFour(outputs);
    layer.weights.assign(static_cast<std::size_t>(layer.outputs * layer.inputs), 0.0F);
    layer.biases.assign(static_cast<std::size_t>(layer.outputs), 0.0F);
    for (int o = 0; o < outputs; ++o) {
      const int kept = l == 0 ? features : inputs;
      for (int i = 0; i < kept; ++i)
        layer.weights[static_cast<std::size_t>(o * layer.inputs + i)] = weights[o * inputs + i];
      float bias = biases[o];
      if (l == 0) {
        for (int i = features; i < all_inputs; ++i) {
          const float one_hot = i - features == variant ? 1.0F : 0.0F;
          const float x = math::Clamp((one_hot - residual.feature_mean[static_cast<std::size_t>(i)]) *
                                          residual.feature_scale[static_cast<std::size_t>(i)],
                                      -kFeatureClamp, kFeatureClamp);
          bias += weights[o * inputs + i] * x;
        }
      }
      layer.biases[static_cast<std::size_t>(o)] = bias;
    }
    if (l + 1 == widths.size() && has_spread_) {
      // A second output beside the residual: the padding of the last layer.
      std::copy_n(residual.spread_weights.begin(), inputs, layer.weights.begin() + layer.inputs);
      layer.biases[1] = residual.spread_weights.back();
    }
    layers_.push_back(std::move(layer));
    inputs = outputs;
  }
}

void CompiledResidual::AddTo(Block& block) const {
  alignas(64) float ping[kMaxWidth][kGroup];
  alignas(64) float pong[kMaxWidth][kGroup];
  for (int start = 0; start < block.rows; start += kGroup) {
    const int rows = std::min(kGroup, block.rows - start);
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      for (int r = 0; r < kGroup; ++r) {
        // A half-full group repeats its first row: the values are not used.
        const float x = block.features[i][start + (r < rows ? r : 0)];
        ping[i][r] = math::Clamp((x - mean_[i]) * scale_[i], -kFeatureClamp, kFeatureClamp);
      }
    }
    auto* in = &ping;
    auto* out = &pong;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const Layer& layer = layers_[l];
      DenseLayer(layer.weights.data(), layer.biases.data(), layer.inputs, layer.outputs, l + 1 < layers_.size(), *in,
                 *out);
      std::swap(in, out);
    }
    for (int r = 0; r < rows; ++r) {
      block.log2_us[start + r] += (*in)[0][r] * static_cast<float>(math::kLog2E);
      block.spread[start + r] = has_spread_ ? math::Clamp((*in)[1][r], kMinSpread, kMaxSpread) : 1.0F;
    }
  }
}

}  // namespace gpueta
