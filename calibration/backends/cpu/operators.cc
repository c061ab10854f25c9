#include "calibration/backends/cpu/operators.h"

#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "calibration/backends/cpu/loops.h"
#include "calibration/backends/cpu/parallel.h"
#include "core/base/errors.h"
#include "core/ops/launch.h"

namespace gpueta {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

template <class... Args>
absl::Status Unimplemented(fmt::format_string<Args...> format, Args&&... args) {
  return absl::UnimplementedError(fmt::format(format, std::forward<Args>(args)...));
}

memory::data_type DataType(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return memory::data_type::bf16;
    case DType::kInt8: return memory::data_type::u8;
    default: return memory::data_type::f32;
  }
}

// A tensor without gaps, the last dim contiguous.
memory::desc Plain(const memory::dims& dims, memory::data_type type) {
  memory::dims strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return {dims, type, strides};
}

memory::desc AnyLayout(const memory::dims& dims, memory::data_type type) {
  return {dims, type, memory::format_tag::any};
}

// A primitive with its arguments.
using Arguments = std::vector<std::tuple<int, memory::desc, std::byte*>>;
RunOnce Call(const dnnl::primitive& primitive, const OneDnn& onednn, const Arguments& arguments) {
  std::unordered_map<int, memory> bound;
  for (const auto& [index, desc, data] : arguments) bound.emplace(index, memory(desc, onednn.engine, data));
  return [primitive, stream = onednn.stream, bound = std::move(bound)] { primitive.execute(stream, bound); };
}

CpuOperator MakeGemm(const Gemm& g, DType dtype, const OneDnn& onednn) {
  const bool is_int8 = dtype == DType::kInt8;
  const memory::data_type type = DataType(dtype);
  const memory::data_type weight_type = is_int8 ? memory::data_type::s8 : type;
  const bool is_bmm = g.layer == Gemm::Layer::kBmm;
  const auto dims = [&g, is_bmm](std::int64_t rows, std::int64_t cols) {
    return is_bmm || g.batch > 1 ? memory::dims{g.batch, rows, cols} : memory::dims{rows, cols};
  };
  const memory::desc a = Plain(dims(g.m, g.k), type);
  const memory::desc b = is_bmm ? Plain(dims(g.k, g.n), weight_type) : AnyLayout(dims(g.k, g.n), weight_type);
  const memory::desc c = Plain(dims(g.m, g.n), is_int8 ? memory::data_type::s32 : type);
  const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, c), onednn.engine);

  CpuOperator op;
  op.sizes.inputs[0] = a.get_size();
  (is_bmm ? op.sizes.inputs[1] : op.sizes.weights) = pd.weights_desc().get_size();
  op.sizes.output = c.get_size();
  op.bind = [onednn, pd, is_bmm, primitive = dnnl::matmul(pd)](const Buffers& buffers) {
    return Call(primitive, onednn,
                {{DNNL_ARG_SRC, pd.src_desc(), buffers.inputs[0]},
                 {DNNL_ARG_WEIGHTS, pd.weights_desc(), is_bmm ? buffers.inputs[1] : buffers.weights},
                 {DNNL_ARG_DST, pd.dst_desc(), buffers.output}});
  };
  return op;
}

