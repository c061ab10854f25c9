#include "core/predict/network_layers.h"

#include "core/predict/clones.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace gpueta {

// Each instruction set compiles the same code: attributes for single functions
// do not reach into templates.
namespace plain {
constexpr int kWidth = 4;
constexpr int kOutputs = 1, kColumns = 4;
using Ints [[gnu::vector_size(sizeof(std::int32_t) * kWidth)]] = std::int32_t;
using Floats [[gnu::vector_size(sizeof(float) * kWidth)]] = float;
inline __attribute__((always_inline)) Ints MultiplyAdd(const Ints& sum, const Ints& a, const Ints& b) {
#ifdef __SSE2__
  return sum + reinterpret_cast<Ints>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return sum + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}
#include "core/predict/network_layers.inc"
}  // namespace plain

#ifdef GPUETA_HAS_CLONES
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace v3 {
constexpr int kWidth = 8;
constexpr int kOutputs = 1, kColumns = 4;
using Ints [[gnu::vector_size(sizeof(std::int32_t) * kWidth)]] = std::int32_t;
using Floats [[gnu::vector_size(sizeof(float) * kWidth)]] = float;
inline __attribute__((always_inline)) Ints MultiplyAdd(const Ints& sum, const Ints& a, const Ints& b) {
  return sum + reinterpret_cast<Ints>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
#include "core/predict/network_layers.inc"
}  // namespace v3
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
namespace v4 {
constexpr int kWidth = 16;
constexpr int kOutputs = 4, kColumns = 2;
using Ints [[gnu::vector_size(sizeof(std::int32_t) * kWidth)]] = std::int32_t;
using Floats [[gnu::vector_size(sizeof(float) * kWidth)]] = float;
inline __attribute__((always_inline)) Ints MultiplyAdd(const Ints& sum, const Ints& a, const Ints& b) {
  return sum + reinterpret_cast<Ints>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
#include "core/predict/network_layers.inc"
}  // namespace v4
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,avx512vnni")
namespace v4_vnni {
constexpr int kWidth = 16;
constexpr int kOutputs = 4, kColumns = 2;
using Ints [[gnu::vector_size(sizeof(std::int32_t) * kWidth)]] = std::int32_t;
using Floats [[gnu::vector_size(sizeof(float) * kWidth)]] = float;
inline __attribute__((always_inline)) Ints MultiplyAdd(const Ints& sum, const Ints& a, const Ints& b) {
  return reinterpret_cast<Ints>(
      _mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
#include "core/predict/network_layers.inc"
}  // namespace v4_vnni
#pragma GCC pop_options
#endif

namespace {

struct Functions {
  void (*group)(const IntegerLayer&, const std::int32_t*, std::int32_t*) = plain::GroupLayer;
  void (*row)(const IntegerLayer&, const std::int32_t*, std::int32_t*) = plain::RowLayer;
};

// The widest that this processor runs.
const Functions& Best() {
  static const Functions best = []() -> Functions {
#ifdef GPUETA_HAS_CLONES
    if (__builtin_cpu_supports("x86-64-v4"))
      // Fused, a sum waits for the multiplication: slower where there is one sum.
      return {__builtin_cpu_supports("avx512vnni") ? v4_vnni::GroupLayer : v4::GroupLayer, v4::RowLayer};
    if (__builtin_cpu_supports("x86-64-v3")) return {v3::GroupLayer, v3::RowLayer};
#endif
    return {};
  }();
  return best;
}

}  // namespace

void EvaluateGroup(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y) { Best().group(layer, x, y); }
void EvaluateRow(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y) { Best().row(layer, x, y); }

}  // namespace gpueta
