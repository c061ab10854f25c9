#include "core/ops/table_key.h"

#include <fmt/format.h>

namespace gpueta {

TableKey KeyOf(const Kernel& kernel, Timing timing) {
  TableKey key{.op = kernel.op(),
               .phase = Attention::Phase::kPrefill,
               .dtype = kernel.dtype,
               .kv_dtype = DType::kFp32,
               .timing = timing,
               .backend = ""};
  if (const auto* attention = std::get_if<Attention>(&kernel.work)) {
    key.phase = attention->phase;
    key.kv_dtype = attention->kv_dtype;
  } else if (const auto* collective = std::get_if<Collective>(&kernel.work)) {
    key.backend = collective->backend;
  }
  return key;
}

TableKey EvidenceKeyOf(TableKey key) {
  if (key.op == Op::kCollective) key.dtype = DType::kFp32;
  return key;
}

std::string Describe(const TableKey& key) {
  std::string text(Name(key.op));
  if (key.op == Op::kAttention) text += fmt::format(" {}", Name(key.phase));
  text += fmt::format(" {}", Name(key.dtype));
  if (key.op == Op::kAttention && key.kv_dtype != key.dtype) text += fmt::format("/{}", Name(key.kv_dtype));
  if (key.op == Op::kCollective) text += " " + key.backend;
  return fmt::format("{} {}", text, Name(key.timing));
}

}  // namespace gpueta
