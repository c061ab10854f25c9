// Any text as a question about admission: refused, or decided with margins
// that agree with the decision.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/device/catalogue.h"
#include "core/serving/admit_json.h"
#include "core/serving/testing_models.h"

namespace {

const gpueta::StepTable& Table() {
  static const gpueta::StepTable table = [] {
    const gpueta::Predictor roofline(gpueta::Catalogue::BuiltIn().Get("h100-sxm").value(), nullptr, nullptr);
    const auto model = gpueta::StepModel::Compile(gpueta::testing::SmallLlama(), "m").value();
    return gpueta::StepTable::Build(model, roofline, {.tokens = 256, .sequences = 16, .context = 1024}).value();
  }();
  return table;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto question = gpueta::ParseAdmitQuestion({reinterpret_cast<const char*>(data), size});
  if (!question.ok()) return 0;
  std::vector<gpueta::Replica> replicas;
  for (const gpueta::DescribedReplica& each : question->replicas) {
    gpueta::Replica replica = each.replica;
    replica.table = &Table();
    if (each.metrics.has_value()) {
      const auto state = gpueta::StateFrom(*each.metrics, replica.state.limits);
      if (!state.ok()) return 0;
      replica.state = *state;
    }
    if (replica.state.running.size() + replica.state.waiting.size() > 64) return 0;  // each run stays short
    replicas.push_back(std::move(replica));
  }
  if (replicas.size() > 8) return 0;
  const auto result =
      gpueta::Admit(replicas, question->candidate, question->limits, {.scenarios = 2, .max_steps = 2000});
  if (!result.ok()) return 0;
  for (const gpueta::ReplicaDecision& decision : result->replicas) {
    if (std::isnan(decision.margin) || decision.admit != (decision.margin >= 0)) std::abort();
  }
  return 0;
}
