#include "core/ops/moe/moe.h"

#include <algorithm>
#include <cmath>

namespace gpueta {
namespace {

Count DividedBy(Count count, std::int64_t divisor) {
  return count.overflowed() ? count : Count(count.value() / std::max<std::int64_t>(divisor, 1));
}

}  // namespace

Counts CountsOf(const Moe& m, DType dtype) {
  const ElementBits bits = BitsOf(dtype);
  const Count per_expert = DividedBy(Product({3, m.hidden_size, m.inter_size}), m.tp);
  const Count routed = DividedBy(Product({m.num_tokens, m.top_k}), m.ep);
  Counts counts;
  counts.macs = DividedBy(Product({3, m.num_tokens, m.top_k}) * Product({m.hidden_size, m.inter_size}),
                          Product({m.tp, m.ep}).value());
  counts.flops = 2 * counts.macs;
  const double experts = static_cast<double>(m.num_experts);
  const double choices = static_cast<double>(m.num_tokens) * static_cast<double>(m.top_k);
  const double active =
      std::max(1.0, experts / static_cast<double>(m.ep) * -std::expm1(choices * std::log1p(-1 / (experts + 1e-9))));
  const Count active_experts = FloorOf(std::min(active, experts) + 0.5);
  counts.bytes_read = BytesOf(active_experts * per_expert, bits.weight) +
                      BytesOf(Product({m.num_tokens, m.hidden_size}), bits.activation) +
                      BytesOf(routed * DividedBy(Product({2, m.inter_size}), m.tp), bits.activation);
  counts.bytes_written = BytesOf(Product({m.num_tokens, m.hidden_size}), bits.activation) +
                         BytesOf(routed * DividedBy(Product({2, m.inter_size}), m.tp), bits.activation);
  return counts;
}

}  // namespace gpueta
