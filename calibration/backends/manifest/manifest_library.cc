#include "calibration/backends/manifest/manifest_library.h"

#include <utility>

#include "calibration/backends/manifest/loaded_kernel.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::uint64_t kFillSeed = 1;

class ManifestOperation : public Operation {
 public:
  ManifestOperation(std::unique_ptr<LoadedKernel> kernel, Launch launch)
      : kernel_(std::move(kernel)), launch_(std::move(launch)) {}

  const OperandBytes& bytes() const override { return none_; }
  Launch launch() const override { return launch_; }
  absl::Status Enqueue(const Operands&, StreamHandle stream) override { return kernel_->Launch(stream); }

 private:
  std::unique_ptr<LoadedKernel> kernel_;
  Launch launch_;
  OperandBytes none_;
};

class ManifestLibrary : public OperatorLibrary {
 public:
  ManifestLibrary(CudaDevice& device, const ManifestKernels& kernels) : kernels_(kernels), loader_(device) {}

  std::string name() const override { return "manifest"; }
  std::string version() const override { return kernels_.version(); }

  absl::Status Supports(const Kernel& kernel) const override {
    const absl::Status found = kernels_.Find(kernel).status();
    return found.ok() ? found : absl::UnimplementedError(found.message());
  }

  absl::StatusOr<std::unique_ptr<Operation>> Prepare(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    GPUETA_ASSIGN_OR_RETURN(const ManifestKernels::Runnable runnable, kernels_.Find(kernel));
    GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<LoadedKernel> loaded, loader_.Load(runnable, kFillSeed));
    Launch launch = runnable.launch->kernel.launch;
    launch.kernel = runnable.manifest->entry;
    return std::make_unique<ManifestOperation>(std::move(loaded), std::move(launch));
  }

 private:
  const ManifestKernels& kernels_;
  KernelLoader loader_;
};

}  // namespace

std::unique_ptr<OperatorLibrary> MakeManifestLibrary(CudaDevice& device, const ManifestKernels& kernels) {
  return std::make_unique<ManifestLibrary>(device, kernels);
}

}  // namespace gpueta
