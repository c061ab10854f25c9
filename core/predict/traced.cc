#include "core/predict/traced.h"

#include <vector>

#include "core/base/errors.h"
#include "core/predict/compose.h"

namespace gpueta {
namespace {

// Answers, one for each work.
class Answers {
 public:
  Answers(const Predictor& predictor, const EstimateOptions& of_graph)
      : predictor_(predictor), options_(predictor.KernelOptionsOf(of_graph)), seen_(parts_) {}

  absl::StatusOr<double> MedianUs(const Kernel& kernel) {
    if (const auto part = seen_.Find(kernel); part.has_value()) return parts_[*part].estimate.latency_us.p50;
    GPUETA_ASSIGN_OR_RETURN(Estimate estimate, predictor_.EstimateKernel(kernel, options_));
    parts_.push_back({kernel, 1, std::move(estimate)});
    seen_.Add(parts_.size() - 1);
    return parts_.back().estimate.latency_us.p50;
  }

 private:
  const Predictor& predictor_;
  EstimateOptions options_;
  std::vector<GraphPart> parts_;
  PartsByWork seen_;
};

struct Times {
  double traced_us = 0;
  double model_us = 0;  // of the same kernels where they were traced
};

}  // namespace

absl::StatusOr<GraphEstimate> EstimateTraced(const Predictor& here, const Predictor& traced_on, const Graph& graph,
                                             std::span<const double> traced_us, const SymbolValues& dims,
                                             const EstimateOptions& options) {
  if (traced_us.size() != graph.nodes.size())
    return InvalidArgument("{} traced times of {} nodes", traced_us.size(), graph.nodes.size());
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, Bind(graph, dims));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> then, Bind(graph, {}));
  Answers answers(traced_on, options);
  std::vector<GraphPart> works;
  PartsByWork seen(works);
  std::vector<Times> times;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing == Costing::kFree || !(traced_us[i] > 0)) continue;
    absl::StatusOr<double> model_us = answers.MedianUs(then[i]);
    if (!model_us.ok()) return InField(fmt::format("nodes[{}] ({})", i, kernels[i].name), model_us.status());
    std::size_t at = seen.Find(kernels[i]).value_or(works.size());
    if (at == works.size()) {
      works.push_back({kernels[i], 1, {}});
      seen.Add(at);
      times.emplace_back();
    }
    times[at].traced_us += traced_us[i];
    times[at].model_us += *model_us;
  }
  const EstimateOptions kernel_options = here.KernelOptionsOf(options);
  GPUETA_ASSIGN_OR_RETURN(
      GraphEstimate estimate,
      ComposeGraph(graph, kernels, here.ExecutionOf(options), [&](const Kernel& kernel) -> absl::StatusOr<Estimate> {
        GPUETA_ASSIGN_OR_RETURN(Estimate of, here.EstimateKernel(kernel, kernel_options));
        const auto at = seen.Find(kernel);
        if (!at.has_value()) return of;
        const double factor = times[*at].traced_us / times[*at].model_us;
        for (double Quantiles::*q : {&Quantiles::p50, &Quantiles::p90, &Quantiles::p99}) of.latency_us.*q *= factor;
        of.estimator = kTracedEstimator;
        return of;
      }));
  estimate.warnings.push_back(
      fmt::format("kernels scale from what they took on {} as the cost model does", traced_on.spec().slug));
  return estimate;
}

}  // namespace gpueta
