#include "core/importers/traces/signature_table.h"

#include <algorithm>

#include "core/importers/traces/aten_ops.h"
#include "core/importers/traces/aten_table.h"

namespace gpueta {
namespace {

// Everything that sets signatures apart, unambiguously.
std::string KeyOf(const OpSignature& signature) {
  std::string key = signature.name + '\n' + std::to_string(signature.tensor_bytes);
  for (const TraceArgument& argument : signature.arguments) {
    key += '\n' + argument.type + '\t' + argument.concrete;
    for (const std::vector<std::int64_t>& dims : argument.tensors) {
      key += '\t';
      for (std::int64_t dim : dims) key += std::to_string(dim) + ',';
    }
  }
  return key;
}

std::int64_t BytesOfTensors(const std::vector<TraceArgument>& arguments) {
  Count bytes;
  for (const TraceArgument& argument : arguments) {
    const int bits = BitsOfTraceType(argument.type);
    for (const std::vector<std::int64_t>& dims : argument.tensors) {
      Count elements = 1;
      for (std::int64_t dim : dims) elements = elements * Count(std::max<std::int64_t>(dim, 0));
      bytes = bytes + BytesOf(elements, bits);
    }
  }
  return bytes.overflowed() ? 0 : bytes.value();
}

}  // namespace

std::uint32_t SignatureTable::Add(std::string name, std::vector<TraceArgument> arguments) {
  for (TraceArgument& argument : arguments) {
    if (IsFloatTraceType(argument.type)) float_type_ = argument.type;
    if (argument.type == "TensorList") argument.type = float_type_;
  }
  ++trace_.call_counts[name];
  OpSignature signature;
  signature.tensor_bytes = BytesOfTensors(arguments);
  if (aten::Find(name) != nullptr) signature.arguments = std::move(arguments);
  signature.name = std::move(name);
  const auto [number, added] = interner_.Add(KeyOf(signature));
  if (added) trace_.signatures.push_back(std::move(signature));
  return number;
}

}  // namespace gpueta
