// Small configs for tests of serving.
#pragma once

#include <memory>
#include <string>

#include "core/predict/predictor.h"
#include "core/predict/snapshot.h"
#include "core/serving/step_table.h"
#include "core/testing/test_profile.h"

namespace gpueta::testing {

// 4 layers, 16 heads of 64 with 4 of keys and values: 2·4·64·2 = 1,024 bytes of
// bf16 cache a token and layer.
inline std::string SmallLlama(const std::string& more = "") {
  return R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":1024,"intermediate_size":2816,
    "num_attention_heads":16,"num_key_value_heads":4,"num_hidden_layers":4,"vocab_size":32000,
    "max_position_embeddings":8192,"rms_norm_eps":1e-5,"torch_dtype":"bfloat16")" +
         more + "}";
}

inline std::shared_ptr<const Predictor> TestDevice(const std::string& slug) {
  LoadedProfile loaded;
  loaded.profile = MakeTestProfile(slug);
  loaded.id = "test";
  return (*Snapshot::Build({{loaded, "", 0}}))->Find(slug).value();
}
inline std::shared_ptr<const Predictor> H100() { return TestDevice("h100-sxm"); }

// SmallLlama's steps on it.
inline const StepTable& Table() {
  static const StepTable table = *StepTable::Build(*StepModel::Compile(SmallLlama(), "m"), *H100(),
                                                   {.tokens = 2048, .sequences = 64, .context = 16384});
  return table;
}

}  // namespace gpueta::testing
