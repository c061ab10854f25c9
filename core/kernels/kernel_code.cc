#include "core/kernels/kernel_code.h"

#include <filesystem>

#include "core/base/errors.h"
#include "core/base/whole_file.h"

namespace gpueta {
namespace {

constexpr std::string_view kElfMagic =
    "\x7f"
    "ELF";
constexpr std::string_view kFatbinMagic = "\x50\xed\x55\xba";

}  // namespace

std::string_view Name(KernelCode::Kind kind) {
  switch (kind) {
    case KernelCode::Kind::kPtx: return "PTX";
    case KernelCode::Kind::kCubin: return "cubin";
    case KernelCode::Kind::kFatbin: return "fatbin";
  }
  return "?";
}

absl::StatusOr<KernelCode> ReadKernelCode(const KernelManifest& manifest, const std::string& manifest_path) {
  if (manifest.file.empty())
    return InvalidArgument("{}: names no file: {} can be described, but not run", manifest_path, manifest.name);
  KernelCode code;
  code.path = (std::filesystem::path(manifest_path).parent_path() / manifest.file).string();
  GPUETA_ASSIGN_OR_RETURN(code.image, ReadWholeFile(code.path));
  if (code.image.starts_with(kElfMagic)) {
    code.kind = KernelCode::Kind::kCubin;
    return code;
  }
  if (code.image.starts_with(kFatbinMagic)) {
    code.kind = KernelCode::Kind::kFatbin;
    return code;
  }
  absl::StatusOr<PtxHeader> ptx = ReadPtxHeader(code.image);
  if (!ptx.ok()) return Prefixed(ptx.status(), code.path + ": is neither a cubin nor a fatbin, and as PTX");
  if (const absl::Status same = CheckParameters(manifest, *ptx); !same.ok()) return Prefixed(same, manifest_path);
  code.ptx = *std::move(ptx);
  return code;
}

}  // namespace gpueta
