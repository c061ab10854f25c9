// Memory-bound operators, written as frameworks write them: elementwise kernels
// that load and store 16 bytes a thread, row operators with one block a row. Compiled
// to PTX and loaded by vector_library.cc; the names of the entries are its contract:
// OP_OPERANDS_DTYPE, e.g. "add_2_fp16".
//
// Every entry takes (output, inputs 0 to 3, weights, rows, columns, operands).

#ifdef __CUDACC__  // tests/kernels runs the others on the CPU
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

// Called with each entry and its type behind it, for tests that list them.
#ifndef GPUETA_ENTRY
#define GPUETA_ENTRY(name, T)
#endif

namespace {

// Arithmetic is in fp32, of fp64 in fp64.
template <class T>
struct Arithmetic {
  using Type = float;
};
template <>
struct Arithmetic<double> {
  using Type = double;
};
template <class T>
using A = typename Arithmetic<T>::Type;

template <class T>
__device__ A<T> Load(T x) {
  return static_cast<A<T>>(x);
}
template <class T>
__device__ T Store(A<T> x) {
  return static_cast<T>(x);
}

constexpr int kThreads = 128;  // of a block of an elementwise kernel
constexpr int kRowThreads = 256;
constexpr float kScalar = 0.5F;

template <class T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

template <class T, class Op>
__device__ void Elementwise1(T* out, const T* a, long long n) {
  constexpr int kSize = Pack<T>::kSize;
  const long long i = (static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) * kSize;
  if (i + kSize <= n) {
    const Pack<T> x = *reinterpret_cast<const Pack<T>*>(a + i);
    Pack<T> y;
#pragma unroll
    for (int j = 0; j < kSize; ++j) y.values[j] = Store<T>(Op::Of(Load(x.values[j])));
    *reinterpret_cast<Pack<T>*>(out + i) = y;
  } else {
    for (long long j = i; j < n; ++j) out[j] = Store<T>(Op::Of(Load(a[j])));
  }
}

template <class T, class Op>
__device__ void Elementwise2(T* out, const T* a, const T* b, long long n) {
  constexpr int kSize = Pack<T>::kSize;
  const long long i = (static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) * kSize;
  if (i + kSize <= n) {
    const Pack<T> x = *reinterpret_cast<const Pack<T>*>(a + i);
    const Pack<T> z = *reinterpret_cast<const Pack<T>*>(b + i);
    Pack<T> y;
#pragma unroll
    for (int j = 0; j < kSize; ++j) y.values[j] = Store<T>(Op::Of(Load(x.values[j]), Load(z.values[j])));
    *reinterpret_cast<Pack<T>*>(out + i) = y;
  } else {
    for (long long j = i; j < n; ++j) out[j] = Store<T>(Op::Of(Load(a[j]), Load(b[j])));
  }
}

template <class T, class Op>
__device__ void Elementwise3(T* out, const T* a, const T* b, const T* c, long long n) {
  constexpr int kSize = Pack<T>::kSize;
  const long long i = (static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) * kSize;
  if (i + kSize <= n) {
    const Pack<T> x = *reinterpret_cast<const Pack<T>*>(a + i);
    const Pack<T> z = *reinterpret_cast<const Pack<T>*>(b + i);
    const Pack<T> w = *reinterpret_cast<const Pack<T>*>(c + i);
    Pack<T> y;
#pragma unroll
    for (int j = 0; j < kSize; ++j)
      y.values[j] = Store<T>(Op::Of(Load(x.values[j]), Load(z.values[j]), Load(w.values[j])));
    *reinterpret_cast<Pack<T>*>(out + i) = y;
  } else {
    for (long long j = i; j < n; ++j) out[j] = Store<T>(Op::Of(Load(a[j]), Load(b[j]), Load(c[j])));
  }
}

#define UNARY(name, expression)        \
  struct name {                        \
    template <class F>                 \
    __device__ static F Of(F x) {      \
      return static_cast<F>(expression); \
    }                                  \
  };
UNARY(Copy, x)
UNARY(Relu, x > F(0) ? x : F(0))
UNARY(Clip, x < F(0) ? F(0) : (x > F(6) ? F(6) : x))
UNARY(Abs, x < F(0) ? -x : x)
UNARY(Neg, -x)
UNARY(Sqrt, sqrtf(x))
UNARY(Gelu, F(0.5) * x * (F(1) + erff(x * F(0.70710678118654752))))
UNARY(Erf, erff(x))
UNARY(Tanh, tanhf(x))
UNARY(Sigmoid, F(1) / (F(1) + expf(-x)))
UNARY(Exp, expf(x))
UNARY(Log, logf(x))
UNARY(Sin, sinf(x))
UNARY(Cos, cosf(x))
UNARY(Silu, x / (F(1) + expf(-x)))
UNARY(Hardsigmoid, fminf(fmaxf(x + F(3), F(0)), F(6)) * F(0.16666667))
UNARY(Hardswish, x * fminf(fmaxf(x + F(3), F(0)), F(6)) * F(0.16666667))
UNARY(Reciprocal, F(1) / x)

// With one operand, binary operators combine with a scalar.
#define BINARY(name, expression)       \
  struct name {                        \
    template <class F>                 \
    __device__ static F Of(F x, F y) { \
      return static_cast<F>(expression); \
    }                                  \
    template <class F>                 \
    __device__ static F Of(F x) {      \
      return Of(x, F(kScalar));        \
    }                                  \
  };
BINARY(Sub, x - y)
BINARY(Mul, x * y)
BINARY(Div, x / y)
BINARY(Pow, powf(x, y))
BINARY(Max, x > y ? x : y)
BINARY(Min, x < y ? x : y)
BINARY(Mod, fmodf(x, y))
BINARY(Compare, x < y ? 1 : 0)
BINARY(Logical, (x != F(0)) && (y != F(0)) ? 1 : 0)
BINARY(SiluMul, x / (F(1) + expf(-x)) * y)

struct Add {
  template <class F>
  __device__ static F Of(F x, F y, F z) {
    return x + y + z;
  }
  template <class F>
  __device__ static F Of(F x, F y) {
    return x + y;
  }
  template <class F>
  __device__ static F Of(F x) {
    return x + F(kScalar);
  }
};

struct Where {
  template <class F>
  __device__ static F Of(F condition) {
    return condition != F(0) ? condition : F(kScalar);
  }
  template <class F>
  __device__ static F Of(F condition, F x, F y) {
    return condition != F(0) ? x : y;
  }
  template <class F>
  __device__ static F Of(F condition, F x) {
    return condition != F(0) ? x : F(kScalar);
  }
};

// The first element of the thread's pack.
template <class T>
__device__ long long FirstOfPack() {
  return (static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) * Pack<T>::kSize;
}

template <class T>
__device__ void Clear(T* out, long long n) {
  constexpr int kSize = Pack<T>::kSize;
  const long long i = FirstOfPack<T>();
  if (i + kSize <= n) {
    Pack<T> zeros;
#pragma unroll
    for (int j = 0; j < kSize; ++j) zeros.values[j] = Store<T>(A<T>(0));
    *reinterpret_cast<Pack<T>*>(out + i) = zeros;
  } else {
    for (long long j = i; j < n; ++j) out[j] = Store<T>(A<T>(0));
  }
}

// Calls `element(position, row, column)` for each of the thread's pack: one division for all.
template <class T, class Element>
__device__ void ForPack(long long rows, long long columns, Element element) {
  const long long first = FirstOfPack<T>();
  if (first >= rows * columns) return;
  const long long end = min(first + Pack<T>::kSize, rows * columns);
  long long row = first / columns;
  long long column = first - row * columns;
  for (long long i = first; i < end; ++i) {
    element(i, row, column);
    if (++column < columns) continue;
    column = 0;
    ++row;
  }
}

// Rows are channels; weights: scale and shift of each. With b, as the gradient: both of
// what was normalised and of what comes back.
template <class T>
__device__ void Batchnorm(T* out, const T* a, const T* b, const T* weights, long long rows, long long columns) {
  ForPack<T>(rows, columns, [=](long long i, long long row, long long) {
    const float scale = Load(weights[2 * row]);
    const float shift = Load(weights[2 * row + 1]);
    out[i] = Store<T>(Load(a[i]) * scale + (b == nullptr ? shift : Load(b[i]) * shift));
  });
}

// The mean of two neighbours in a row; the last as it is.
template <class T>
__device__ void Resize(T* out, const T* a, long long rows, long long columns) {
  ForPack<T>(rows, columns, [=](long long i, long long, long long column) {
    out[i] = column + 1 < columns ? Store<T>((Load(a[i]) + Load(a[i + 1])) * 0.5F) : a[i];
  });
}

// The greatest of `stride` elements of a and the next on both sides in their row, which has
// columns·stride of them.
template <class T>
__device__ void Pool(T* out, const T* a, long long rows, long long columns, long long stride) {
  ForPack<T>(rows, columns, [=](long long i, long long row, long long column) {
    const T* from = a + row * columns * stride;
    const long long end = min((column + 1) * stride + 1, columns * stride);
    float greatest = -INFINITY;
    for (long long j = max(column * stride - 1, 0LL); j < end; ++j) greatest = fmaxf(greatest, Load(from[j]));
    out[i] = Store<T>(greatest);
  });
}

// Philox-4x32-10 (Salmon et al. 2011) with key 0: four random words for a counter.
struct Random {
  unsigned words[4];
};
__device__ Random Philox(unsigned long long counter) {
  unsigned c0 = static_cast<unsigned>(counter), c1 = static_cast<unsigned>(counter >> 32), c2 = 0, c3 = 0;
  unsigned key0 = 0, key1 = 0;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53U, c0), low0 = 0xD2511F53U * c0;
    const unsigned high1 = __umulhi(0xCD9E8D57U, c2), low1 = 0xCD9E8D57U * c2;
    c0 = high1 ^ c1 ^ key0;
    c1 = low1;
    c2 = high0 ^ c3 ^ key1;
    c3 = low0;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

// A tenth of the elements is dropped: those whose random word, of the Philox counter of
// four elements, is below a tenth of 2^32.
template <class T>
__device__ void Dropout(T* out, const T* a, long long n) {
  constexpr int kSize = Pack<T>::kSize;
  constexpr unsigned kDropBelow = 429496730U;
  constexpr float kScale = 1 / 0.9F;
  const long long i = FirstOfPack<T>();
  if (i >= n) return;
  const bool whole = i + kSize <= n;
  Pack<T> x;
  if (whole) {
    x = *reinterpret_cast<const Pack<T>*>(a + i);
  } else {
    for (long long j = i; j < n; ++j) x.values[j - i] = a[j];
  }
  Pack<T> y;
#pragma unroll
  for (int j = 0; j < kSize; j += 4) {
    const Random random = Philox((i + j) / 4);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      y.values[j + k] = Store<T>(random.words[k] < kDropBelow ? 0.0F : Load(x.values[j + k]) * kScale);
  }
  if (whole) {
    *reinterpret_cast<Pack<T>*>(out + i) = y;
  } else {
    for (long long j = i; j < n; ++j) out[j] = y.values[j - i];
  }
}

// rows × columns to columns × rows, by tiles in shared memory, one a block of 256 threads.
constexpr int kTile = 32;
template <class T>
__device__ void Transpose(T* out, const T* a, long long rows, long long columns) {
  __shared__ T tile[kTile][kTile + 1];  // odd: no two threads of a warp on one bank
  const long long tiles = (columns + kTile - 1) / kTile;
  const long long first_row = blockIdx.x / tiles * kTile;
  const long long first_column = blockIdx.x % tiles * kTile;
  const int x = threadIdx.x % kTile;
  for (int y = threadIdx.x / kTile; y < kTile; y += kRowThreads / kTile) {
    if (first_row + y < rows && first_column + x < columns)
      tile[y][x] = a[(first_row + y) * columns + first_column + x];
  }
  __syncthreads();
  for (int y = threadIdx.x / kTile; y < kTile; y += kRowThreads / kTile) {
    if (first_column + y < columns && first_row + x < rows)
      out[(first_column + y) * rows + first_row + x] = tile[x][y];
  }
}

// One step over parameters, gradients and two moments, of which all but the gradients
// are written.
__device__ void Adam(float* out, const float* parameters, const float* gradients, float* first, float* second,
                     long long n) {
  constexpr float kRate = 1e-3F, kDecay1 = 0.9F, kDecay2 = 0.999F, kEpsilon = 1e-8F;
  constexpr int kSize = Pack<float>::kSize;
  const long long i = FirstOfPack<float>();
  const auto step = [](float p, float g, float& m, float& v) {
    m = kDecay1 * m + (1 - kDecay1) * g;
    v = kDecay2 * v + (1 - kDecay2) * g * g;
    return p - kRate * m / (sqrtf(v) + kEpsilon);
  };
  if (i + kSize <= n) {
    Pack<float> p = *reinterpret_cast<const Pack<float>*>(parameters + i);
    const Pack<float> g = *reinterpret_cast<const Pack<float>*>(gradients + i);
    Pack<float> m = *reinterpret_cast<const Pack<float>*>(first + i);
    Pack<float> v = *reinterpret_cast<const Pack<float>*>(second + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) p.values[j] = step(p.values[j], g.values[j], m.values[j], v.values[j]);
    *reinterpret_cast<Pack<float>*>(out + i) = p;
    *reinterpret_cast<Pack<float>*>(first + i) = m;
    *reinterpret_cast<Pack<float>*>(second + i) = v;
  } else {
    for (long long j = i; j < n; ++j) out[j] = step(parameters[j], gradients[j], first[j], second[j]);
  }
}

// Sum, or greatest, over the threads of a block; every thread gets it.
template <class F, class Combine>
__device__ F BlockReduce(F value, Combine combine) {
  __shared__ F of_warp[kRowThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(~0U, value, offset));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < kRowThreads / 32; ++warp) value = combine(value, of_warp[warp]);
  __syncthreads();
  return value;
}
struct Sum {
  template <class F>
  __device__ F operator()(F a, F b) const {
    return a + b;
  }
};
struct Greatest {
  template <class F>
  __device__ F operator()(F a, F b) const {
    return a > b ? a : b;
  }
};

