#include "calibration/backends/cuda/ops/cudnn/engine_name.h"

namespace gpueta::cudnn {
namespace {

constexpr std::string_view kLibrary = "cudnn";
constexpr std::string_view kEngine = "eng";

struct PassWord {
  Pass pass;
  std::string_view word;
};
constexpr PassWord kPasses[] = {
    {Pass::kDataGradient, "dgrad"}, {Pass::kWeightGradient, "wgrad"}, {Pass::kBackward, "bwd"}};

}  // namespace

std::string NameOf(const EngineName& name) {
  std::string text(kLibrary);
  for (const PassWord& pass : kPasses) {
    if (pass.pass == name.pass) (text += '_') += pass.word;
  }
  if (!name.engine.empty()) (text += '_') += name.engine;
  return text;
}

std::optional<EngineName> ParseEngineName(std::string_view kernel) {
  if (!kernel.starts_with(kLibrary)) return std::nullopt;
  kernel.remove_prefix(kLibrary.size());
  EngineName name;
  for (const PassWord& pass : kPasses) {
    if (!kernel.starts_with('_') || !kernel.substr(1).starts_with(pass.word)) continue;
    name.pass = pass.pass;
    kernel.remove_prefix(1 + pass.word.size());
    break;
  }
  if (kernel.empty()) return name;
  if (!kernel.starts_with('_') || !kernel.substr(1).starts_with(kEngine)) return std::nullopt;
  name.engine = kernel.substr(1);
  return name;
}

}  // namespace gpueta::cudnn
