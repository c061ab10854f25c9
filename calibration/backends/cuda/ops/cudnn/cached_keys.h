// Where the keys and values of an attention come from.
#pragma once

#include "core/ops/kernel.h"

namespace gpueta::cudnn {

// Whether keys and values, most of them at least, are from earlier steps, so that no cache
// of the device has them: when decoding, and causally behind a prefix that is longer than
// the queries. What another sequence is attended to (not causal) was computed just before.
inline bool IsCached(const Attention& attention) {
  return attention.phase == Attention::Phase::kDecode ||
         (attention.causal != 0 && attention.kv_len > 2 * attention.query_len);
}

}  // namespace gpueta::cudnn
