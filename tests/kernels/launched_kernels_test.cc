// The kernels of examples/kernels as a worker runs them: code loaded, memory
// filled, arguments passed as their manifests say. On the CPU, and where there is
// one on a CUDA device, whose driver compiles the PTX.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/manifest/loaded_kernel.h"
#include "calibration/backends/manifest/manifest_library.h"
#include "core/wire/manifest_codec.h"
#include "tests/kernels/cpu_cuda_device.h"
#include "tests/kernels/references.h"

namespace tiled_gemm_source {
#include "examples/kernels/tiled_gemm.cu"
}
namespace flash_attention_source {
#include "examples/kernels/flash_attention.cu"
}

namespace gpueta {
namespace {

using ::testing::HasSubstr;

// What stands at the i-th place of a kernel's arguments.
template <class T>
T Argument(std::span<void* const> arguments, std::size_t i) {
  T value;
  std::memcpy(&value, arguments[i], sizeof(T));
  return value;
}

const std::map<std::string, CpuCudaDevice::Kernel> kOnCpu = {
    {"tiled_gemm",
     [](std::span<void* const> a) {
       tiled_gemm_source::tiled_gemm(Argument<float*>(a, 0), Argument<float*>(a, 1), Argument<float*>(a, 2),
                                     Argument<int>(a, 3), Argument<int>(a, 4), Argument<int>(a, 5));
     }},
    {"flash_attention_d64", [](std::span<void* const> a) {
       flash_attention_source::flash_attention_d64(Argument<float*>(a, 0), Argument<float*>(a, 1),
                                                   Argument<float*>(a, 2), Argument<float*>(a, 3), Argument<int>(a, 4),
                                                   Argument<int>(a, 5), Argument<int>(a, 6), Argument<int>(a, 7),
                                                   Argument<int>(a, 8), Argument<float>(a, 9));
     }}};

constexpr std::size_t kMemory = std::size_t{64} << 20;

// A manifest, its code and a launch, kept together.
struct Described {
  KernelManifest manifest;
  KernelCode code;
  KernelLaunch launch;
  ManifestKernels::Runnable runnable() const { return {&manifest, &code, &launch}; }
};

Described Describe(const std::string& example, const SymbolValues& shape) {
  const std::string path = "examples/kernels/" + example + ".manifest";
  Described described;
  described.manifest = wire::ReadManifestFile(path).value();
  described.code = ReadKernelCode(described.manifest, path).value();
  described.launch = LaunchOf(described.manifest, shape).value();
  return described;
}

Floats Read(CudaDevice& device, const Described& kernel, const LoadedKernel& loaded, std::size_t argument) {
  Floats values(static_cast<std::size_t>(kernel.launch.arguments[argument].buffer_bytes) / sizeof(float));
  EXPECT_TRUE(device.CopyToHost(std::as_writable_bytes(std::span(values)), loaded.BufferOf(argument)).ok());
  return values;
}

void ExpectNear(const Floats& got, const Floats& wanted, float tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], tolerance) << "element " << i;
}

class LaunchedTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "Cpu") {
      device_ = std::make_unique<CpuCudaDevice>(kOnCpu, kMemory);
      return;
    }
    auto driver = OpenCudaDriver();
    if (!driver.ok()) GTEST_SKIP() << "not run on a device: " << driver.status().message();
    driver_ = *std::move(driver);
    auto device = driver_->Open(0);
    if (!device.ok()) GTEST_SKIP() << "not run on a device: " << device.status().message();
    device_ = *std::move(device);
  }

  // Launches it once and waits.
  std::unique_ptr<LoadedKernel> Run(KernelLoader& loader, const Described& kernel) {
    auto loaded = loader.Load(kernel.runnable(), 1);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return nullptr;
    const StreamHandle stream = device_->CreateStream().value();
    EXPECT_EQ((*loaded)->Launch(stream), absl::OkStatus());
    EXPECT_EQ(device_->Synchronize(stream), absl::OkStatus());
    EXPECT_EQ(device_->DestroyStream(stream), absl::OkStatus());
    return *std::move(loaded);
  }

  std::unique_ptr<CudaDriver> driver_;
  std::unique_ptr<CudaDevice> device_;
};

