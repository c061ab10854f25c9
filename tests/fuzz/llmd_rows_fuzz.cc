// Any text as a body of the llm-d contract.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "client/llmd/rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* list : {"requests", "entries"}) {
    const auto rows = gpueta::llmd::ParseList(text, list);
    if (!rows.ok()) continue;
    for (const auto& each : *rows) {
      const auto sample = gpueta::llmd::ParseSample(each);
      if (!sample.ok()) continue;
      if (!(sample->row.kv_cache_percentage >= 0 && sample->row.kv_cache_percentage <= 1)) std::abort();
    }
  }
  return 0;
}
