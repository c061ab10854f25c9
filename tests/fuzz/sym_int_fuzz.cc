// Any text as an expression: refused, or a value that its own text reads back
// and that evaluates to one number under both.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>

#include "core/graph/sym_int.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gpueta::SymInt;
  const absl::StatusOr<SymInt> value = SymInt::Parse({reinterpret_cast<const char*>(data), size});
  if (!value.ok()) return 0;
  const absl::StatusOr<SymInt> again = SymInt::Parse(value->ToString());
  if (!again.ok() || !(*again == *value)) std::abort();
  std::set<std::string> symbols;
  value->CollectSymbols(symbols);
  gpueta::SymbolValues values;
  for (const std::string& symbol : symbols) values[symbol] = static_cast<std::int64_t>(symbol.size()) + 1;
  const absl::StatusOr<std::int64_t> first = value->Evaluate(values);
  const absl::StatusOr<std::int64_t> second = again->Evaluate(values);
  if (first.ok() != second.ok() || (first.ok() && *first != *second)) std::abort();
  if (first.ok() && gpueta::IsKnownNonNegative(*value) && *first < 0) std::abort();
  return 0;
}