template <class T>
__device__ void SoftmaxRow(T* out, const T* in, long long columns) {
  float greatest = -INFINITY;
  for (long long j = threadIdx.x; j < columns; j += kRowThreads) greatest = fmaxf(greatest, Load(in[j]));
  greatest = BlockReduce(greatest, Greatest());
  float sum = 0;
  for (long long j = threadIdx.x; j < columns; j += kRowThreads) sum += expf(Load(in[j]) - greatest);
  sum = BlockReduce(sum, Sum());
  const float scale = 1 / sum;
  for (long long j = threadIdx.x; j < columns; j += kRowThreads) out[j] = Store<T>(expf(Load(in[j]) - greatest) * scale);
}

// weights: scale, then shift.
template <class T>
__device__ void LayernormRow(T* out, const T* in, const T* weights, long long columns) {
  float sum = 0;
  float squares = 0;
  for (long long j = threadIdx.x; j < columns; j += kRowThreads) {
    const float x = Load(in[j]);
    sum += x;
    squares += x * x;
  }
  const float mean = BlockReduce(sum, Sum()) / columns;
  const float variance = BlockReduce(squares, Sum()) / columns - mean * mean;
  const float scale = rsqrtf(fmaxf(variance, 0.0F) + 1e-5F);
  for (long long j = threadIdx.x; j < columns; j += kRowThreads) {
    out[j] = Store<T>((Load(in[j]) - mean) * scale * Load(weights[j]) + Load(weights[columns + j]));
  }
}

