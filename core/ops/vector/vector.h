// Memory-bound operators, by name.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/ops/counts.h"
#include "core/ops/dim.h"
#include "core/ops/dtype.h"

namespace gpueta {

// `op` over rows × cols elements with `operands` full-size input tensors.
// Row operators (softmax, layernorm…) reduce along cols.
struct Vector {
  std::string op;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t operands = 1;

  friend bool operator==(const Vector&, const Vector&) = default;
};

inline constexpr std::array<DimField<Vector>, 3> kVectorDims = {{
    {"rows", &Vector::rows},
    {"cols", &Vector::cols},
    {"operands", &Vector::operands, 1, 1},
}};

// What is known of a vector operator by its name.
struct VectorOpInfo {
  std::string_view op;
  int flops_per_element;  // arithmetic of one output element, rounded
  bool row_wise;          // reduces along cols
  std::string_view like;  // the operator whose measurements stand in for it
  bool one_result_per_row = false;
};

// Never fails: an unknown name is an elementwise operator of 1 FLOP.
VectorOpInfo InfoOf(std::string_view op);

// Bytes: element size · rows · cols · (operands + 1); an operator with one
// result per row writes rows elements.
Counts CountsOf(const Vector& vector, DType dtype);

}  // namespace gpueta
