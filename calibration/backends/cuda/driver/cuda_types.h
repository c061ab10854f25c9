// What the CUDA driver's interface is made of. No type of NVIDIA's headers
// appears in it, so that everything above builds and is tested without them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpueta {

// Address in device memory; 0 is none.
using DevicePointer = std::uint64_t;

// Objects of one CudaDevice. They live until they are destroyed or the device is
// closed; none may be used with another device, except that a partition may use
// the memory and the modules of the device it was split from.
enum class StreamHandle : std::uint64_t {};
enum class EventHandle : std::uint64_t {};
enum class ModuleHandle : std::uint64_t {};
enum class FunctionHandle : std::uint64_t {};
enum class GraphHandle : std::uint64_t {};  // instantiated: ready to launch

struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

struct LaunchGeometry {
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;                      // in blocks; 1×1×1: none
  std::uint32_t dynamic_shared = 0;  // bytes a block

  friend bool operator==(const LaunchGeometry&, const LaunchGeometry&) = default;
};

// What a compiled function needs of an SM.
struct FunctionResources {
  int registers_per_thread = 0;
  std::size_t static_shared_bytes = 0;
  std::size_t local_bytes_per_thread = 0;
  int max_threads_per_block = 0;
};

// What does not change while a device is open. 0 and empty mean unknown.
struct DeviceProperties {
  int ordinal = 0;  // among the devices this process may see
  std::string name;
  std::string uuid;        // "GPU-…"; "MIG-…" of a MIG instance
  std::string pci_bus_id;  // "0000:17:00.0"
  int compute_major = 0;
  int compute_minor = 0;
  int sm_count = 0;        // of a partition or MIG instance: its own
  bool partition = false;  // some of a device's SMs: a green context
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t persisting_l2_bytes = 0;  // of it, what may be set aside at most
  double sm_clock_mhz = 0;              // the highest
  double memory_clock_mhz = 0;
  int memory_bus_bits = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  std::size_t shared_per_sm_bytes = 0;
  std::size_t shared_per_block_bytes = 0;  // with the opt-in
  int registers_per_sm = 0;
  bool cooperative_launch = false;
  bool ecc = false;
  bool integrated = false;
  int driver_version = 0;  // as CUDA numbers it: 13000 is CUDA 13.0

  int compute_capability() const { return 10 * compute_major + compute_minor; }  // 90 is 9.0
};

}  // namespace gpueta
