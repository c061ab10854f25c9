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
inline __attribute__((always_inline)) Ints Madd(const Ints& a, const Ints& b) {
#ifdef __SSE2__
  return reinterpret_cast<Ints>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
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
inline __attribute__((always_inline)) Ints Madd(const Ints& a, const Ints& b) {
  return reinterpret_cast<Ints>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
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
inline __attribute__((always_inline)) Ints Madd(const Ints& a, const Ints& b) {
  return reinterpret_cast<Ints>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
#include "core/predict/network_layers.inc"
}  // namespace v4
#pragma GCC pop_options
#endif

namespace {

#ifdef GPUETA_HAS_CLONES
__attribute__((target("arch=x86-64-v4"))) void Group(const IntegerLayer& layer, const std::int32_t* x,
                                                     std::int32_t* y) {
  v4::GroupLayer(layer, x, y);
}
__attribute__((target("arch=x86-64-v3"))) void Group(const IntegerLayer& layer, const std::int32_t* x,
                                                     std::int32_t* y) {
  v3::GroupLayer(layer, x, y);
}
__attribute__((target("arch=x86-64-v4"))) void Row(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y) {
  v4::RowLayer(layer, x, y);
}
__attribute__((target("arch=x86-64-v3"))) void Row(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y) {
  v3::RowLayer(layer, x, y);
}
#define GPUETA_OTHERWISE __attribute__((target("default")))
#else
#define GPUETA_OTHERWISE
#endif
GPUETA_OTHERWISE void Group(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y) {
  plain::GroupLayer(layer, x, y);
}
GPUETA_OTHERWISE void Row(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y) {
  plain::RowLayer(layer, x, y);
}

}  // namespace

void EvaluateGroup(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y) { Group(layer, x, y); }
void EvaluateRow(const IntegerLayer& layer, const std::int32_t* x, std::int32_t* y) { Row(layer, x, y); }

}  // namespace gpueta
