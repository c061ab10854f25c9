// One CUDA device in use: the few driver calls that calibration is made of.
//
// Two implementations: the driver of this machine and a simulated device for
// tests. Nothing above this interface knows which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_types.h"

namespace gpueta {

class CudaDevice;

// Two partitions of a device that never share an SM.
struct SmPartitions {
  std::unique_ptr<CudaDevice> chosen;
  std::unique_ptr<CudaDevice> rest;  // null where nothing is left, or too little for a partition
};

// Errors of any call: RESOURCE_EXHAUSTED out of device memory; INVALID_ARGUMENT
// for what the device cannot launch or load; UNIMPLEMENTED where the driver is
// too old for it; INTERNAL for a kernel that failed, after which the device is of
// no use any more. Messages name the call and the driver's own name of the error.
//
// Not thread-safe. Work on a stream is asynchronous: it is done when Synchronize
// of the stream returns or an event recorded after it is reached.
class CudaDevice {
 public:
  virtual ~CudaDevice() = default;

  virtual const DeviceProperties& properties() const = 0;
  // Makes it the device of the calling thread: for a partition, and to return from
  // one. The thread that opened a whole device has it.
  virtual absl::Status Activate() = 0;

  // Memory. Contents are undefined after Allocate; aligned to 256 bytes.
  virtual absl::StatusOr<DevicePointer> Allocate(std::size_t bytes) = 0;
  virtual absl::Status Free(DevicePointer pointer) = 0;
  virtual absl::Status CopyToDevice(DevicePointer to, std::span<const std::byte> from) = 0;  // synchronous
  virtual absl::Status CopyToHost(std::span<std::byte> to, DevicePointer from) = 0;          // synchronous
  virtual absl::Status Fill(DevicePointer to, std::uint8_t value, std::size_t bytes, StreamHandle stream) = 0;
  virtual absl::StatusOr<std::size_t> FreeMemory() = 0;  // bytes

  // Code: a cubin, a fatbin, or PTX as text. PTX is compiled for the device by
  // the driver; the message of a failure has the compiler's log.
  virtual absl::StatusOr<ModuleHandle> LoadModule(std::span<const std::byte> image) = 0;
  virtual absl::Status UnloadModule(ModuleHandle module) = 0;
  // NOT_FOUND where the module has no such entry.
  virtual absl::StatusOr<FunctionHandle> FindFunction(ModuleHandle module, const std::string& name) = 0;
  virtual absl::StatusOr<FunctionResources> ResourcesOf(FunctionHandle function) = 0;
  // Blocks of `threads` that are resident on an SM at once.
  virtual absl::StatusOr<int> ResidentBlocks(FunctionHandle function, int threads, std::size_t dynamic_shared) = 0;

  // `arguments` points at each argument's value, as cuLaunchKernel takes them.
  // Dynamic shared memory beyond 48 KiB is opted into.
  virtual absl::Status Launch(FunctionHandle function, const LaunchGeometry& geometry, std::span<void* const> arguments,
                              StreamHandle stream) = 0;

  virtual absl::StatusOr<StreamHandle> CreateStream() = 0;
  virtual absl::Status DestroyStream(StreamHandle stream) = 0;
  virtual absl::Status Synchronize(StreamHandle stream) = 0;
  // The driver's own handle (CUstream), for libraries that enqueue work; null of
  // a simulated device.
  virtual void* NativeStream(StreamHandle stream) = 0;

  virtual absl::StatusOr<EventHandle> CreateEvent() = 0;
  virtual absl::Status DestroyEvent(EventHandle event) = 0;
  virtual absl::Status Record(EventHandle event, StreamHandle stream) = 0;
  // Whether the stream has come to it. Never blocks.
  virtual absl::StatusOr<bool> Reached(EventHandle event) = 0;
  // Device time between two events that were reached; resolution about 0.5 us.
  virtual absl::StatusOr<double> ElapsedUs(EventHandle begin, EventHandle end) = 0;

  // What is enqueued on the stream between the two is recorded, not run. Between
  // them only Launch, Fill, Record and what libraries enqueue are allowed; one stream
  // at a time. An event recorded there is recorded each time that the graph runs, and
  // looks reached until then: wait for another one, recorded after LaunchGraph.
  virtual absl::Status BeginCapture(StreamHandle stream) = 0;
  virtual absl::StatusOr<GraphHandle> EndCapture(StreamHandle stream) = 0;
  virtual absl::Status LaunchGraph(GraphHandle graph, StreamHandle stream) = 0;
  virtual absl::Status DestroyGraph(GraphHandle graph) = 0;

  // Two parts of the SMs as devices of their own (green contexts): `chosen` has at
  // least `sms` of them, the number rounded up to what the architecture splits by, or
  // all of them where that is what was asked for.
  // Nothing is changed for other processes; the parts end with their objects,
  // which must not outlive this device. OUT_OF_RANGE for more SMs than there are;
  // UNIMPLEMENTED before CUDA 12.4.
  virtual absl::StatusOr<SmPartitions> SplitSms(int sms) = 0;
  // Sets aside so much of the L2 cache for accesses marked as persisting, so that
  // other accesses have the rest; 0 gives it back. Of this process only.
  virtual absl::Status SetAsideL2(std::size_t bytes) = 0;
};

}  // namespace gpueta