CpuOperator MakeConv2d(const Conv2d& c, DType dtype, const OneDnn& onednn) {
  const memory::data_type type = DataType(dtype);
  const auto weight_dims = c.groups == 1 ? memory::dims{c.out_channels, c.in_channels, c.kernel_h, c.kernel_w}
                                         : memory::dims{c.groups, c.out_channels / c.groups, c.in_channels / c.groups,
                                                        c.kernel_h, c.kernel_w};
  const dnnl::convolution_forward::desc desc(
      prop_kind::forward_inference, algorithm::convolution_direct,
      AnyLayout({c.batch, c.in_channels, c.height, c.width}, type), AnyLayout(weight_dims, type),
      AnyLayout({c.batch, c.out_channels, OutHeight(c), OutWidth(c)}, type), {c.stride_h, c.stride_w},
      {c.dilation_h - 1, c.dilation_w - 1}, {c.pad_h, c.pad_w}, {c.pad_h + c.extra_pad_h, c.pad_w + c.extra_pad_w});
  const dnnl::convolution_forward::primitive_desc pd(desc, onednn.engine);

  CpuOperator op;
  op.sizes.inputs[0] = pd.src_desc().get_size();
  op.sizes.weights = pd.weights_desc().get_size();
  op.sizes.output = pd.dst_desc().get_size();
  op.bind = [onednn, pd, primitive = dnnl::convolution_forward(pd)](const Buffers& buffers) {
    return Call(primitive, onednn,
                {{DNNL_ARG_SRC, pd.src_desc(), buffers.inputs[0]},
                 {DNNL_ARG_WEIGHTS, pd.weights_desc(), buffers.weights},
                 {DNNL_ARG_DST, pd.dst_desc(), buffers.output}});
  };
  return op;
}

// Rows below this many elements a tensor are not worth waking threads for: a
// parallel region costs about 2 us, in which one thread handles as many.
constexpr std::size_t kParallelElements = 4'096;

template <class T>
RunOnce BindCausalMask(const Attention& a, std::byte* scores) {
  const auto query_len = static_cast<std::size_t>(a.query_len);
  const auto keys = static_cast<std::size_t>(a.kv_len);
  const auto rows = static_cast<std::size_t>(a.batch * a.heads) * query_len;
  return [=] {
    ParallelParts(rows, rows * keys > kParallelElements, [=](std::size_t begin, std::size_t end) {
      MaskCausal(reinterpret_cast<T*>(scores), query_len, {.rows = rows, .cols = keys, .begin = begin, .end = end});
    });
  };
}

CpuOperator MakeAttention(const Attention& a, DType dtype, const OneDnn& onednn) {
  const memory::data_type type = DataType(dtype);
  const std::int64_t batch = a.batch * a.kv_heads;
  const std::int64_t rows = a.heads / a.kv_heads * a.query_len;
  const memory::desc query = Plain({batch, rows, a.head_dim}, type);
  const memory::desc value = Plain({batch, a.kv_len, a.head_dim}, type);
  const memory::desc key_transposed({batch, a.head_dim, a.kv_len}, type, {a.kv_len * a.head_dim, 1, a.head_dim});
  const memory::desc scores = Plain({batch, rows, a.kv_len}, type);
  dnnl::primitive_attr scaled;
  scaled.set_output_scales(0, {1.0F / std::sqrt(static_cast<float>(a.head_dim))});
  const dnnl::matmul::primitive_desc score(dnnl::matmul::desc(query, key_transposed, scores), scaled, onednn.engine);
  const dnnl::softmax_forward::primitive_desc softmax(
      dnnl::softmax_forward::desc(prop_kind::forward_inference, scores, 2), onednn.engine);
  const dnnl::matmul::primitive_desc weigh(dnnl::matmul::desc(scores, value, query), onednn.engine);

  const bool is_decode = a.phase == Attention::Phase::kDecode;
  CpuOperator op;
  op.sizes.inputs[0] = query.get_size();
  if (is_decode) {
    op.sizes.weights = 2 * value.get_size();
  } else {
    op.sizes.inputs[1] = op.sizes.inputs[2] = value.get_size();
  }
  op.sizes.output = query.get_size();
  op.sizes.scratch = scores.get_size();
  op.bind = [=, score_call = dnnl::matmul(score), softmax_call = dnnl::softmax_forward(softmax),
             weigh_call = dnnl::matmul(weigh)](const Buffers& buffers) -> RunOnce {
    std::byte* const keys = is_decode ? buffers.weights : buffers.inputs[1];
    std::byte* const values = is_decode ? buffers.weights + value.get_size() : buffers.inputs[2];
    const RunOnce first = Call(score_call, onednn,
                               {{DNNL_ARG_SRC, query, buffers.inputs[0]},
                                {DNNL_ARG_WEIGHTS, key_transposed, keys},
                                {DNNL_ARG_DST, scores, buffers.scratch}});
    RunOnce mask;
    if (a.causal != 0) {
      mask =
          dtype == DType::kBf16 ? BindCausalMask<Bf16>(a, buffers.scratch) : BindCausalMask<float>(a, buffers.scratch);
    }
    const RunOnce second =
        Call(softmax_call, onednn, {{DNNL_ARG_SRC, scores, buffers.scratch}, {DNNL_ARG_DST, scores, buffers.scratch}});
    const RunOnce third = Call(weigh_call, onednn,
                               {{DNNL_ARG_SRC, scores, buffers.scratch},
                                {DNNL_ARG_WEIGHTS, value, values},
                                {DNNL_ARG_DST, query, buffers.output}});
    return [=] {
      first();
      if (mask) mask();
      second();
      third();
    };
  };
  return op;
}