template <class T>
__device__ void RmsnormRow(T* out, const T* in, const T* weights, long long columns) {
  float squares = 0;
  for (long long j = threadIdx.x; j < columns; j += kRowThreads) squares += Load(in[j]) * Load(in[j]);
  const float scale = rsqrtf(BlockReduce(squares, Sum()) / columns + 1e-5F);
  for (long long j = threadIdx.x; j < columns; j += kRowThreads) {
    out[j] = Store<T>(Load(in[j]) * scale * Load(weights[j]));
  }
}

template <class T>
__device__ void ReduceRow(T* out, const T* in, long long columns) {
  float sum = 0;
  for (long long j = threadIdx.x; j < columns; j += kRowThreads) sum += Load(in[j]);
  sum = BlockReduce(sum, Sum());
  if (threadIdx.x == 0) *out = Store<T>(sum);
}

// The running sum, a block's threads at a time.
template <class T>
__device__ void CumsumRow(T* out, const T* in, long long columns) {
  __shared__ float of_warp[kRowThreads / 32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  float carried = 0;
  for (long long first = 0; first < columns; first += kRowThreads) {
    const long long j = first + threadIdx.x;
    float sum = j < columns ? Load(in[j]) : 0.0F;
    for (int offset = 1; offset < 32; offset *= 2) {
      const float before = __shfl_up_sync(~0U, sum, offset);
      if (lane >= offset) sum += before;
    }
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    float before = carried;
    for (int w = 0; w < kRowThreads / 32; ++w) {
      if (w < warp) before += of_warp[w];
      carried += of_warp[w];
    }
    if (j < columns) out[j] = Store<T>(before + sum);
    __syncthreads();
  }
}

// Pairs (j, j + columns/2) turn by an angle that falls with j; position is the row.
template <class T>
__device__ void RopeRow(T* out, const T* in, long long row, long long columns) {
  const long long half = columns / 2;
  for (long long j = threadIdx.x; j < half; j += kRowThreads) {
    const float angle = row * exp2f(-13.3F * j / half);
    const float sine = sinf(angle);
    const float cosine = cosf(angle);
    const float x = Load(in[j]);
    const float y = Load(in[half + j]);
    out[j] = Store<T>(x * cosine - y * sine);
    out[half + j] = Store<T>(x * sine + y * cosine);
  }
  if (columns % 2 != 0 && threadIdx.x == 0) out[columns - 1] = in[columns - 1];
}

// Rows of a table far apart, as tokens ask for them.
__device__ long long TokenOf(long long row, long long rows) { return row * 2654435761LL % rows; }

}  // namespace

