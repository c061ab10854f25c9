#include "calibration/backends/cpu/cpu_backend.h"

#include <map>

#include "calibration/backends/cpu/cpu_context.h"
#include "calibration/backends/cpu/describe.h"
#include "calibration/backends/cpu/openmp.h"
#include "calibration/backends/cpu/prepared_graph.h"
#include "calibration/backends/cpu/prepared_kernel.h"
#include "calibration/backends/cpu/weight_pool.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Where a system does not say, the usual size on servers.
constexpr std::size_t kTypicalCacheBytes = std::size_t{32} << 20;

class CpuBackend : public Backend {
 public:
  CpuBackend()
      : threads_(omp_get_max_threads()),
        weight_pool_(context_.info.last_level_cache_bytes > 0 ? context_.info.last_level_cache_bytes
                                                              : kTypicalCacheBytes) {}

  std::string slug() const override { return CpuSlug(context_.info.model, threads_); }

  std::map<std::string, std::string> labels() const override {
    const dnnl_version_t& version = *dnnl::version();
    return {{"library", fmt::format("onednn {}.{}.{}", version.major, version.minor, version.patch)},
            {"cpu_model", context_.info.model},
            {"threads", fmt::format("{}", threads_)}};
  }

  absl::StatusOr<DeviceSpec> Describe() override {
    const auto scope = context_.Scope();
    return CatchingOneDnn([this] { return DescribeCpu(context_.info, slug(), threads_, context_.onednn); });
  }

  absl::Status Supports(const Kernel& kernel) const override { return SupportsOnCpu(kernel); }

  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Kernel& kernel) override {
    return PrepareCpuKernel(kernel, context_, weight_pool_);
  }

  absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareGraph(std::span<const Kernel> kernels) override {
    return PrepareCpuGraph(kernels, context_);
  }

 private:
  int threads_;
  CpuContext context_;
  WeightPool weight_pool_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenCpuBackend() {
  try {
    return std::make_unique<CpuBackend>();
  } catch (const dnnl::error& error) {
    return Unavailable("cpu: oneDNN cannot run on this processor: {}", error.what());
  }
}

}  // namespace gpueta