// The eltwise algorithm of an operator with one operand, with its parameters.
struct Eltwise {
  std::string_view op;
  algorithm kind;
  float alpha = 0;
  float beta = 0;
};
constexpr Eltwise kEltwise[] = {
    {"relu", algorithm::eltwise_relu},
    {"clip", algorithm::eltwise_clip, 0, 6},
    {"abs", algorithm::eltwise_abs},
    {"sqrt", algorithm::eltwise_sqrt},
    {"gelu", algorithm::eltwise_gelu_erf},
    {"tanh", algorithm::eltwise_tanh},
    {"sigmoid", algorithm::eltwise_logistic},
    {"exp", algorithm::eltwise_exp},
    {"log", algorithm::eltwise_log},
    {"silu", algorithm::eltwise_swish, 1},
    {"hardswish", algorithm::eltwise_hardswish},
    {"add", algorithm::eltwise_linear, 1, 0.5F},
    {"sub", algorithm::eltwise_linear, 1, -0.5F},
    {"mul", algorithm::eltwise_linear, 1.5F, 0},
    {"div", algorithm::eltwise_linear, 0.75F, 0},
    {"max", algorithm::eltwise_relu},
    {"min", algorithm::eltwise_clip, -6, 0.5F},
    {"pow", algorithm::eltwise_pow, 1, 2},
};

struct Binary {
  std::string_view op;
  algorithm kind;
};
constexpr Binary kBinary[] = {
    {"add", algorithm::binary_add}, {"sub", algorithm::binary_sub}, {"mul", algorithm::binary_mul},
    {"div", algorithm::binary_div}, {"max", algorithm::binary_max}, {"min", algorithm::binary_min},
};

template <class Entry, std::size_t n>
const Entry* FindByOp(const Entry (&entries)[n], std::string_view op) {
  for (const Entry& entry : entries) {
    if (entry.op == op) return &entry;
  }
  return nullptr;
}

bool IsSoftmaxOrNorm(std::string_view op) { return op == "softmax" || op == "layernorm" || op == "groupnorm"; }

CpuOperator MakeEltwise(const Eltwise& eltwise, const memory::desc& tensor, const OneDnn& onednn) {
  const dnnl::eltwise_forward::primitive_desc pd(
      dnnl::eltwise_forward::desc(prop_kind::forward_inference, eltwise.kind, tensor, eltwise.alpha, eltwise.beta),
      onednn.engine);
  return {.sizes = {.inputs = {tensor.get_size()}, .output = tensor.get_size()},
          .bind = [onednn, tensor, primitive = dnnl::eltwise_forward(pd)](const Buffers& buffers) {
            return Call(primitive, onednn,
                        {{DNNL_ARG_SRC, tensor, buffers.inputs[0]}, {DNNL_ARG_DST, tensor, buffers.output}});
          }};
}