#define ARGUMENTS(T) \
  T *out, const T *in0, const T *in1, const T *in2, T *in3, const T *weights, long long rows, long long columns, \
      long long operands

// A kernel of so many threads a block.
#define KERNEL(threads, name, T, ...)                                                       \
  extern "C" __global__ void __launch_bounds__(threads) name(ARGUMENTS(T)) { __VA_ARGS__; } \
  GPUETA_ENTRY(name, T)
#define ENTRY1(op, Op, dtype, T) KERNEL(128, op##_1_##dtype, T, Elementwise1<T, Op>(out, in0, rows * columns))
#define ENTRY2(op, Op, dtype, T) KERNEL(128, op##_2_##dtype, T, Elementwise2<T, Op>(out, in0, in1, rows * columns))
#define ENTRY3(op, Op, dtype, T) KERNEL(128, op##_3_##dtype, T, Elementwise3<T, Op>(out, in0, in1, in2, rows * columns))
#define ENTRIES12(op, Op, dtype, T) ENTRY1(op, Op, dtype, T) ENTRY2(op, Op, dtype, T)
// Of any other elementwise kernel.
#define ENTRY(name, dtype, T, ...) KERNEL(128, name##_##dtype, T, __VA_ARGS__)
#define ROW_ENTRY(op, dtype, T, ...) \
  KERNEL(256, op##_1_##dtype, T, for (long long row = blockIdx.x; row < rows; row += gridDim.x) __VA_ARGS__)

// Of masks and indices too.
#define MOVING_ENTRIES(dtype, T)         \
  ENTRY1(copy, Copy, dtype, T)           \
  ENTRY1(cast, Copy, dtype, T)           \
  ENTRIES12(add, Add, dtype, T)          \
  ENTRY3(add, Add, dtype, T)             \
  ENTRIES12(sub, Sub, dtype, T)          \
  ENTRIES12(mul, Mul, dtype, T)          \
  ENTRIES12(max, Max, dtype, T)          \
  ENTRIES12(min, Min, dtype, T)          \
  ENTRIES12(compare, Compare, dtype, T)  \
  ENTRIES12(logical, Logical, dtype, T)  \
  ENTRIES12(where, Where, dtype, T)      \
  ENTRY3(where, Where, dtype, T)

#define FLOAT_ENTRIES(dtype, T)                                                                                   \
  ENTRY1(relu, Relu, dtype, T)                                                                                    \
  ENTRY1(clip, Clip, dtype, T)                                                                                    \
  ENTRY1(abs, Abs, dtype, T)                                                                                      \
  ENTRY1(neg, Neg, dtype, T)                                                                                      \
  ENTRY1(sqrt, Sqrt, dtype, T)                                                                                    \
  ENTRY1(gelu, Gelu, dtype, T)                                                                                    \
  ENTRY1(erf, Erf, dtype, T)                                                                                      \
  ENTRY1(tanh, Tanh, dtype, T)                                                                                    \
  ENTRY1(sigmoid, Sigmoid, dtype, T)                                                                              \
  ENTRY1(exp, Exp, dtype, T)                                                                                      \
  ENTRY1(log, Log, dtype, T)                                                                                      \
  ENTRY1(sin, Sin, dtype, T)                                                                                      \
  ENTRY1(cos, Cos, dtype, T)                                                                                      \
  ENTRY1(silu, Silu, dtype, T)                                                                                    \
  ENTRY1(hardsigmoid, Hardsigmoid, dtype, T)                                                                      \
  ENTRY1(hardswish, Hardswish, dtype, T)                                                                          \
  ENTRY1(reciprocal, Reciprocal, dtype, T)                                                                        \
  ENTRIES12(div, Div, dtype, T)                                                                                   \
  ENTRIES12(pow, Pow, dtype, T)                                                                                   \
  ENTRIES12(mod, Mod, dtype, T)                                                                                   \
  ENTRY2(silu_mul, SiluMul, dtype, T)                                                                             \
  ENTRY2(accumulate_gradient, Add, dtype, T)                                                                      \
  ENTRY(clear_gradient_1, dtype, T, Clear(out, rows * columns))                                                   \
  ENTRY(dropout_1, dtype, T, Dropout(out, in0, rows * columns))                                                   \
  ENTRY(batchnorm_1, dtype, T, Batchnorm<T>(out, in0, nullptr, weights, rows, columns))                           \
  ENTRY(batchnorm_2, dtype, T, Batchnorm(out, in0, in1, weights, rows, columns))                                  \
  ENTRY(resize_1, dtype, T, Resize(out, in0, rows, columns))                                                      \
  ENTRY(pool_n, dtype, T, Pool(out, in0, rows, columns, operands))                                                \
  KERNEL(256, transpose_1_##dtype, T, Transpose(out, in0, rows, columns))                                         \
  ROW_ENTRY(softmax, dtype, T, SoftmaxRow(out + row * columns, in0 + row * columns, columns))                     \
  ROW_ENTRY(layernorm, dtype, T, LayernormRow(out + row * columns, in0 + row * columns, weights, columns))        \
  ROW_ENTRY(groupnorm, dtype, T, LayernormRow(out + row * columns, in0 + row * columns, weights, columns))        \
  ROW_ENTRY(cumsum, dtype, T, CumsumRow(out + row * columns, in0 + row * columns, columns))                       \
  ROW_ENTRY(rmsnorm, dtype, T, RmsnormRow(out + row * columns, in0 + row * columns, weights, columns))            \
  ROW_ENTRY(reduce, dtype, T, ReduceRow(out + row, in0 + row * columns, columns))                                 \
  ROW_ENTRY(rope, dtype, T, RopeRow(out + row * columns, in0 + row * columns, row, columns))                      \
  ROW_ENTRY(embedding, dtype, T, {                                                                                \
    const T* from = in0 + TokenOf(row, rows) * columns;                                                           \
    for (long long j = threadIdx.x; j < columns; j += kRowThreads) out[row * columns + j] = from[j];              \
  })

MOVING_ENTRIES(fp32, float)
MOVING_ENTRIES(fp64, double)
MOVING_ENTRIES(int8, signed char)
FLOAT_ENTRIES(fp32, float)
#ifdef __CUDACC__
MOVING_ENTRIES(fp16, __half)
MOVING_ENTRIES(bf16, __nv_bfloat16)
FLOAT_ENTRIES(fp16, __half)
FLOAT_ENTRIES(bf16, __nv_bfloat16)
#endif
ENTRY(adam_6, fp32, float, Adam(out, in0, in1, const_cast<float*>(in2), in3, rows * columns))
