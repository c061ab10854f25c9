#include "core/importers/traces/kernel_name.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

TEST(ShortKernelNameTest, KeepsTheFunctionAlone) {
  EXPECT_EQ(ShortKernelName("ampere_sgemm_128x64_tn"), "ampere_sgemm_128x64_tn");
  EXPECT_EQ(ShortKernelName("void at::native::vectorized_elementwise_kernel<4, at::native::f<float>, int>(int, float)"),
            "vectorized_elementwise_kernel");
  EXPECT_EQ(ShortKernelName("void at::native::(anonymous namespace)::softmax_kernel<float>(float*)"), "softmax_kernel");
  EXPECT_EQ(ShortKernelName("Memset (Device)"), "Memset");
  EXPECT_EQ(ShortKernelName("Memcpy DtoH (Device -> Pageable)"), "Memcpy_DtoH");
  EXPECT_EQ(ShortKernelName(""), "");
  EXPECT_EQ(ShortKernelName("a>>b<"), "a>>b");
}

TEST(TypeInKernelNameTest, ComesFromMatrixKernels) {
  EXPECT_EQ(TypeInKernelName("ampere_bf16_s16816gemm_bf16_128x128"), "c10::BFloat16");
  EXPECT_EQ(TypeInKernelName("volta_h884gemm_256x64_ldg8_nn"), "c10::Half");
  EXPECT_EQ(TypeInKernelName("ampere_sgemm_128x64_tn"), "float");
  EXPECT_EQ(TypeInKernelName("vectorized_elementwise_kernel"), "");
}

}  // namespace
}  // namespace gpueta
