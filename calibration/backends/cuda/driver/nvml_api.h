// The functions of NVML (libnvidia-ml.so.1) that are used. They are declared here
// because the CUDA toolkit does not ship NVML's header; names, numbers and
// layouts are those of the NVML API Reference Guide. Declared only, not copied:
// every pointer is filled from the library at run time, or by a test.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta::nvml {

using Result = int;    // nvmlReturn_t
using Device = void*;  // nvmlDevice_t

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidArgument = 2;
inline constexpr Result kNotSupported = 3;
inline constexpr Result kNoPermission = 4;
inline constexpr Result kNotFound = 6;
inline constexpr Result kInsufficientSize = 7;
inline constexpr Result kDriverNotLoaded = 9;
inline constexpr Result kFunctionNotFound = 13;
inline constexpr Result kGpuIsLost = 15;
inline constexpr Result kResetRequired = 16;

inline constexpr int kSmClock = 1;  // nvmlClockType_t
inline constexpr int kMemoryClock = 2;
inline constexpr int kGpuTemperature = 0;    // nvmlTemperatureSensors_t
inline constexpr int kExclusiveProcess = 3;  // nvmlComputeMode_t
inline constexpr unsigned kEnabled = 1;

struct Utilization {  // nvmlUtilization_t, percent
  unsigned gpu;
  unsigned memory;
};

struct ProcessInfo {  // nvmlProcessInfo_v2_t
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
inline constexpr unsigned long long kMemoryNotAvailable = ~0ULL;

// Null where the library lacks a function; a call of it is UNIMPLEMENTED.
struct Api {
  Result (*nvmlInit_v2)() = nullptr;
  const char* (*nvmlErrorString)(Result) = nullptr;
  Result (*nvmlSystemGetDriverVersion)(char*, unsigned) = nullptr;
  Result (*nvmlDeviceGetHandleByPciBusId_v2)(const char*, Device*) = nullptr;
  Result (*nvmlDeviceGetUUID)(Device, char*, unsigned) = nullptr;
  Result (*nvmlDeviceGetName)(Device, char*, unsigned) = nullptr;
  Result (*nvmlDeviceGetVbiosVersion)(Device, char*, unsigned) = nullptr;
  Result (*nvmlDeviceGetEccMode)(Device, unsigned* current, unsigned* pending) = nullptr;
  Result (*nvmlDeviceGetMigMode)(Device, unsigned* current, unsigned* pending) = nullptr;
  Result (*nvmlDeviceGetPersistenceMode)(Device, unsigned*) = nullptr;
  Result (*nvmlDeviceGetComputeMode)(Device, int*) = nullptr;
  Result (*nvmlDeviceGetMaxClockInfo)(Device, int, unsigned* mhz) = nullptr;
  Result (*nvmlDeviceGetClockInfo)(Device, int, unsigned* mhz) = nullptr;
  Result (*nvmlDeviceGetPowerUsage)(Device, unsigned* milliwatts) = nullptr;
  Result (*nvmlDeviceGetPowerManagementLimit)(Device, unsigned* milliwatts) = nullptr;
  Result (*nvmlDeviceGetPowerManagementDefaultLimit)(Device, unsigned* milliwatts) = nullptr;
  Result (*nvmlDeviceGetPowerManagementLimitConstraints)(Device, unsigned* lowest, unsigned* highest) = nullptr;
  Result (*nvmlDeviceGetTemperature)(Device, int, unsigned* celsius) = nullptr;
  Result (*nvmlDeviceGetUtilizationRates)(Device, Utilization*) = nullptr;
  Result (*nvmlDeviceGetCurrentClocksThrottleReasons)(Device, unsigned long long*) = nullptr;
  Result (*nvmlDeviceGetComputeRunningProcesses_v3)(Device, unsigned* count, ProcessInfo*) = nullptr;
  Result (*nvmlDeviceGetSupportedMemoryClocks)(Device, unsigned* count, unsigned* mhz) = nullptr;
  Result (*nvmlDeviceGetSupportedGraphicsClocks)(Device, unsigned memory_mhz, unsigned* count, unsigned* mhz) = nullptr;
  Result (*nvmlDeviceSetGpuLockedClocks)(Device, unsigned lowest_mhz, unsigned highest_mhz) = nullptr;
  Result (*nvmlDeviceResetGpuLockedClocks)(Device) = nullptr;
  Result (*nvmlDeviceSetMemoryLockedClocks)(Device, unsigned lowest_mhz, unsigned highest_mhz) = nullptr;
  Result (*nvmlDeviceResetMemoryLockedClocks)(Device) = nullptr;
  Result (*nvmlDeviceSetPowerManagementLimit)(Device, unsigned milliwatts) = nullptr;
};

// Opens and initialises the library, once a process. FAILED_PRECONDITION saying
// what is missing.
absl::StatusOr<const Api*> Load();

// OK for kSuccess; otherwise "nvmlDeviceGetName: Not Supported" with the code
// that card.h promises.
absl::Status StatusOf(const Api& api, Result result, const char* call);

}  // namespace gpueta::nvml
