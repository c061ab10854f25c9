#include <algorithm>
#include <string>
#include <utility>

#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/driver/driver_api.h"
#include "calibration/backends/cuda/driver/native_device.h"
#include "calibration/backends/cuda/driver/nvml_api.h"
#include "calibration/backends/cuda/driver/nvml_card.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

class NativeDriver : public CudaDriver {
 public:
  NativeDriver(const DriverApi& api, int devices) : api_(api), devices_(devices) {}

  int DeviceCount() const override { return devices_; }
  absl::StatusOr<DeviceProperties> PropertiesOf(int ordinal) override {
    GPUETA_RETURN_IF_ERROR(CheckOrdinal(ordinal));
    return NativeProperties(api_, ordinal);
  }
  absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int ordinal) override {
    GPUETA_RETURN_IF_ERROR(CheckOrdinal(ordinal));
    return OpenNativeDevice(api_, ordinal);
  }
  absl::StatusOr<std::unique_ptr<Card>> OpenCard(int ordinal) override {
    GPUETA_ASSIGN_OR_RETURN(const DeviceProperties properties, PropertiesOf(ordinal));
    GPUETA_ASSIGN_OR_RETURN(const nvml::Api* api, nvml::Load());
    return OpenNvmlCard(*api, properties.pci_bus_id);
  }

 private:
  absl::Status CheckOrdinal(int ordinal) const {
    if (ordinal >= 0 && ordinal < devices_) return absl::OkStatus();
    return NotFound("cuda:{}: there {}", ordinal,
                    devices_ == 1 ? "is only cuda:0" : fmt::format("are cuda:0 to cuda:{}", devices_ - 1));
  }

  const DriverApi& api_;
  int devices_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDriver>> OpenCudaDriver() {
  const absl::StatusOr<const DriverApi*> api = LoadDriverApi();
  if (!api.ok()) return FailedPrecondition("no CUDA driver: {}", MessageOf(api.status()));
  int devices = 0;
  GPUETA_CU(**api, cuDeviceGetCount, &devices);
  if (devices == 0) return FailedPrecondition("the CUDA driver sees no device");
  return std::make_unique<NativeDriver>(**api, devices);
}

}  // namespace gpueta
