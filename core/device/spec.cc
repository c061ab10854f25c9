#include "core/device/spec.h"

#include <algorithm>
#include <cmath>

namespace gpueta {
namespace {

// What cards of a compute capability are like: medians of gpu_specs.csv, and
// the data sheet of the M40 for 5.2.
struct Typical {
  int capability;         // compute capability in tenths: 75 is 7.5
  int fp32_lanes_per_sm;  // CUDA cores of an SM (CUDA C++ Programming Guide, arithmetic throughput)
  int sm_count;
  double boost_clock_mhz;
  double base_over_boost;
  double l2_mb_per_sm;
  double gb_s_per_tflops;
  double tensor16_over_fp32;  // of the slower cards; 0: some or all have no tensor cores
};

constexpr Typical kTypical[] = {
    {52, 128, 24, 1110, 0.85, 0.125, 42, 0},     // Maxwell
    {60, 64, 56, 1440, 0.9, 0.071, 69, 0},       // Pascal, GP100
    {61, 128, 10, 1520, 0.88, 0.14, 44, 0},      // Pascal
    {70, 64, 80, 1530, 0.84, 0.075, 58, 8},      // Volta
    {75, 64, 30, 1530, 0.81, 0.083, 53, 0},      // Turing
    {80, 64, 108, 1410, 0.74, 0.37, 99, 16},     // Ampere, GA100
    {86, 128, 30, 1550, 0.71, 0.1, 27, 2},       // Ampere
    {89, 128, 48, 2460, 0.77, 0.83, 15, 2},      // Ada Lovelace
    {90, 128, 132, 1840, 0.68, 0.38, 50, 14},    // Hopper
    {100, 128, 148, 1965, 0.36, 0.85, 103, 30},  // Blackwell, GB100
    {120, 128, 60, 2400, 0.68, 0.87, 19, 2},     // Blackwell
};

// A core with two 256-bit FMA units (x86 since Haswell) is an SM of 16 lanes.
constexpr Typical kTypicalCpu = {0, 16, 8, 3000, 0.8, 2, 35, 0};

// A card that does not say what it is is taken for an ordinary one: without
// the double-precision units and bandwidth of data-center dies.
constexpr int kOrdinaryCapability = 86;

// In tenths; 0 if the sheet leaves it out. A GPU's, never a CPU's.
int ListedCapability(const DeviceSpec& spec) {
  return IsCpu(spec) ? 0 : static_cast<int>(std::lround(10 * std::clamp(spec.compute_capability, 0.0, 1000.0)));
}

int CapabilityOf(const DeviceSpec& spec) {
  const int listed = ListedCapability(spec);
  return listed > 0 ? listed : kOrdinaryCapability;
}

// The row of the capability, else the next older one: generations keep more
// than they change.
const Typical& TypicalOf(const DeviceSpec& spec) {
  if (IsCpu(spec)) return kTypicalCpu;
  const Typical* found = &kTypical[0];
  for (const Typical& typical : kTypical) {
    if (typical.capability <= CapabilityOf(spec)) found = &typical;
  }
  return *found;
}

// Each lane does one multiply-add, 2 FLOPs, a clock.
double TflopsOf(const Typical& typical, double sm_count, double clock_mhz) {
  return 2e-6 * typical.fp32_lanes_per_sm * sm_count * clock_mhz;
}

double BoostClockMhz(const DeviceSpec& spec) {
  const Typical& typical = TypicalOf(spec);
  if (spec.boost_clock_mhz > 0) return spec.boost_clock_mhz;
  if (spec.base_clock_mhz > 0) return spec.base_clock_mhz / typical.base_over_boost;
  if (spec.fp32_tflops > 0 && spec.sm_count > 0) {
    return spec.fp32_tflops / TflopsOf(typical, static_cast<double>(spec.sm_count), 1);
  }
  return typical.boost_clock_mhz;
}

double Fp32Tflops(const DeviceSpec& spec) {
  const Typical& typical = TypicalOf(spec);
  if (spec.fp32_tflops > 0) return spec.fp32_tflops;
  if (spec.sm_count > 0) return TflopsOf(typical, static_cast<double>(spec.sm_count), BoostClockMhz(spec));
  if (spec.mem_bandwidth_gb_s > 0) return spec.mem_bandwidth_gb_s / typical.gb_s_per_tflops;
  return TflopsOf(typical, typical.sm_count, BoostClockMhz(spec));
}

std::int64_t SmCount(const DeviceSpec& spec) {
  if (spec.sm_count > 0) return spec.sm_count;
  const double count = Fp32Tflops(spec) / TflopsOf(TypicalOf(spec), 1, BoostClockMhz(spec));
  // SMs come in pairs, a TPC each, since Volta.
  const bool in_pairs = !IsCpu(spec) && CapabilityOf(spec) >= 70;
  constexpr double kMost = 1e6;  // keeps absurd cells within an integer
  const auto rounded =
      static_cast<std::int64_t>(std::min(in_pairs ? 2 * std::round(count / 2) : std::round(count), kMost));
  return std::max<std::int64_t>(rounded, in_pairs ? 2 : 1);
}

double Fp64Tflops(const DeviceSpec& spec) {
  if (spec.fp64_tflops > 0) return spec.fp64_tflops;
  // FP64 lanes per FP32 lane, by the CUDA C++ Programming Guide's table of
  // arithmetic throughput: half on CPUs and on the data-center dies GP100,
  // GV100, GA100, GH100 and GB100; a token share elsewhere, B300 (10.3)
  // included. Tensor cores for FP64 (A100, H100: twice this) are not counted:
  // only some matrix products use them.
  const int capability = CapabilityOf(spec);
  for (const int full : {60, 70, 80, 90, 100}) {
    if (capability == full || IsCpu(spec)) return Fp32Tflops(spec) / 2;
  }
  return Fp32Tflops(spec) / (capability < 86 ? 32 : 64);
}

// Tensor rates that the sheet leaves out, only where every card of that
// capability has the unit. fp16 and bf16 run at the same rate; each halving of
// the operand doubles it, and TF32 moves 32 bits an operand.
double Tensor16Tflops(const DeviceSpec& spec) {
  if (spec.fp16_tensor_tflops > 0) return spec.fp16_tensor_tflops;
  if (spec.bf16_tensor_tflops > 0) return spec.bf16_tensor_tflops;
  return ListedCapability(spec) > 0 ? TypicalOf(spec).tensor16_over_fp32 * Fp32Tflops(spec) : 0;
}

constexpr int kFirstWithInt8Tensor = 75;
constexpr int kFirstWithBf16Tensor = 80;  // and TF32
constexpr int kFirstWithFp8Tensor = 89;

double Tf32Tflops(const DeviceSpec& spec) {
  if (spec.tf32_tensor_tflops > 0) return spec.tf32_tensor_tflops;
  // Without the units a framework's TF32 switch does nothing.
  if (ListedCapability(spec) < kFirstWithBf16Tensor) return Fp32Tflops(spec);
  return std::max(Tensor16Tflops(spec) / 2, Fp32Tflops(spec));
}

double Fp16Tflops(const DeviceSpec& spec) {
  if (const double tensor = Tensor16Tflops(spec); tensor > 0) return tensor;
  // Cards that list a vector rate below fp32 (1/64 on GP102 to GP108) have it
  // for compatibility only: libraries convert and compute in fp32.
  return std::max(spec.fp16_vector_tflops, Fp32Tflops(spec));
}

double Bf16Tflops(const DeviceSpec& spec) {
  if (spec.bf16_tensor_tflops > 0) return spec.bf16_tensor_tflops;
  // Before Ampere there are no bf16 units: libraries convert and compute in fp32.
  if (ListedCapability(spec) < kFirstWithBf16Tensor) return Fp32Tflops(spec);
  return Fp16Tflops(spec);
}

double Fp8Tflops(const DeviceSpec& spec) {
  if (spec.fp8_tensor_tflops > 0) return spec.fp8_tensor_tflops;
  if (ListedCapability(spec) >= kFirstWithFp8Tensor) return 2 * Tensor16Tflops(spec);
  // Without fp8 units the operands are widened to the faster 16-bit type.
  return std::max(Fp16Tflops(spec), Bf16Tflops(spec));
}

double Int8Tops(const DeviceSpec& spec) {
  if (spec.int8_tensor_tops > 0) return spec.int8_tensor_tops;
  // DP4A, 4 multiply-adds an instruction, exists from 6.1 on: GP100 lacks it.
  constexpr int kFirstWithDp4a = 61;
  const bool has_dp4a = !IsCpu(spec) && CapabilityOf(spec) >= kFirstWithDp4a;
  const double vector = has_dp4a ? 4 * Fp32Tflops(spec) : Fp32Tflops(spec);
  return ListedCapability(spec) >= kFirstWithInt8Tensor ? std::max(2 * Tensor16Tflops(spec), vector) : vector;
}

}  // namespace

DeviceSpec WithInferredCells(DeviceSpec spec) {
  const Typical& typical = TypicalOf(spec);
  // From the listed cells only, before any is filled in.
  const double fp32_tflops = Fp32Tflops(spec);
  const double boost_clock_mhz = BoostClockMhz(spec);
  const std::int64_t sm_count = SmCount(spec);
  spec.fp32_tflops = fp32_tflops;
  spec.boost_clock_mhz = boost_clock_mhz;
  spec.sm_count = sm_count;
  if (!(spec.base_clock_mhz > 0)) spec.base_clock_mhz = boost_clock_mhz * typical.base_over_boost;
  if (!(spec.mem_bandwidth_gb_s > 0)) spec.mem_bandwidth_gb_s = fp32_tflops * typical.gb_s_per_tflops;
  if (!(spec.l2_mb > 0)) spec.l2_mb = static_cast<double>(sm_count) * typical.l2_mb_per_sm;
  return spec;
}

bool HasRoomFor(const DeviceSpec& spec, std::int64_t bytes) {
  return !(spec.memory_gb > 0) || static_cast<double>(bytes) <= spec.memory_gb * kBytesPerGib;
}

double PeakTflops(const DeviceSpec& spec, DType dtype) {
  switch (dtype) {
    case DType::kFp64: return Fp64Tflops(spec);
    case DType::kFp32: return Fp32Tflops(spec);
    case DType::kTf32: return Tf32Tflops(spec);
    case DType::kFp16: return Fp16Tflops(spec);
    case DType::kBf16: return Bf16Tflops(spec);
    case DType::kFp8: return Fp8Tflops(spec);
    case DType::kInt8: return Int8Tops(spec);
    case DType::kInt4: return Fp16Tflops(spec);  // weights are widened to the 16-bit activations
  }
  return Fp32Tflops(spec);
}

double TensorTflops(const DeviceSpec& spec, DType dtype) {
  const int capability = ListedCapability(spec);
  switch (dtype) {
    case DType::kFp64:
    case DType::kFp32: return 0;
    case DType::kTf32: {
      const bool has = spec.tf32_tensor_tflops > 0 || capability >= kFirstWithBf16Tensor;
      return has ? PeakTflops(spec, dtype) : 0;
    }
    case DType::kBf16: {
      const bool has = spec.bf16_tensor_tflops > 0 || capability >= kFirstWithBf16Tensor;
      return has ? PeakTflops(spec, dtype) : 0;
    }
    case DType::kFp16:
    case DType::kFp8:
    case DType::kInt4: return Tensor16Tflops(spec) > 0 ? PeakTflops(spec, dtype) : 0;
    case DType::kInt8: {
      const bool has = spec.int8_tensor_tops > 0 || capability >= kFirstWithInt8Tensor;
      return has && Tensor16Tflops(spec) > 0 ? PeakTflops(spec, dtype) : 0;
    }
  }
  return 0;
}

}  // namespace gpueta
