// Compiled with -O3 -ffast-math in every build type (calibration/CMakeLists.txt):
// these loops are what is measured, and fast-math lets the compiler use the
// vector versions of exp, erf and so on. Keep other code out of this file.
#include "calibration/backends/cpu/loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

// One binary for all x86-64: the widest vectors are chosen at run time. Not
// under sanitizers, whose run time is not up when the choice is made.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(GPUETA_TSAN)
#define GPUETA_VECTORIZED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define GPUETA_VECTORIZED
#endif

namespace gpueta {
namespace {

inline float Load(float value) { return value; }
inline float Load(Bf16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

inline void Store(float* place, float value) { *place = value; }
inline void Store(Bf16* place, float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t to_nearest_even = 0x7fff + ((bits >> 16) & 1);
  *place = static_cast<Bf16>((bits + to_nearest_even) >> 16);
}

inline float Silu(float x) { return x / (1 + std::exp(-x)); }
// The quotient may be rounded across a whole number, by a reciprocal as well.
inline float Remainder(float x, float by) {
  const float rest = x - by * std::trunc(x / by);
  const float toward = std::copysign(by, x);
  const float short_of_it = std::abs(rest) >= std::abs(by) ? rest - toward : rest;
  return short_of_it * x < 0 ? short_of_it + toward : short_of_it;
}

constexpr float kHardSigmoidSlope = 1.0F / 6;
constexpr float kModBy = 3;
constexpr float kHidden = -1e30F;  // exp of it is 0, also in bf16
constexpr float kNormEpsilon = 1e-5F;

// Each operator as a function of up to three values.
struct Copy {
  float operator()(float x, float, float) const { return x; }
};
struct Neg {
  float operator()(float x, float, float) const { return -x; }
};
struct Reciprocal {
  float operator()(float x, float, float) const { return 1 / x; }
};
struct Erf {
  float operator()(float x, float, float) const { return std::erf(x); }
};
struct Sin {
  float operator()(float x, float, float) const { return std::sin(x); }
};
struct Cos {
  float operator()(float x, float, float) const { return std::cos(x); }
};
struct HardSigmoid {
  float operator()(float x, float, float) const { return std::min(1.0F, std::max(0.0F, x * kHardSigmoidSlope + 0.5F)); }
};
struct Cast {
  float operator()(float x, float, float) const { return std::trunc(x); }
};
struct Not {
  float operator()(float x, float, float) const { return x == 0 ? 1 : 0; }
};
struct And {
  float operator()(float x, float second, float) const { return ((x != 0) & (second != 0)) ? 1 : 0; }
};
struct IsPositive {
  float operator()(float x, float, float) const { return x > 0 ? 1 : 0; }
};
struct IsGreater {
  float operator()(float x, float second, float) const { return x > second ? 1 : 0; }
};
struct ModBy {
  float operator()(float x, float, float) const { return Remainder(x, kModBy); }
};
struct Mod {
  float operator()(float x, float second, float) const { return Remainder(x, second); }
};
struct Pow {
  float operator()(float x, float second, float) const { return std::pow(x, second); }
};
struct SiluMul {
  float operator()(float x, float second, float) const { return Silu(x) * second; }
};
struct SumOfTwo {
  float operator()(float x, float second, float) const { return x + second; }
};
struct SumOfThree {
  float operator()(float x, float second, float third) const { return x + second + third; }
};
struct Zero {
  float operator()(float, float, float) const { return 0; }
};
struct WhereOne {
  float operator()(float x, float, float) const { return x > 0 ? x : 1; }
};
struct WhereTwo {
  float operator()(float x, float second, float) const { return x > 0 ? x : second; }
};
struct WhereThree {
  float operator()(float x, float second, float third) const { return third > 0 ? x : second; }
};

template <class T, class F, int kOperands>
GPUETA_VECTORIZED void Apply(const T* __restrict x, const T* __restrict second, const T* __restrict third,
                             T* __restrict y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float a = Load(x[i]);
    const float b = kOperands > 1 ? Load(second[i]) : 0;
    const float c = kOperands > 2 ? Load(third[i]) : 0;
    Store(y + i, F()(a, b, c));
  }
}

template <class T>
GPUETA_VECTORIZED void RmsNorm(const T* __restrict x, const T* __restrict scale, T* __restrict y,
                               const RowRange& range) {
  for (std::size_t row = range.begin; row < range.end; ++row) {
    const T* from = x + row * range.cols;
    T* to = y + row * range.cols;
    float squares = 0;
    for (std::size_t col = 0; col < range.cols; ++col) squares += Load(from[col]) * Load(from[col]);
    const float inverse = 1 / std::sqrt(squares / static_cast<float>(range.cols) + kNormEpsilon);
    for (std::size_t col = 0; col < range.cols; ++col) Store(to + col, Load(from[col]) * inverse * Load(scale[col]));
  }
}

template <class T>
GPUETA_VECTORIZED void BatchNorm(const T* __restrict x, const T* __restrict parameters, T* __restrict y,
                                 const RowRange& range) {
  for (std::size_t row = range.begin; row < range.end; ++row) {
    const float scale = Load(parameters[2 * row]);
    const float shift = Load(parameters[2 * row + 1]);
    const T* from = x + row * range.cols;
    T* to = y + row * range.cols;
    for (std::size_t col = 0; col < range.cols; ++col) Store(to + col, Load(from[col]) * scale + shift);
  }
}

template <class T>
GPUETA_VECTORIZED void Reduce(const T* __restrict x, const T*, T* __restrict y, const RowRange& range) {
  for (std::size_t row = range.begin; row < range.end; ++row) {
    const T* from = x + row * range.cols;
    float sum = 0;
    for (std::size_t col = 0; col < range.cols; ++col) sum += Load(from[col]);
    Store(y + row, sum);
  }
}

template <class T>
void CumSum(const T* x, const T*, T* y, const RowRange& range) {
  for (std::size_t row = range.begin; row < range.end; ++row) {
    float sum = 0;
    for (std::size_t i = row * range.cols; i < (row + 1) * range.cols; ++i) {
      sum += Load(x[i]);
      Store(y + i, sum);
    }
  }
}

template <class T>
GPUETA_VECTORIZED void Resize(const T* __restrict x, const T*, T* __restrict y, const RowRange& range) {
  for (std::size_t row = range.begin; row < range.end; ++row) {
    const T* from = x + row * range.cols;
    T* to = y + row * range.cols;
    for (std::size_t col = 0; col + 1 < range.cols; ++col) Store(to + col, (Load(from[col]) + Load(from[col + 1])) / 2);
    to[range.cols - 1] = from[range.cols - 1];
  }
}

template <class T>
GPUETA_VECTORIZED void Rope(const T* __restrict x, const T* __restrict parameters, T* __restrict y,
                            const RowRange& range) {
  const std::size_t pairs = range.cols / 2;
  for (std::size_t row = range.begin; row < range.end; ++row) {
    const T* cosines = parameters + row * 2 * kRopePairs;
    const T* sines = cosines + kRopePairs;
    const T* from = x + row * range.cols;
    T* to = y + row * range.cols;
    for (std::size_t first = 0; first < pairs; first += kRopePairs) {
      const std::size_t count = std::min(kRopePairs, pairs - first);
      for (std::size_t i = 0; i < count; ++i) {
        const float even = Load(from[2 * (first + i)]);
        const float odd = Load(from[2 * (first + i) + 1]);
        const float cosine = Load(cosines[i]);
        const float sine = Load(sines[i]);
        Store(to + 2 * (first + i), even * cosine - odd * sine);
        Store(to + 2 * (first + i) + 1, even * sine + odd * cosine);
      }
    }
    if (range.cols % 2 == 1) to[range.cols - 1] = from[range.cols - 1];
  }
}

template <class T>
void Embedding(const T*, const T* table, T* y, const RowRange& range) {
  constexpr std::size_t kScatter = 2'654'435'761;  // 2^32 over the golden ratio: spreads evenly modulo any rows
  for (std::size_t row = range.begin; row < range.end; ++row) {
    const std::size_t source = row * kScatter % range.rows;
    std::copy_n(table + source * range.cols, range.cols, y + row * range.cols);
  }
}

template <class T>
struct ElementwiseEntry {
  std::string_view op;
  std::int64_t operands;
  ElementwiseLoop<T> loop;
};

template <class T>
constexpr ElementwiseEntry<T> kElementwise[] = {
    {"copy", 1, Apply<T, Copy, 1>},
    {"neg", 1, Apply<T, Neg, 1>},
    {"reciprocal", 1, Apply<T, Reciprocal, 1>},
    {"erf", 1, Apply<T, Erf, 1>},
    {"sin", 1, Apply<T, Sin, 1>},
    {"cos", 1, Apply<T, Cos, 1>},
    {"hardsigmoid", 1, Apply<T, HardSigmoid, 1>},
    {"cast", 1, Apply<T, Cast, 1>},
    {"logical", 1, Apply<T, Not, 1>},
    {"logical", 2, Apply<T, And, 2>},
    {"compare", 1, Apply<T, IsPositive, 1>},
    {"compare", 2, Apply<T, IsGreater, 2>},
    {"mod", 1, Apply<T, ModBy, 1>},
    {"mod", 2, Apply<T, Mod, 2>},
    {"pow", 2, Apply<T, Pow, 2>},
    {"silu_mul", 2, Apply<T, SiluMul, 2>},
    {"add", 3, Apply<T, SumOfThree, 3>},
    {"accumulate_gradient", 2, Apply<T, SumOfTwo, 2>},
    {"clear_gradient", 1, Apply<T, Zero, 1>},
    {"where", 1, Apply<T, WhereOne, 1>},
    {"where", 2, Apply<T, WhereTwo, 2>},
    {"where", 3, Apply<T, WhereThree, 3>},
};

}  // namespace

template <class T>
ElementwiseLoop<T> FindElementwise(std::string_view op, std::int64_t operands) {
  for (const auto& entry : kElementwise<T>) {
    if (entry.op == op && entry.operands == operands) return entry.loop;
  }
  return nullptr;
}

template <class T>
RowLoop<T> FindRowLoop(std::string_view op) {
  if (op == "rmsnorm") return {.run = RmsNorm<T>, .per_col = 1};
  if (op == "batchnorm") return {.run = BatchNorm<T>, .per_row = 2};
  if (op == "reduce") return {.run = Reduce<T>, .one_result_per_row = true};
  if (op == "cumsum") return {.run = CumSum<T>};
  if (op == "resize") return {.run = Resize<T>};
  if (op == "rope") return {.run = Rope<T>, .per_row = 2 * kRopePairs};
  if (op == "embedding") return {.run = Embedding<T>, .per_element = 1};
  return {};
}

template <class T>
GPUETA_VECTORIZED void Pool(const T* __restrict x, T* __restrict y, std::size_t stride, const RowRange& range) {
  const std::size_t width = range.cols * stride;
  for (std::size_t row = range.begin; row < range.end; ++row) {
    const T* from = x + row * width;
    T* to = y + row * range.cols;
    for (std::size_t col = 0; col < range.cols; ++col) {
      const std::size_t begin = col * stride;
      float largest = Load(from[begin == 0 ? 0 : begin - 1]);
      for (std::size_t i = begin; i < begin + stride; ++i) largest = std::max(largest, Load(from[i]));
      Store(to + col, std::max(largest, Load(from[std::min(begin + stride, width - 1)])));
    }
  }
}

template <class T>
void MaskCausal(T* scores, std::size_t query_len, const RowRange& range) {
  for (std::size_t row = range.begin; row < range.end; ++row) {
    const std::size_t visible = range.cols - query_len + row % query_len + 1;
    T* to = scores + row * range.cols;
    for (std::size_t col = visible; col < range.cols; ++col) Store(to + col, kHidden);
  }
}

GPUETA_VECTORIZED void Triad(const float* __restrict a, const float* __restrict b, float scale, float* __restrict y,
                             std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = a[i] + scale * b[i];
}

void TouchLines(std::byte* data, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  for (std::size_t i = 0; i < bytes; i += kLine) {
    volatile std::byte* word = data + i;
    *word = *word;
  }
}

float ToFloat(Bf16 value) { return Load(value); }

Bf16 ToBf16(float value) {
  Bf16 result;
  Store(&result, value);
  return result;
}

template ElementwiseLoop<float> FindElementwise<float>(std::string_view, std::int64_t);
template ElementwiseLoop<Bf16> FindElementwise<Bf16>(std::string_view, std::int64_t);
template RowLoop<float> FindRowLoop<float>(std::string_view);
template RowLoop<Bf16> FindRowLoop<Bf16>(std::string_view);
template void Pool<float>(const float*, float*, std::size_t, const RowRange&);
template void Pool<Bf16>(const Bf16*, Bf16*, std::size_t, const RowRange&);
template void MaskCausal<float>(float*, std::size_t, const RowRange&);
template void MaskCausal<Bf16>(Bf16*, std::size_t, const RowRange&);

}  // namespace gpueta