CpuOperator MakeBinary(algorithm kind, const memory::desc& tensor, const OneDnn& onednn) {
  const dnnl::binary::primitive_desc pd(dnnl::binary::desc(kind, tensor, tensor, tensor), onednn.engine);
  return {.sizes = {.inputs = {tensor.get_size(), tensor.get_size()}, .output = tensor.get_size()},
          .bind = [onednn, tensor, primitive = dnnl::binary(pd)](const Buffers& buffers) {
            return Call(primitive, onednn,
                        {{DNNL_ARG_SRC_0, tensor, buffers.inputs[0]},
                         {DNNL_ARG_SRC_1, tensor, buffers.inputs[1]},
                         {DNNL_ARG_DST, tensor, buffers.output}});
          }};
}

CpuOperator MakeSoftmax(const memory::desc& tensor, const OneDnn& onednn) {
  const dnnl::softmax_forward::primitive_desc pd(dnnl::softmax_forward::desc(prop_kind::forward_inference, tensor, 1),
                                                 onednn.engine);
  return {.sizes = {.inputs = {tensor.get_size()}, .output = tensor.get_size()},
          .bind = [onednn, tensor, primitive = dnnl::softmax_forward(pd)](const Buffers& buffers) {
            return Call(primitive, onednn,
                        {{DNNL_ARG_SRC, tensor, buffers.inputs[0]}, {DNNL_ARG_DST, tensor, buffers.output}});
          }};
}

// Scale and shift are fp32 whatever the tensor is, as frameworks keep them.
CpuOperator MakeLayerNorm(const Vector& v, const memory::desc& tensor, const OneDnn& onednn) {
  constexpr float kEpsilon = 1e-5F;
  using dnnl::normalization_flags;
  const dnnl::layer_normalization_forward::primitive_desc pd(
      dnnl::layer_normalization_forward::desc(prop_kind::forward_inference, tensor, kEpsilon,
                                              normalization_flags::use_scale | normalization_flags::use_shift),
      onednn.engine);
  const memory::desc parameters = Plain({v.cols}, memory::data_type::f32);
  return {
      .sizes = {.inputs = {tensor.get_size()}, .weights = 2 * parameters.get_size(), .output = tensor.get_size()},
      .bind = [onednn, tensor, parameters, primitive = dnnl::layer_normalization_forward(pd)](const Buffers& buffers) {
        return Call(primitive, onednn,
                    {{DNNL_ARG_SRC, tensor, buffers.inputs[0]},
                     {DNNL_ARG_SCALE, parameters, buffers.weights},
                     {DNNL_ARG_SHIFT, parameters, buffers.weights + parameters.get_size()},
                     {DNNL_ARG_DST, tensor, buffers.output}});
      }};
}

template <class T>
CpuOperator MakeElementwiseLoop(ElementwiseLoop<T> loop, const Vector& v) {
  const auto n = static_cast<std::size_t>(v.rows * v.cols);
  CpuOperator op;
  for (std::int64_t i = 0; i < v.operands; ++i) op.sizes.inputs[static_cast<std::size_t>(i)] = n * sizeof(T);
  op.sizes.output = n * sizeof(T);
  op.bind = [loop, n, operands = v.operands](const Buffers& buffers) -> RunOnce {
    const auto* x = reinterpret_cast<const T*>(buffers.inputs[0]);
    const auto* second = operands > 1 ? reinterpret_cast<const T*>(buffers.inputs[1]) : x;
    const auto* third = operands > 2 ? reinterpret_cast<const T*>(buffers.inputs[2]) : x;
    auto* y = reinterpret_cast<T*>(buffers.output);
    return [=] {
      ParallelParts(n, n > kParallelElements, [=](std::size_t begin, std::size_t end) {
        loop(x + begin, second + begin, third + begin, y + begin, end - begin);
      });
    };
  };
  return op;
}

