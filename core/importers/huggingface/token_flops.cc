#include "core/importers/huggingface/token_flops.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/importers/huggingface/huggingface_importer.h"

namespace gpueta {

absl::StatusOr<TokenFlops> FlopsPerToken(std::string_view json, std::int64_t context) {
  if (context < 1) return InvalidArgument("a context of {} tokens: must be at least 1", context);
  TokenFlops flops;
  const auto count = [&](const Graph& graph) -> absl::StatusOr<double> {
    SymbolValues values;
    for (const Graph::Symbol& symbol : graph.symbols) values[symbol.name] = symbol.name == "batch" ? 1 : context;
    GPUETA_ASSIGN_OR_RETURN(const GraphCounts counts, CountsOf(graph, values));
    return static_cast<double>(counts.flops);
  };
  GPUETA_ASSIGN_OR_RETURN(const Graph prefill, ImportHuggingFace(json, ""));
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(prefill.symbols, [&](const Graph::Symbol& symbol) { return symbol.name == name; });
  };
  if (has("seq") && !has("seq_decoder")) {
    GPUETA_ASSIGN_OR_RETURN(const double of_prompt, count(prefill));
    flops.prefill = of_prompt / static_cast<double>(context);
  }
  const absl::StatusOr<Graph> decode = ImportHuggingFace(json, "", {.phase = Attention::Phase::kDecode});
  if (absl::IsInvalidArgument(decode.status())) return flops;  // an encoder
  if (!decode.ok()) return decode.status();
  GPUETA_ASSIGN_OR_RETURN(flops.decode, count(*decode));
  return flops;
}

}  // namespace gpueta