TEST_P(LaunchedTest, TiledGemmIsTheProductOfItsBuffers) {
  KernelLoader loader(*device_);
  for (const ProductDims& p : {ProductDims{70, 72, 40}, ProductDims{1, 64, 64}, ProductDims{128, 136, 104}}) {
    const Described kernel = Describe("tiled_gemm", {{"m", p.m}, {"n", p.n}, {"k", p.k}});
    const auto loaded = Run(loader, kernel);
    ASSERT_NE(loaded, nullptr);
    const Floats a = Read(*device_, kernel, *loaded, 0), b = Read(*device_, kernel, *loaded, 1);
    ASSERT_NE(a[0], a[1]);
    ExpectNear(Read(*device_, kernel, *loaded, 2), ReferenceProduct(p, a, b), 1e-4F);
  }
}

TEST_P(LaunchedTest, FlashAttentionIsAttentionOverItsBuffers) {
  KernelLoader loader(*device_);
  for (const AttentionDims& h : {AttentionDims{2, 4, 2, 70, 70, 1}, AttentionDims{1, 1, 1, 16, 16, 1}}) {
    const Described kernel = Describe(
        "flash_attention",
        {{"batch", h.batch}, {"kv_heads", h.kv_heads}, {"group", h.heads / h.kv_heads}, {"length", h.query_len}});
    const auto loaded = Run(loader, kernel);
    ASSERT_NE(loaded, nullptr);
    ExpectNear(Read(*device_, kernel, *loaded, 3),
               ReferenceAttention(h, Read(*device_, kernel, *loaded, 0), Read(*device_, kernel, *loaded, 1),
                                  Read(*device_, kernel, *loaded, 2), 0.125F),
               2e-5F);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LaunchedTest, ::testing::Values("Cpu", "Cuda"),
                         [](const auto& param) { return std::string(param.param); });

TEST(ManifestLibraryTest, RunsTheCandidatesAndNothingElse) {
  CpuCudaDevice device(kOnCpu, kMemory);
  const std::vector<std::string> paths = {"examples/kernels/tiled_gemm.manifest"};
  ManifestKernels kernels = ManifestKernels::Read(paths).value();
  const std::vector<Kernel> candidates = kernels.Candidates(2, 1 << 16, 1).value();
  const std::unique_ptr<OperatorLibrary> library = MakeManifestLibrary(device, kernels);
  EXPECT_EQ(library->version().size(), 12u);
  for (const Kernel& kernel : candidates) {
    ASSERT_EQ(library->Supports(kernel), absl::OkStatus());
    const auto operation = library->Prepare(kernel);
    ASSERT_TRUE(operation.ok()) << operation.status();
    EXPECT_EQ((*operation)->launch().kernel, "tiled_gemm");
    EXPECT_EQ((*operation)->launch().grid_y, kernel.launch.grid_y);
    EXPECT_EQ((*operation)->Enqueue({}, device.CreateStream().value()), absl::OkStatus());
  }
  const Kernel gemm{.name = "", .dtype = DType::kFp32, .work = Gemm{.m = 1, .n = 1, .k = 1}, .launch = {}};
  EXPECT_EQ(library->Supports(gemm).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(library->Prepare(gemm).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(KernelLoaderTest, CodeIsLoadedOnceAndAllIsGivenBack) {
  CpuCudaDevice device(kOnCpu, kMemory);
  {
    KernelLoader loader(device);
    const Described small = Describe("tiled_gemm", {{"m", 8}, {"n", 64}, {"k", 64}});
    const Described large = Describe("tiled_gemm", {{"m", 80}, {"n", 64}, {"k", 64}});
    const auto first = loader.Load(small.runnable(), 1);
    const auto second = loader.Load(large.runnable(), 1);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(device.modules(), 1);
    EXPECT_EQ(device.buffers(), 6u);
    EXPECT_EQ((*first)->memory_bytes(), 4u * (8 * 64 + 64 * 64 + 8 * 64));
  }
  EXPECT_EQ(device.modules(), 0);
  EXPECT_EQ(device.buffers(), 0u);
}

TEST(KernelLoaderTest, WhatCannotBeLoadedIsNamed) {
  CpuCudaDevice device(kOnCpu, kMemory);
  KernelLoader loader(device);
  Described kernel = Describe("tiled_gemm", {{"m", 8192}, {"n", 8192}, {"k", 8192}});
  const auto too_large = loader.Load(kernel.runnable(), 1);
  EXPECT_EQ(too_large.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(too_large.status().message()), HasSubstr("tiled_gemm_64x64: 268435456 bytes are wanted"));
  EXPECT_EQ(device.buffers(), 0u);
  kernel.manifest.entry = "other";
  EXPECT_EQ(loader.Load(kernel.runnable(), 1).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gpueta
