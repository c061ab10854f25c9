// The functions of NCCL (libnccl.so.2) that are used. They are declared here because
// NCCL is no part of the CUDA toolkit; names, numbers and layouts are those of the NCCL
// API reference. Declared only, not copied: every pointer is filled from the library at
// run time, or by a test.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpueta::nccl {

using Result = int;    // ncclResult_t
using Comm = void*;    // ncclComm_t
using Stream = void*;  // cudaStream_t

inline constexpr Result kSuccess = 0;
inline constexpr Result kUnhandledCudaError = 1;
inline constexpr Result kSystemError = 2;
inline constexpr Result kInvalidArgument = 4;
inline constexpr Result kInvalidUsage = 5;
inline constexpr Result kInProgress = 7;

inline constexpr int kInt8 = 0;  // ncclDataType_t
inline constexpr int kFloat16 = 6;
inline constexpr int kFloat32 = 7;
inline constexpr int kFloat64 = 8;
inline constexpr int kBfloat16 = 9;

inline constexpr int kSum = 0;  // ncclRedOp_t

struct Api {
  Result (*ncclGetVersion)(int*) = nullptr;
  const char* (*ncclGetErrorString)(Result) = nullptr;
  const char* (*ncclGetLastError)(Comm) = nullptr;  // since 2.13; null before
  Result (*ncclCommInitAll)(Comm*, int count, const int* devices) = nullptr;
  Result (*ncclCommDestroy)(Comm) = nullptr;
  Result (*ncclCommAbort)(Comm) = nullptr;
  Result (*ncclCommGetAsyncError)(Comm, Result*) = nullptr;
  Result (*ncclAllReduce)(const void* from, void* to, std::size_t count, int type, int op, Comm, Stream) = nullptr;
  Result (*ncclAllGather)(const void* from, void* to, std::size_t count, int type, Comm, Stream) = nullptr;
  Result (*ncclReduceScatter)(const void* from, void* to, std::size_t count, int type, int op, Comm, Stream) = nullptr;
  Result (*ncclSend)(const void* from, std::size_t count, int type, int peer, Comm, Stream) = nullptr;
  Result (*ncclRecv)(void* to, std::size_t count, int type, int peer, Comm, Stream) = nullptr;
  Result (*ncclGroupStart)() = nullptr;
  Result (*ncclGroupEnd)() = nullptr;
};

// Opens the library, once a process. FAILED_PRECONDITION saying what is missing.
absl::StatusOr<const Api*> Load();

// OK for kSuccess; otherwise "ncclAllReduce: invalid usage (its own words)":
// UNAVAILABLE for the system's errors, INVALID_ARGUMENT for arguments, else INTERNAL.
absl::Status StatusOf(const Api& api, Result result, const char* call);

}  // namespace gpueta::nccl
