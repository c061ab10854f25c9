// What cuDNN computes for a kernel, and by which engine, as launch.kernel says it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpueta::cudnn {

enum class Pass : std::uint8_t {
  kForward,
  kDataGradient,    // of a convolution's input
  kWeightGradient,  // of its weights
  kBackward,        // of attention: the gradients of queries, keys and values together
};

// "cudnn_eng12_k2=5": an engine with its knobs; "cudnn_dgrad_eng3": of another pass;
// "cudnn_wgrad": whichever engine the heuristic gives the shape first.
struct EngineName {
  Pass pass = Pass::kForward;
  std::string engine;  // "eng12_k2=5"; empty: the heuristic's
};

std::string NameOf(const EngineName& name);
// nullopt for a name that is not of this library: the heuristic's forward pass then.
std::optional<EngineName> ParseEngineName(std::string_view kernel);

}  // namespace gpueta::cudnn
