// The functions of the CUDA driver (libcuda.so.1) that are used, opened at run
// time. Only built where there is cuda.h.
#pragma once

#include <cuda.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta {

// Of CUDA 12.0 and newer; without one of these the driver is of no use.
// clang-format off
#define GPUETA_DRIVER_FUNCTIONS(F) \
  F(cuInit) F(cuGetErrorName) F(cuDriverGetVersion) F(cuDeviceGetCount) F(cuDeviceGet) F(cuDeviceGetName) \
  F(cuDeviceGetUuid) F(cuDeviceGetPCIBusId) F(cuDeviceGetAttribute) F(cuDeviceTotalMem) \
  F(cuDevicePrimaryCtxRetain) F(cuDevicePrimaryCtxRelease) F(cuCtxSetCurrent) F(cuCtxSetLimit) F(cuMemAlloc) \
  F(cuMemFree) F(cuMemGetInfo) F(cuMemcpyHtoD) F(cuMemcpyDtoH) F(cuMemsetD8Async) F(cuLibraryLoadData) \
  F(cuLibraryUnload) F(cuLibraryGetKernel) F(cuKernelGetAttribute) F(cuKernelSetAttribute) \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor) F(cuLaunchKernelEx) F(cuStreamCreate) F(cuStreamDestroy) \
  F(cuStreamSynchronize) F(cuStreamBeginCapture) F(cuStreamEndCapture) F(cuEventCreate) F(cuEventDestroy) \
  F(cuEventRecordWithFlags) F(cuEventQuery) F(cuGraphInstantiate) F(cuGraphLaunch) F(cuGraphDestroy) \
  F(cuGraphExecDestroy)
// clang-format on

// Of CUDA 12.4: null in older drivers.
// clang-format off
#define GPUETA_GREEN_CONTEXT_FUNCTIONS(F) \
  F(cuDeviceGetDevResource) F(cuDevSmResourceSplitByCount) F(cuDevResourceGenerateDesc) F(cuGreenCtxCreate) \
  F(cuGreenCtxDestroy) F(cuCtxFromGreenCtx) F(cuGreenCtxStreamCreate)
// clang-format on

// Members have the names that cuda.h gives the functions' current versions.
struct DriverApi {
#define GPUETA_DECLARE(function) decltype(&::function) function = nullptr;
  GPUETA_DRIVER_FUNCTIONS(GPUETA_DECLARE)
  GPUETA_GREEN_CONTEXT_FUNCTIONS(GPUETA_DECLARE)
  GPUETA_DECLARE(cuEventElapsedTime)
#undef GPUETA_DECLARE

  bool HasGreenContexts() const { return cuGreenCtxStreamCreate != nullptr && cuCtxFromGreenCtx != nullptr; }
  // OK for CUDA_SUCCESS; otherwise "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY" with the
  // code that cuda_device.h promises.
  absl::Status StatusOf(CUresult result, const char* call) const;
};

// Opens the library and initialises the driver, once a process.
// FAILED_PRECONDITION saying what is missing.
absl::StatusOr<const DriverApi*> LoadDriverApi();

}  // namespace gpueta

// Calls a function of a DriverApi and returns its error.
#define GPUETA_CU(api, function, ...) GPUETA_RETURN_IF_ERROR((api).StatusOf((api).function(__VA_ARGS__), #function))
