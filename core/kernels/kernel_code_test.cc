#include "core/kernels/kernel_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/errors.h"
#include "core/wire/manifest_codec.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

constexpr char kExample[] = "examples/kernels/tiled_gemm.manifest";

class KernelCodeTest : public ::testing::Test {
 protected:
  // Reads `bytes` as the code of the example.
  absl::StatusOr<KernelCode> Read(const std::string& bytes) {
    const std::string folder = ::testing::TempDir();
    std::ofstream(folder + "/code", std::ios::binary) << bytes;
    KernelManifest manifest = wire::ReadManifestFile(kExample).value();
    manifest.file = "code";
    return ReadKernelCode(manifest, folder + "/a.manifest");
  }
};

TEST_F(KernelCodeTest, PtxIsCheckedAgainstTheManifest) {
  KernelManifest manifest = wire::ReadManifestFile(kExample).value();
  const absl::StatusOr<KernelCode> code = ReadKernelCode(manifest, kExample);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(code->kind, KernelCode::Kind::kPtx);
  EXPECT_EQ(code->path, "examples/kernels/tiled_gemm.ptx");
  EXPECT_EQ(code->ptx->entries.size(), 1u);
  manifest.arguments.pop_back();
  EXPECT_THAT(MessageOf(ReadKernelCode(manifest, kExample).status()),
              HasSubstr(std::string(kExample) + ": arguments: are 5, but tiled_gemm takes 6"));
}

TEST_F(KernelCodeTest, BinariesAreToldByTheirFirstBytes) {
  EXPECT_EQ(Read(std::string("\x7f") + "ELF\x02")->kind, KernelCode::Kind::kCubin);
  EXPECT_EQ(Read("\x50\xed\x55\xba")->kind, KernelCode::Kind::kFatbin);
}

TEST_F(KernelCodeTest, WhatIsNoCodeIsNamed) {
  EXPECT_THAT(MessageOf(Read("hello").status()),
              HasSubstr("/code: is neither a cubin nor a fatbin, and as PTX: line 1"));
  KernelManifest manifest = wire::ReadManifestFile(kExample).value();
  EXPECT_THAT(MessageOf(ReadKernelCode(manifest, "nowhere/a.manifest").status()), HasSubstr("nowhere/tiled_gemm.ptx"));
  manifest.file.clear();
  EXPECT_THAT(MessageOf(ReadKernelCode(manifest, kExample).status()), HasSubstr("can be described, but not run"));
}

}  // namespace
}  // namespace gpueta
