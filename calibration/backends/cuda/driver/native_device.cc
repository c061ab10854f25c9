#include "calibration/backends/cuda/driver/native_device.h"

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// Handles are the driver's pointers.
template <class Handle, class Native>
Handle HandleOf(Native* native) {
  return static_cast<Handle>(reinterpret_cast<std::uint64_t>(native));
}
CUstream Native(StreamHandle stream) { return reinterpret_cast<CUstream>(stream); }
CUevent Native(EventHandle event) { return reinterpret_cast<CUevent>(event); }
CUlibrary Native(ModuleHandle module) { return reinterpret_cast<CUlibrary>(module); }
CUkernel Native(FunctionHandle function) { return reinterpret_cast<CUkernel>(function); }
CUgraphExec Native(GraphHandle graph) { return reinterpret_cast<CUgraphExec>(graph); }
// Launches and occupancy take a CUkernel where they say CUfunction, and use it in
// the context of the stream.
CUfunction AsFunction(FunctionHandle function) { return reinterpret_cast<CUfunction>(function); }

// What a launch may use without asking.
constexpr std::uint32_t kSharedWithoutOptIn = 48 << 10;

// The context of a device or of a part of its SMs; released with its owner.
class Context {
 public:
  static absl::StatusOr<std::unique_ptr<Context>> Primary(const DriverApi& api, CUdevice device) {
    auto context = std::make_unique<Context>(api, device);
    GPUETA_CU(api, cuDevicePrimaryCtxRetain, &context->context_, device);
    return context;
  }
  static absl::StatusOr<std::unique_ptr<Context>> Green(const DriverApi& api, CUdevice device, CUdevResource sms) {
    auto context = std::make_unique<Context>(api, device);
    CUdevResourceDesc description = nullptr;
    GPUETA_CU(api, cuDevResourceGenerateDesc, &description, &sms, 1);
    GPUETA_CU(api, cuGreenCtxCreate, &context->green_, description, device, CU_GREEN_CTX_DEFAULT_STREAM);
    GPUETA_CU(api, cuCtxFromGreenCtx, &context->context_, context->green_);
    return context;
  }
  Context(const DriverApi& api, CUdevice device) : api_(api), device_(device) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    if (green_ != nullptr) {
      api_.cuGreenCtxDestroy(green_);
    } else if (context_ != nullptr) {
      api_.cuDevicePrimaryCtxRelease(device_);
    }
  }

  CUcontext get() const { return context_; }
  CUgreenCtx green() const { return green_; }

 private:
  const DriverApi& api_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  CUgreenCtx green_ = nullptr;
};

class NativeDevice : public CudaDevice {
 public:
  NativeDevice(const DriverApi& api, CUdevice device, std::unique_ptr<Context> context, DeviceProperties properties)
      : api_(api), device_(device), context_(std::move(context)), properties_(std::move(properties)) {}

  const DeviceProperties& properties() const override { return properties_; }

  absl::Status Activate() override {
    GPUETA_CU(api_, cuCtxSetCurrent, context_->get());
    return absl::OkStatus();
  }

  absl::StatusOr<DevicePointer> Allocate(std::size_t bytes) override {
    CUdeviceptr pointer = 0;
    const absl::Status status = api_.StatusOf(api_.cuMemAlloc(&pointer, bytes), "cuMemAlloc");
    if (!status.ok()) return Prefixed(status, fmt::format("{} bytes", bytes));
    return pointer;
  }
  absl::Status Free(DevicePointer pointer) override {
    GPUETA_CU(api_, cuMemFree, pointer);
    return absl::OkStatus();
  }
  absl::Status CopyToDevice(DevicePointer to, std::span<const std::byte> from) override {
    GPUETA_CU(api_, cuMemcpyHtoD, to, from.data(), from.size());
    return absl::OkStatus();
  }
  absl::Status CopyToHost(std::span<std::byte> to, DevicePointer from) override {
    GPUETA_CU(api_, cuMemcpyDtoH, to.data(), from, to.size());
    return absl::OkStatus();
  }
  absl::Status Fill(DevicePointer to, std::uint8_t value, std::size_t bytes, StreamHandle stream) override {
    GPUETA_CU(api_, cuMemsetD8Async, to, value, bytes, Native(stream));
    return absl::OkStatus();
  }
  absl::StatusOr<std::size_t> FreeMemory() override {
    std::size_t free = 0;
    std::size_t total = 0;
    GPUETA_CU(api_, cuMemGetInfo, &free, &total);
    return free;
  }

