// Operators that oneDNN has no primitive for, as plain loops.
//
// Pure functions on one part of a tensor; the caller spreads parts over
// threads. Elements are float (fp32) or Bf16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpueta {

enum class Bf16 : std::uint16_t {};

// y[i] = f(x[i], second[i], third[i]); operands beyond those the operator was
// looked up with are not read and may be null.
template <class T>
using ElementwiseLoop = void (*)(const T* x, const T* second, const T* third, T* y, std::size_t n);

// The loop of an operator with 1 to 3 operands; nullptr if there is none.
//   copy, neg, reciprocal, erf, sin, cos, hardsigmoid: 1
//   cast: 1; rounds towards zero and keeps the width
//   logical: not x, x and second; compare: x > 0, x > second
//   mod: by 3, by second; pow: x to the power of second
//   silu_mul: x · sigmoid(x) · second
//   add: x + second + third; accumulate_gradient: x + second; clear_gradient: 0
//   where: x, or else 1, second, second; the condition is x > 0, with three
//   operands third > 0
template <class T>
ElementwiseLoop<T> FindElementwise(std::string_view op, std::int64_t operands);

// A tensor of rows × cols and the rows of it to do.
struct RowRange {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// An operator that works along rows. x, y and the parameters are those of the
// whole tensor.
template <class T>
struct RowLoop {
  void (*run)(const T* x, const T* parameters, T* y, const RowRange& range) = nullptr;
  // Elements of the parameters: per_tensor + rows · per_row + cols · per_col +
  // rows · cols · per_element.
  std::size_t per_row = 0;
  std::size_t per_col = 0;
  std::size_t per_element = 0;
  bool one_result_per_row = false;  // y has rows elements, otherwise rows × cols
};

// The loop of an operator; `run` is nullptr if there is none.
//   rmsnorm: x / rms(x) · parameters[col]
//   batchnorm: x · parameters[2·row] + parameters[2·row + 1]
//   reduce: the sum of each row
//   cumsum: running sum
//   resize: the mean of two neighbours
//   rope: pairs of columns turned by angles; parameters hold, for each row,
//     kRopePairs cosines and then as many sines, used in turn
//   embedding: rows of the parameters in scattered order
template <class T>
RowLoop<T> FindRowLoop(std::string_view op);

// Pooling with windows that overlap by one element on each side: the largest of
// `stride` elements of x and their neighbours. Rows of x have cols · stride
// elements, rows of y cols.
template <class T>
void Pool(const T* x, T* y, std::size_t stride, const RowRange& range);

inline constexpr std::size_t kRopePairs = 64;  // half the usual head dimension

// Sets the scores that a causal mask hides to a large negative number:
// `range.rows` = any number of blocks of query_len rows, `range.cols` keys;
// query i of a block sees keys up to cols − query_len + i.
template <class T>
void MaskCausal(T* scores, std::size_t query_len, const RowRange& range);

// y[i] = a[i] + scale · b[i]: STREAM's triad, for measuring bandwidth.
void Triad(const float* a, const float* b, float scale, float* y, std::size_t n);

// Stores the first word of each cache line of `bytes` bytes again: the lines
// are now in the cache of the calling thread's core, as if it had written them.
void TouchLines(std::byte* data, std::size_t bytes);

float ToFloat(Bf16 value);
Bf16 ToBf16(float value);  // rounds to nearest even

}  // namespace gpueta
