#include "core/ops/vector/vector.h"

#include <array>
#include <cstdint>
#include <iterator>

namespace gpueta {
namespace {

// FLOPs an element: a transcendental function is counted as 8 (the usual
// polynomial length in fp32), a comparison or copy as 0 or 1.
constexpr VectorOpInfo kOps[] = {
    {"add", 1, false, "add"},
    {"sub", 1, false, "add"},
    {"mul", 1, false, "mul"},
    {"div", 4, false, "div"},
    {"pow", 16, false, "pow"},
    {"sqrt", 4, false, "pow"},
    {"relu", 1, false, "relu"},
    {"clip", 2, false, "relu"},
    {"abs", 1, false, "relu"},
    {"neg", 1, false, "relu"},
    {"gelu", 14, false, "gelu"},
    {"erf", 8, false, "gelu"},
    {"tanh", 8, false, "tanh"},
    {"sigmoid", 10, false, "tanh"},
    {"exp", 8, false, "tanh"},
    {"log", 8, false, "tanh"},
    {"sin", 8, false, "tanh"},
    {"cos", 8, false, "tanh"},
    {"silu", 11, false, "gelu"},
    {"hardswish", 4, false, "relu"},
    {"hardsigmoid", 3, false, "relu"},
    {"silu_mul", 12, false, "silu_mul"},
    {"reciprocal", 4, false, "div"},
    {"max", 1, false, "add"},
    {"min", 1, false, "add"},
    {"where", 1, false, "add"},
    {"compare", 1, false, "add"},
    {"logical", 1, false, "add"},
    {"mod", 4, false, "div"},
    {"cast", 0, false, "relu"},
    {"copy", 0, false, "relu"},
    {"clear_gradient", 0, false, "relu"},
    {"accumulate_gradient", 1, false, "add"},
    {"rope", 6, false, "rope"},
    {"embedding", 0, false, "embedding"},
    {"softmax", 12, true, "softmax"},
    {"layernorm", 8, true, "layernorm"},
    {"rmsnorm", 5, true, "rmsnorm"},
    {"batchnorm", 2, false, "mul"},
    {"groupnorm", 8, true, "layernorm"},
    {"reduce", 1, true, "layernorm", true},
    {"cumsum", 1, true, "softmax"},
    {"pool", 1, false, "relu"},
    {"resize", 4, false, "relu"},
};

// Where an operator stands in kOps, by a hash of its name: the list is asked
// for every kernel.
constexpr std::size_t kSlots = 128;  // a power of two, well above the number of operators
constexpr std::uint8_t kFree = 255;
static_assert(std::size(kOps) < kSlots / 2);

constexpr std::size_t SlotOf(std::string_view op) {
  if (op.empty()) return 0;
  return (op.size() * 5 + static_cast<std::uint8_t>(op.front()) * 3 + static_cast<std::uint8_t>(op.back()) * 11 +
          static_cast<std::uint8_t>(op[op.size() / 2]) * 29) %
         kSlots;
}

constexpr auto kPlaces = [] {
  std::array<std::uint8_t, kSlots> places{};
  places.fill(kFree);
  for (std::size_t i = 0; i < std::size(kOps); ++i) {
    std::size_t slot = SlotOf(kOps[i].op);
    while (places[slot] != kFree) slot = (slot + 1) % kSlots;
    places[slot] = static_cast<std::uint8_t>(i);
  }
  return places;
}();

}  // namespace

VectorOpInfo InfoOf(std::string_view op) {
  for (std::size_t slot = SlotOf(op); kPlaces[slot] != kFree; slot = (slot + 1) % kSlots) {
    const VectorOpInfo& info = kOps[kPlaces[slot]];
    if (info.op == op) return info;
  }
  return {op, 1, false, "add"};
}

Counts CountsOf(const Vector& v, DType dtype) {
  const int bits = BitsOf(dtype).activation;
  const Count elements = Product({v.rows, v.cols});
  Counts counts;
  const VectorOpInfo info = InfoOf(v.op);
  counts.flops = elements * Count(info.flops_per_element);
  counts.bytes_read = BytesOf(elements * Count(v.operands), bits);
  counts.bytes_written = BytesOf(info.one_result_per_row ? Count(v.rows) : elements, bits);
  return counts;
}

}  // namespace gpueta