  absl::StatusOr<ModuleHandle> LoadModule(std::span<const std::byte> image) override {
    // PTX is text that ends with a zero; a binary does not mind one more.
    std::vector<std::byte> code(image.begin(), image.end());
    code.push_back(std::byte{0});
    std::array<char, 4096> log{};
    std::array options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
    CUlibrary library = nullptr;
    const absl::Status status =
        api_.StatusOf(api_.cuLibraryLoadData(&library, code.data(), options.data(), values.data(),
                                             static_cast<unsigned>(options.size()), nullptr, nullptr, 0),
                      "cuLibraryLoadData");
    if (status.ok()) return HandleOf<ModuleHandle>(library);
    return log[0] == '\0' ? status : absl::Status(status.code(), fmt::format("{}: {}", MessageOf(status), log.data()));
  }
  absl::Status UnloadModule(ModuleHandle module) override {
    GPUETA_CU(api_, cuLibraryUnload, Native(module));
    return absl::OkStatus();
  }
  absl::StatusOr<FunctionHandle> FindFunction(ModuleHandle module, const std::string& name) override {
    CUkernel kernel = nullptr;
    const absl::Status status =
        api_.StatusOf(api_.cuLibraryGetKernel(&kernel, Native(module), name.c_str()), "cuLibraryGetKernel");
    if (!status.ok()) return Prefixed(status, name);
    return HandleOf<FunctionHandle>(kernel);
  }
  absl::StatusOr<FunctionResources> ResourcesOf(FunctionHandle function) override {
    const auto attribute = [&](CUfunction_attribute which) -> absl::StatusOr<int> {
      int value = 0;
      GPUETA_CU(api_, cuKernelGetAttribute, &value, which, Native(function), device_);
      return value;
    };
    FunctionResources resources;
    GPUETA_ASSIGN_OR_RETURN(resources.registers_per_thread, attribute(CU_FUNC_ATTRIBUTE_NUM_REGS));
    GPUETA_ASSIGN_OR_RETURN(const int shared_bytes, attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    GPUETA_ASSIGN_OR_RETURN(const int local_bytes, attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
    GPUETA_ASSIGN_OR_RETURN(resources.max_threads_per_block, attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    resources.static_shared_bytes = static_cast<std::size_t>(shared_bytes);
    resources.local_bytes_per_thread = static_cast<std::size_t>(local_bytes);
    return resources;
  }
  absl::StatusOr<int> ResidentBlocks(FunctionHandle function, int threads, std::size_t dynamic_shared) override {
    GPUETA_RETURN_IF_ERROR(AllowShared(function, static_cast<std::uint32_t>(dynamic_shared)));
    int blocks = 0;
    GPUETA_CU(api_, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, AsFunction(function), threads,
              dynamic_shared);
    return blocks;
  }

  absl::Status Launch(FunctionHandle function, const LaunchGeometry& geometry, std::span<void* const> arguments,
                      StreamHandle stream) override {
    GPUETA_RETURN_IF_ERROR(AllowShared(function, geometry.dynamic_shared));
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = geometry.cluster.x;
    cluster.value.clusterDim.y = geometry.cluster.y;
    cluster.value.clusterDim.z = geometry.cluster.z;
    CUlaunchConfig config{};
    config.gridDimX = geometry.grid.x;
    config.gridDimY = geometry.grid.y;
    config.gridDimZ = geometry.grid.z;
    config.blockDimX = geometry.block.x;
    config.blockDimY = geometry.block.y;
    config.blockDimZ = geometry.block.z;
    config.sharedMemBytes = geometry.dynamic_shared;
    config.hStream = Native(stream);
    config.attrs = &cluster;
    config.numAttrs = geometry.cluster.count() > 1 ? 1 : 0;
    GPUETA_CU(api_, cuLaunchKernelEx, &config, AsFunction(function), const_cast<void**>(arguments.data()), nullptr);
    return absl::OkStatus();
  }

  absl::StatusOr<StreamHandle> CreateStream() override {
    CUstream stream = nullptr;
    if (context_->green() != nullptr) {
      GPUETA_CU(api_, cuGreenCtxStreamCreate, &stream, context_->green(), CU_STREAM_NON_BLOCKING, 0);
    } else {
      GPUETA_CU(api_, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    }
    return HandleOf<StreamHandle>(stream);
  }
  absl::Status DestroyStream(StreamHandle stream) override {
    GPUETA_CU(api_, cuStreamDestroy, Native(stream));
    return absl::OkStatus();
  }
  absl::Status Synchronize(StreamHandle stream) override {
    GPUETA_CU(api_, cuStreamSynchronize, Native(stream));
    return absl::OkStatus();
  }
  void* NativeStream(StreamHandle stream) override { return Native(stream); }

  absl::StatusOr<EventHandle> CreateEvent() override {
    CUevent event = nullptr;
    GPUETA_CU(api_, cuEventCreate, &event, CU_EVENT_DEFAULT);
    return HandleOf<EventHandle>(event);
  }
  absl::Status DestroyEvent(EventHandle event) override {
    GPUETA_CU(api_, cuEventDestroy, Native(event));
    return absl::OkStatus();
  }
  absl::Status Record(EventHandle event, StreamHandle stream) override {
    // In a graph it is to be recorded each time that the graph runs.
    GPUETA_CU(api_, cuEventRecordWithFlags, Native(event), Native(stream),
              stream == capturing_ ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Reached(EventHandle event) override {
    const CUresult result = api_.cuEventQuery(Native(event));
    if (result == CUDA_ERROR_NOT_READY) return false;
    GPUETA_RETURN_IF_ERROR(api_.StatusOf(result, "cuEventQuery"));
    return true;
  }
  absl::StatusOr<double> ElapsedUs(EventHandle begin, EventHandle end) override {
    float milliseconds = 0;
    GPUETA_CU(api_, cuEventElapsedTime, &milliseconds, Native(begin), Native(end));
    return 1e3 * static_cast<double>(milliseconds);
  }

  absl::Status BeginCapture(StreamHandle stream) override {
    GPUETA_CU(api_, cuStreamBeginCapture, Native(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    capturing_ = stream;
    return absl::OkStatus();
  }
  absl::StatusOr<GraphHandle> EndCapture(StreamHandle stream) override {
    capturing_ = StreamHandle{};
    CUgraph graph = nullptr;
    GPUETA_CU(api_, cuStreamEndCapture, Native(stream), &graph);
    CUgraphExec executable = nullptr;
    const absl::Status status =
        api_.StatusOf(api_.cuGraphInstantiate(&executable, graph, 0), "cuGraphInstantiateWithFlags");
    api_.cuGraphDestroy(graph);
    GPUETA_RETURN_IF_ERROR(status);
    return HandleOf<GraphHandle>(executable);
  }
  absl::Status LaunchGraph(GraphHandle graph, StreamHandle stream) override {
    GPUETA_CU(api_, cuGraphLaunch, Native(graph), Native(stream));
    return absl::OkStatus();
  }
  absl::Status DestroyGraph(GraphHandle graph) override {
    GPUETA_CU(api_, cuGraphExecDestroy, Native(graph));
    return absl::OkStatus();
  }

  absl::StatusOr<SmPartitions> SplitSms(int sms) override {
    if (!api_.HasGreenContexts()) return absl::UnimplementedError("green contexts need a driver of CUDA 12.4");
    if (sms < 1 || sms > properties_.sm_count) {
      return absl::OutOfRangeError(fmt::format("{} SMs of {}", sms, properties_.sm_count));
    }
    CUdevResource all{};
    GPUETA_CU(api_, cuDeviceGetDevResource, device_, &all, CU_DEV_RESOURCE_TYPE_SM);
    SmPartitions partitions;
    // Their number need not be a multiple of what is split by.
    if (sms == properties_.sm_count) {
      GPUETA_ASSIGN_OR_RETURN(partitions.chosen, Part(all));
      return partitions;
    }
    CUdevResource chosen{};
    CUdevResource rest{};
    unsigned groups = 1;
    GPUETA_CU(api_, cuDevSmResourceSplitByCount, &chosen, &groups, &all, &rest, 0, static_cast<unsigned>(sms));
    if (groups == 0) return absl::OutOfRangeError(fmt::format("no partition of {} SMs can be made", sms));
    GPUETA_ASSIGN_OR_RETURN(partitions.chosen, Part(chosen));
    if (rest.sm.smCount == 0) return partitions;
    if (absl::StatusOr<std::unique_ptr<CudaDevice>> part = Part(rest); part.ok()) partitions.rest = *std::move(part);
    return partitions;
  }
  absl::Status SetAsideL2(std::size_t bytes) override {
    GPUETA_CU(api_, cuCtxSetLimit, CU_LIMIT_PERSISTING_L2_CACHE_SIZE, bytes);
    return absl::OkStatus();
  }

 private:
  absl::Status AllowShared(FunctionHandle function, std::uint32_t bytes) {
    if (bytes <= kSharedWithoutOptIn) return absl::OkStatus();
    std::uint32_t& allowed = allowed_shared_[function];
    if (bytes <= allowed) return absl::OkStatus();
    GPUETA_CU(api_, cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes),
              Native(function), device_);
    allowed = bytes;
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<CudaDevice>> Part(const CUdevResource& sms) {
    GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<Context> context, Context::Green(api_, device_, sms));
    DeviceProperties properties = properties_;
    properties.sm_count = static_cast<int>(sms.sm.smCount);
    properties.partition = true;
    return std::make_unique<NativeDevice>(api_, device_, std::move(context), std::move(properties));
  }

  const DriverApi& api_;
  CUdevice device_;
  std::unique_ptr<Context> context_;
  DeviceProperties properties_;
  std::map<FunctionHandle, std::uint32_t> allowed_shared_;
  StreamHandle capturing_{};
};

absl::StatusOr<CUdevice> DeviceAt(const DriverApi& api, int ordinal) {
  CUdevice device = 0;
  GPUETA_CU(api, cuDeviceGet, &device, ordinal);
  return device;
}

// "GPU-12345678-1234-…", as nvidia-smi writes it.
std::string UuidText(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace

absl::StatusOr<DeviceProperties> NativeProperties(const DriverApi& api, int ordinal) {
  GPUETA_ASSIGN_OR_RETURN(const CUdevice device, DeviceAt(api, ordinal));
  DeviceProperties properties{.ordinal = ordinal};
  std::array<char, 256> text{};
  GPUETA_CU(api, cuDeviceGetName, text.data(), static_cast<int>(text.size()), device);
  properties.name = text.data();
  CUuuid uuid{};
  GPUETA_CU(api, cuDeviceGetUuid, &uuid, device);
  properties.uuid = UuidText(uuid);
  GPUETA_CU(api, cuDeviceGetPCIBusId, text.data(), static_cast<int>(text.size()), device);
  properties.pci_bus_id = text.data();
  GPUETA_CU(api, cuDeviceTotalMem, &properties.memory_bytes, device);
  GPUETA_CU(api, cuDriverGetVersion, &properties.driver_version);
  // One that the driver does not know is left 0.
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return api.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
  };
  const auto bytes = [&](CUdevice_attribute which) { return static_cast<std::size_t>(attribute(which)); };
  properties.compute_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  properties.compute_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  properties.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  properties.l2_bytes = bytes(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  properties.persisting_l2_bytes = bytes(CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
  properties.sm_clock_mhz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e-3;
  properties.memory_clock_mhz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e-3;
  properties.memory_bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  properties.threads_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  properties.blocks_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  properties.shared_per_sm_bytes = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  properties.shared_per_block_bytes = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  properties.registers_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  properties.cooperative_launch = attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 0;
  properties.ecc = attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED) != 0;
  properties.integrated = attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
  return properties;
}

absl::StatusOr<std::unique_ptr<CudaDevice>> OpenNativeDevice(const DriverApi& api, int ordinal) {
  GPUETA_ASSIGN_OR_RETURN(DeviceProperties properties, NativeProperties(api, ordinal));
  GPUETA_ASSIGN_OR_RETURN(const CUdevice device, DeviceAt(api, ordinal));
  GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<Context> context, Context::Primary(api, device));
  auto opened = std::make_unique<NativeDevice>(api, device, std::move(context), std::move(properties));
  GPUETA_RETURN_IF_ERROR(opened->Activate());
  return opened;
}

}  // namespace gpueta
