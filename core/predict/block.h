// Evaluating forms and residuals over blocks of rows. One code path for one
// row and for a million: results are equal to the bit.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ops/forms.h"
#include "core/profile/profile.h"

namespace gpueta {

// Rows a block holds. Loops run over a multiple of kLanes rows; rows past the
// last one hold valid dims (copies), their results are not used.
inline constexpr int kBlockRows = 64;
inline constexpr int kLanes = 8;

struct Block {
  int rows = 0;  // a multiple of kLanes
  alignas(64) float dims[kMaxDims][kBlockRows];
  alignas(64) float log2_us[kBlockRows];
  alignas(64) float spread[kBlockRows];  // of the interval; filled with a residual
  alignas(64) float features[kMaxFeatures][kBlockRows];
};

// Fills log2_us and, when asked, features from dims.
void EvaluateForm(Op op, Attention::Phase phase, const Machine<float>& machine, const float* theta, bool with_features,
                  Block& block);

// A residual made ready for one variant: inputs that are constant for it are
// folded into the first layer.
class CompiledResidual {
 public:
  CompiledResidual() = default;
  // `features`: inputs that vary; `variant`: which of the constant inputs is 1.
  CompiledResidual(const Residual& residual, int features, int variant);

  bool empty() const { return layers_.empty(); }
  // Adds the residual to log2_us and fills spread. Reads features.
  void AddTo(Block& block) const;

 private:
  struct Layer {
    int inputs = 0;
    int outputs = 0;             // padded to a multiple of 4
    std::vector<float> weights;  // [output][input]
    std::vector<float> biases;   // [output]
  };
  std::vector<float> mean_;
  std::vector<float> scale_;
  std::vector<Layer> layers_;
  bool has_spread_ = false;
};

}  // namespace gpueta