template <class T>
CpuOperator MakeRowLoop(const RowLoop<T>& loop, const Vector& v) {
  const auto rows = static_cast<std::size_t>(v.rows);
  const auto cols = static_cast<std::size_t>(v.cols);
  CpuOperator op;
  if (loop.per_element == 0) op.sizes.inputs[0] = rows * cols * sizeof(T);
  op.sizes.weights = (rows * loop.per_row + cols * loop.per_col + rows * cols * loop.per_element) * sizeof(T);
  op.sizes.output = (loop.one_result_per_row ? rows : rows * cols) * sizeof(T);
  op.bind = [run = loop.run, rows, cols](const Buffers& buffers) -> RunOnce {
    const auto* x = reinterpret_cast<const T*>(buffers.inputs[0]);
    const auto* parameters = reinterpret_cast<const T*>(buffers.weights);
    auto* y = reinterpret_cast<T*>(buffers.output);
    return [=] {
      ParallelParts(rows, rows * cols > kParallelElements, [=](std::size_t begin, std::size_t end) {
        run(x, parameters, y, {.rows = rows, .cols = cols, .begin = begin, .end = end});
      });
    };
  };
  return op;
}

// The operands of a pooling are the input elements of each output element.
template <class T>
CpuOperator MakePool(const Vector& v) {
  const auto rows = static_cast<std::size_t>(v.rows);
  const auto cols = static_cast<std::size_t>(v.cols);
  const auto stride = static_cast<std::size_t>(v.operands);
  CpuOperator op;
  op.sizes.inputs[0] = rows * cols * stride * sizeof(T);
  op.sizes.output = rows * cols * sizeof(T);
  op.bind = [rows, cols, stride](const Buffers& buffers) -> RunOnce {
    const auto* x = reinterpret_cast<const T*>(buffers.inputs[0]);
    auto* y = reinterpret_cast<T*>(buffers.output);
    return [=] {
      ParallelParts(rows, rows * cols * stride > kParallelElements, [=](std::size_t begin, std::size_t end) {
        Pool<T>(x, y, stride, {.rows = rows, .cols = cols, .begin = begin, .end = end});
      });
    };
  };
  return op;
}

template <class T>
CpuOperator MakeLoop(const Vector& v) {
  if (v.op == "pool") return MakePool<T>(v);
  if (const auto loop = FindElementwise<T>(v.op, v.operands); loop != nullptr) return MakeElementwiseLoop<T>(loop, v);
  return MakeRowLoop<T>(FindRowLoop<T>(v.op), v);
}

// Doubles and integers in graphs are indices and masks: what counts is their
// bytes, moved here as floats.
Vector SameBytesInFp32(Vector v, DType dtype) {
  constexpr std::int64_t kFloatBits = 32;
  v.cols = std::max<std::int64_t>(1, v.cols * BitsOf(dtype).activation / kFloatBits);
  return v;
}

