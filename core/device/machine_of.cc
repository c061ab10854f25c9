#include "core/device/machine_of.h"

namespace gpueta {

Machine<double> MachineOf(const DeviceSpec& spec, const TableKey& key) {
  const DeviceSpec full = WithInferredCells(spec);
  const ElementBits bits = BitsOf(key.dtype);
  return {.sms = static_cast<double>(full.sm_count),
          .peak = PeakTflops(full, key.dtype) * 1e6,   // TFLOP/s = 1e6 FLOP/µs
          .bandwidth = full.mem_bandwidth_gb_s * 1e3,  // GB/s = 1e3 B/µs
          .l2 = full.l2_mb * 1e6,
          .a_bytes = bits.activation / 8.0,
          .w_bytes = bits.weight / 8.0,
          .out_bytes = bits.output / 8.0,
          .kv_bytes = BitsOf(key.kv_dtype).activation / 8.0};
}

}  // namespace gpueta
