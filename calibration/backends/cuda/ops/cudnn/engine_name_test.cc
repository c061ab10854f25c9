#include "calibration/backends/cuda/ops/cudnn/engine_name.h"

#include <gtest/gtest.h>

namespace gpueta::cudnn {
namespace {

TEST(EngineNameTest, NamesAreReadAsTheyAreWritten) {
  for (const Pass pass : {Pass::kForward, Pass::kDataGradient, Pass::kWeightGradient, Pass::kBackward}) {
    for (const char* engine : {"", "eng0", "eng12_k2=5_k3=-1"}) {
      const auto read = ParseEngineName(NameOf({.pass = pass, .engine = engine}));
      ASSERT_TRUE(read.has_value()) << engine;
      EXPECT_EQ(read->pass, pass);
      EXPECT_EQ(read->engine, engine);
    }
  }
  EXPECT_EQ(NameOf({.pass = Pass::kDataGradient, .engine = "eng3"}), "cudnn_dgrad_eng3");
}

TEST(EngineNameTest, NamesOfOthersAreNotTaken) {
  for (const char* name : {"", "ampere_sgemm_128x64_tn", "cudnn_generated_fort_native_sdpa", "cudnn_dgradient",
                           "cudnn_wgrad_k2=5", "cudnn::ops::nchwToNhwcKernel", "cudnnX"}) {
    EXPECT_FALSE(ParseEngineName(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace gpueta::cudnn