CpuOperator MakeVector(const Vector& v, DType dtype, const OneDnn& onednn) {
  if (dtype == DType::kFp64 || dtype == DType::kInt8)
    return MakeVector(SameBytesInFp32(v, dtype), DType::kFp32, onednn);
  const memory::desc tensor = Plain({v.rows, v.cols}, DataType(dtype));
  if (v.op == "softmax") return MakeSoftmax(tensor, onednn);
  if (IsSoftmaxOrNorm(v.op)) return MakeLayerNorm(v, tensor, onednn);
  if (const auto* eltwise = FindByOp(kEltwise, v.op); eltwise != nullptr && v.operands == 1) {
    return MakeEltwise(*eltwise, tensor, onednn);
  }
  if (const auto* binary = FindByOp(kBinary, v.op); binary != nullptr && v.operands == 2) {
    return MakeBinary(binary->kind, tensor, onednn);
  }
  return dtype == DType::kBf16 ? MakeLoop<Bf16>(v) : MakeLoop<float>(v);
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the std::function inside owns it

bool HasVectorOp(const Vector& v) {
  if (v.op == "pool") return true;
  if (IsSoftmaxOrNorm(v.op) || FindRowLoop<float>(v.op).run != nullptr) return v.operands == 1;
  return (v.operands == 1 && FindByOp(kEltwise, v.op) != nullptr) ||
         (v.operands == 2 && FindByOp(kBinary, v.op) != nullptr) || FindElementwise<float>(v.op, v.operands) != nullptr;
}

absl::Status SupportsDType(const Kernel& kernel) {
  const DType dtype = kernel.dtype;
  if (kernel.op() == Op::kVector && (dtype == DType::kFp64 || dtype == DType::kInt8)) return absl::OkStatus();
  const bool known =
      dtype == DType::kFp32 || dtype == DType::kBf16 || (dtype == DType::kInt8 && kernel.op() == Op::kGemm);
  if (!known) {
    return Unimplemented(
        "the CPU backend measures fp32 and bf16 (int8 for gemm; fp64 and int8 for vector operators), not {}",
        Name(dtype));
  }
  if (!IsNativeOnCpu(dtype)) return Unimplemented("this processor has no instructions for {}: use fp32", Name(dtype));
  return absl::OkStatus();
}

}  // namespace

bool IsNativeOnCpu(DType dtype) {
  const auto has = [isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa())](dnnl::cpu_isa needed) {
    return (isa & static_cast<unsigned>(needed)) == static_cast<unsigned>(needed);
  };
  switch (dtype) {
    case DType::kFp32: return true;
    case DType::kBf16: return has(dnnl::cpu_isa::avx512_core_bf16);
    case DType::kInt8: return has(dnnl::cpu_isa::avx512_core_vnni);
    default: return false;
  }
}

absl::Status SupportsOnCpu(const Kernel& kernel) {
  GPUETA_RETURN_IF_ERROR(Validate(kernel));
  GPUETA_RETURN_IF_ERROR(SupportsDType(kernel));
  if (const std::string_view gradient = GradientOf(kernel); !gradient.empty()) {
    return Unimplemented("the CPU backend measures forward {} kernels, not their {}", Name(kernel.op()), gradient);
  }
  switch (kernel.op()) {
    case Op::kGemm:
    case Op::kConv2d: return absl::OkStatus();
    case Op::kAttention: {
      const DType kv_dtype = std::get<Attention>(kernel.work).kv_dtype;
      if (kv_dtype == kernel.dtype) return absl::OkStatus();
      return Unimplemented("the CPU backend measures attention with kv_dtype = dtype, not {} with a {} cache",
                           Name(kernel.dtype), Name(kv_dtype));
    }
    case Op::kVector: {
      const auto& v = std::get<Vector>(kernel.work);
      if (HasVectorOp(v)) return absl::OkStatus();
      return Unimplemented("the CPU backend has no vector operator \"{}\" with {} operands", v.op, v.operands);
    }
    case Op::kMoe:
    case Op::kCollective:
    case Op::kCustom: break;
  }
  return Unimplemented("the CPU backend does not measure {} kernels", Name(kernel.op()));
}

absl::StatusOr<CpuOperator> MakeCpuOperator(const Kernel& kernel, const OneDnn& onednn) {
  GPUETA_RETURN_IF_ERROR(SupportsOnCpu(kernel));
  try {
    switch (kernel.op()) {
      case Op::kGemm: return MakeGemm(std::get<Gemm>(kernel.work), kernel.dtype, onednn);
      case Op::kConv2d: return MakeConv2d(std::get<Conv2d>(kernel.work), kernel.dtype, onednn);
      case Op::kAttention: return MakeAttention(std::get<Attention>(kernel.work), kernel.dtype, onednn);
      default: return MakeVector(std::get<Vector>(kernel.work), kernel.dtype, onednn);
    }
  } catch (const dnnl::error& error) {
    return Unimplemented("oneDNN: {}", error.what());
  }
}

}  // namespace gpueta
