// The learnt residual of one variant, made ready for evaluation.
#pragma once

#include <vector>

#include "core/predict/block.h"
#include "core/profile/profile.h"

namespace gpueta {

// Inputs that are constant for the variant, or were in training, are folded
// into the first layer's biases; log2(e) is folded into the last layer.
class CompiledResidual {
 public:
  struct alignas(64) Chunk {
    float values[kLanes];
  };
  struct Layer {
    int inputs = 0;
    int outputs = 0;             // padded to kLanes
    std::vector<Chunk> weights;  // [input][output]; of the last layer [input]
    std::vector<Chunk> biases;   // [output]
    const float* w() const { return weights.front().values; }
    const float* b() const { return biases.front().values; }
  };

  CompiledResidual() = default;
  // `features`: inputs that vary; `variant`: which of the constant inputs is 1.
  CompiledResidual(const Residual& residual, int features, int variant);

  bool empty() const { return layers_.empty(); }
  // Fills residual_log2 from features.
  void Evaluate(Block& block) const;

 private:
  void EvaluateGroup(Block& block, int start, int rows) const;

  std::vector<int> picks_;  // positions of the inputs among the features
  std::vector<float> scale_;
  std::vector<float> shift_;
  std::vector<Layer> layers_;
};

}  // namespace gpueta
