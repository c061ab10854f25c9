// Hidden layers of a network in 16-bit integers: two multiply-adds a lane where
// floats have one, and the same bits on every processor and for any number of
// rows, as sums of integers do not depend on their order.
#pragma once

#include <cstdint>

namespace gpueta {

// Rows handled together: weights are read once for all of them.
inline constexpr int kGroupRows = 32;

// Sums never leave 32 bits: weights are scaled so (CompiledResidual). An input
// or output is 16 bits; two of them, half a layer apart, make a pair: one int32.
struct IntegerLayer {
  int pairs = 0;                          // of inputs
  int outputs = 0;                        // a multiple of 16; of 32 where paired
  bool paired = false;                    // outputs are pairs, the next layer's inputs; otherwise floats
  const std::int32_t* weights = nullptr;  // [pair][output], each a pair
  const std::int32_t* biases = nullptr;   // [output]
};

// y[output or pair][row] from x[pair][row], kGroupRows rows: the positive part
// of bias and weighted inputs. All arrays are aligned to 64 bytes.
void EvaluateGroup(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y);
// The same for one row: y[output or pair] from x[pair].
void EvaluateRow(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y);

}  // namespace gpueta
