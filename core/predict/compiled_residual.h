// The learnt residual of one variant, made ready for evaluation.
#pragma once

#include <cstdint>
#include <vector>

#include "core/predict/block.h"
#include "core/predict/network_layers.h"
#include "core/profile/profile.h"

namespace gpueta {

// Inputs that are constant for the variant, or were in training, are folded
// into the first layer's biases. Hidden layers are evaluated in integers, each
// output scaled to what its sum can reach: that changes a latency by less than
// .05 % (compiled_residual_test.cc).
class CompiledResidual {
 public:
  CompiledResidual() = default;
  // `features`: inputs that vary; `variant`: which of the constant inputs is 1.
  CompiledResidual(const Residual& residual, int features, int variant);

  bool empty() const { return layers_.empty(); }
  bool has_spread() const { return spread_.inputs > 0; }
  // Fills residual_log2 from features and, if there is one, spread, which is not
  // clamped yet.
  void Evaluate(Block& block) const;

 private:
  template <class T>
  struct alignas(64) Chunk {
    T values[kLanes];
  };
  template <class T>
  using Chunks = std::vector<Chunk<T>>;
  struct Layer {
    IntegerLayer layer;  // points into the others
    Chunks<std::int32_t> weights;
    Chunks<std::int32_t> biases;
  };
  // Weights of one layer in floating point, inputs and outputs counted as the
  // integer layer has them.
  struct Dense {
    int inputs = 0;
    int outputs = 0;
    std::vector<double> weights;  // [output][input]
    std::vector<double> biases;
  };
  template <class T>
  static Chunks<T> Zeros(int count);
  void PickInputs(const Residual& residual, int features);
  Dense FirstLayer(const Residual& residual, int features, int variant) const;
  static Layer Quantise(const Dense& dense, int pairs, bool paired, std::vector<double>& units);
  void EvaluateGroupOf(Block& block, int start, int rows) const;

  // Input i and input i + pairs make a pair; the last may be missing (scale 0).
  int pairs_ = 0;
  std::vector<int> picks_;  // positions of the inputs among the features
  std::vector<float> scale_;
  std::vector<float> shift_;
  float limit_ = 0;  // of a standardised input
  std::vector<Layer> layers_;
  // Floats over the last hidden layer.
  struct ReadOut {
    Chunks<float> weights;
    int inputs = 0;  // a multiple of kLanes; 0: none
    float bias = 0;
  };
  ReadOut MakeReadOut(const float* weights, double factor, int inputs, const std::vector<double>& units) const;
  ReadOut last_;  // log2(e) folded in
  ReadOut spread_;
};

}  // namespace gpueta
