// Bytes as a request of the prediction service: kernels, columns and graphs are
// decoded, checked and estimated.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/predict/snapshot.h"
#include "core/wire/graph_codec.h"
#include "core/wire/kernel_codec.h"
#include "core/wire/prediction_codec.h"
#include "gpueta/v1/prediction_service.pb.h"

namespace {

using namespace gpueta;

constexpr std::size_t kRows = 4096;  // a fuzzer gains nothing from more

const Predictor& ThePredictor() {
  static const std::shared_ptr<const Predictor> predictor = Snapshot::Build({}).value()->Find("h100-sxm").value();
  return *predictor;
}

void EstimateColumns(const v1::KernelColumns& message, const EstimateOptions& options) {
  const auto columns = wire::Decode(message);
  if (!columns.ok() || columns->rows > kRows) return;
  std::vector<float> p50(columns->rows), p90(columns->rows), p99(columns->rows);
  ColumnsResult result{p50, p90, p99, {}, {}};
  if (!ThePredictor().EstimateColumns(*columns, options, result).ok()) return;
  for (std::size_t i = 0; i < columns->rows; ++i) {
    if (!(p50[i] > 0 && p50[i] <= p90[i] && p90[i] <= p99[i])) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  v1::PredictRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto options = wire::Decode(request.options());
  if (!options.ok()) return 0;
  if (request.has_columns()) EstimateColumns(request.columns(), *options);
  if (request.has_kernel()) {
    if (const auto kernel = wire::Decode(request.kernel()); kernel.ok())
      (void)ThePredictor().Explain(*kernel, *options);
  }
  if (request.has_graph()) {
    const auto graph = wire::Decode(request.graph().graph());
    if (!graph.ok()) return 0;
    SymbolValues dims(request.graph().dims().begin(), request.graph().dims().end());
    for (const Graph::Symbol& symbol : graph->symbols) dims.try_emplace(symbol.name, 3);
    (void)ThePredictor().EstimateGraph(*graph, dims, *options);
  }
  return 0;
}
