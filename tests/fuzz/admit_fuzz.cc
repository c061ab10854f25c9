// Any text as a question about admission, as a step and as an engine's records:
// refused, or answered.
#include <cstddef>
#include <cstdint>

#include "core/serving/admit_json.h"
#include "tests/fuzz/fleets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)gpueta::ParseEngineStep(text);
  (void)gpueta::ParseStepRecords(text);
  auto question = gpueta::ParseAdmitQuestion(text);
  if (!question.ok()) return 0;
  gpueta::Fleet fleet(gpueta::fuzz::kSmall);
  if (fleet.Apply(std::move(question->fleet)).ok()) gpueta::fuzz::JudgeOne(fleet, question->candidate);
  return 0;
}
