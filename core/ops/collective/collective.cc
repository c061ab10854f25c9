#include "core/ops/collective/collective.h"

namespace gpueta {

double BusBytes(const Collective& c) {
  const double n = static_cast<double>(c.ranks);
  const double bytes = static_cast<double>(c.bytes);
  if (c.op == "all_reduce") return bytes * 2 * (n - 1) / n;
  if (c.op == "send_recv") return bytes;
  return bytes * (n - 1) / n;
}

Counts CountsOf(const Collective& c, DType dtype) {
  Counts counts;
  const Count moved = FloorOf(BusBytes(c));
  const bool reduces = c.op == "all_reduce" || c.op == "reduce_scatter";
  counts.flops = reduces ? FloorOf(BusBytes(c) * 8 / BitsOf(dtype).activation) : Count(0);
  counts.bytes_read = moved;
  counts.bytes_written = moved;
  return counts;
}

}  // namespace gpueta
