#include "core/importers/traces/aten_ops.h"

#include <algorithm>
#include <charconv>

#include "core/importers/traces/aten_table.h"
#include "core/ops/counts.h"

namespace gpueta {
namespace {

using Dims = std::vector<std::int64_t>;
using Kernels = std::optional<std::vector<Kernel>>;

using aten::Entry;
using aten::Kind;

std::optional<DType> DTypeOf(std::string_view type) {
  if (type == "float") return DType::kFp32;
  if (type == "c10::Half") return DType::kFp16;
  if (type == "c10::BFloat16") return DType::kBf16;
  if (type.starts_with("c10::Float8")) return DType::kFp8;
  // Kernels over integers are bound by memory: the type of the same width.
  switch (BitsOfTraceType(type)) {
    case 64: return DType::kFp64;
    case 32: return DType::kFp32;
    case 16: return DType::kFp16;
    case 8: return DType::kInt8;
    default: return std::nullopt;
  }
}

Count Elements(const Dims& dims) {
  Count elements = 1;
  for (std::int64_t dim : dims) elements = elements * Count(std::max<std::int64_t>(dim, 0));
  return elements;
}

std::int64_t ElementsOf(const Dims& dims) {
  const Count elements = Elements(dims);
  return elements.overflowed() ? INT64_MAX : elements.value();
}

// "[2, 2]", "3" as integers; nullopt for anything else.
std::optional<Dims> IntegersIn(std::string_view text) {
  Dims values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == '[' || *at == ']' || *at == ',' || *at == ' ') {
      ++at;
      continue;
    }
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return std::nullopt;
    values.push_back(value);
    at = next;
  }
  return values;
}

// The arguments of a call, by position.
class Call {
 public:
  explicit Call(const OpSignature& signature) : arguments_(signature.arguments) {}

  // Dims of a tensor; null for what is none.
  const Dims* Tensor(std::size_t i) const {
    if (i >= arguments_.size() || BitsOfTraceType(arguments_[i].type) == 0) return nullptr;
    static const Dims scalar;
    return arguments_[i].tensors.empty() ? &scalar : &arguments_[i].tensors.front();
  }
  std::optional<DType> Type(std::size_t i) const {
    return i < arguments_.size() ? DTypeOf(arguments_[i].type) : std::nullopt;
  }
  // A list of integers; of one for each axis where only one is given.
  std::optional<Dims> Integers(std::size_t i, std::size_t axes = 0) const {
    if (i >= arguments_.size() || arguments_[i].concrete.empty()) return std::nullopt;
    std::optional<Dims> values = IntegersIn(arguments_[i].concrete);
    if (values.has_value() && values->size() == 1 && axes > 1) values->resize(axes, values->front());
    if (values.has_value() && axes > 0 && values->size() != axes) return std::nullopt;
    return values;
  }
  std::string_view Text(std::size_t i) const {
    return i < arguments_.size() ? std::string_view(arguments_[i].concrete) : std::string_view();
  }
  std::size_t size() const { return arguments_.size(); }
  const std::vector<TraceArgument>& arguments() const { return arguments_; }

 private:
  const std::vector<TraceArgument>& arguments_;
};

Kernel MakeKernel(DType dtype, Work work) {
  Kernel kernel;
  kernel.dtype = dtype;
  kernel.work = std::move(work);
  return kernel;
}

Kernels One(DType dtype, Work work) { return std::vector<Kernel>{MakeKernel(dtype, std::move(work))}; }

// cols is the last dim.
Kernels VectorOver(DType dtype, std::string_view op, const Dims& dims, std::int64_t operands) {
  const std::int64_t cols = dims.empty() ? 1 : dims.back();
  const std::int64_t elements = ElementsOf(dims);
  return One(dtype, Vector{std::string(op), cols > 0 ? elements / cols : 0, cols, operands});
}

Kernels Elementwise(const Call& call, std::string_view op) {
  std::size_t largest = call.size();
  for (std::size_t i = 0; i < call.size(); ++i) {
    const Dims* dims = call.Tensor(i);
    if (dims == nullptr) continue;
    if (largest == call.size() || ElementsOf(*dims) > ElementsOf(*call.Tensor(largest))) largest = i;
  }
  if (largest == call.size()) return std::nullopt;
  const Dims& shape = *call.Tensor(largest);
  std::int64_t operands = 0;
  DType widest = *call.Type(largest);
  for (std::size_t i = 0; i < call.size(); ++i) {
    const Dims* dims = call.Tensor(i);
    if (dims == nullptr || *dims != shape) continue;
    ++operands;
    if (BitsOf(*call.Type(i)).activation > BitsOf(widest).activation) widest = *call.Type(i);
  }
  // The first operand of a copy is where it goes.
  return VectorOver(widest, op, shape, op == "copy" ? 1 : operands);
}

Kernels Product(const Call& call, bool linear) {
  std::vector<std::size_t> tensors;
  for (std::size_t i = 0; i < call.size(); ++i) {
    if (call.Tensor(i) != nullptr && !call.Tensor(i)->empty()) tensors.push_back(i);
  }
  // The operands of the product are the first two that fit together: before
  // them stands what is added, after them the result or scales.
  for (std::size_t first = 0; first + 1 < tensors.size(); ++first) {
    const Dims& a = *call.Tensor(tensors[first]);
    const Dims& b = *call.Tensor(tensors[first + 1]);
    const DType dtype = *call.Type(tensors[first]);
    if (a.size() == 2 && b.size() == 2 && a[1] == b[0]) {
      return One(dtype, Gemm{linear ? Gemm::Layer::kLinear : Gemm::Layer::kGemm, 1, a[0], b[1], a[1]});
    }
    if (a.size() == 3 && b.size() == 3 && a[0] == b[0] && a[2] == b[1]) {
      return One(dtype, Gemm{Gemm::Layer::kBmm, a[0], a[1], b[2], a[2]});
    }
    if (a.size() == 2 && b.size() == 1 && a[1] == b[0]) {
      return One(dtype, Gemm{Gemm::Layer::kGemm, 1, a[0], 1, a[1]});
    }
  }
  return std::nullopt;
}

// What convolutions have in common, by the position of their stride.
struct ConvArguments {
  Dims stride;
  Dims padding;
  Dims dilation;
  bool transposed = false;
  Dims output_padding;
  std::int64_t groups = 1;
};

std::optional<ConvArguments> ReadConvArguments(const Call& call, std::size_t first, std::size_t axes) {
  const std::optional<Dims> stride = call.Integers(first, axes);
  const std::optional<Dims> padding = call.Integers(first + 1, axes);
  const std::optional<Dims> dilation = call.Integers(first + 2, axes);
  const std::optional<Dims> output_padding = call.Integers(first + 4, axes);
  const std::optional<Dims> groups = call.Integers(first + 5, 1);
  if (!stride.has_value() || !padding.has_value() || !dilation.has_value() || !groups.has_value()) return std::nullopt;
  return ConvArguments{
      *stride,        *padding, *dilation, call.Text(first + 3) == "True", output_padding.value_or(Dims(axes, 0)),
      groups->front()};
}

// Size of the input of the convolution that a transposed one is the gradient
// of; see core/importers/onnx/ops_convolution.cc.
Count TransposedSize(std::int64_t size, std::int64_t kernel, const ConvArguments& arguments, std::size_t axis) {
  return Count(std::max<std::int64_t>(size - 1, 0)) * Count(std::max<std::int64_t>(arguments.stride[axis], 0)) +
         Count(std::max<std::int64_t>(arguments.dilation[axis], 0)) * Count(std::max<std::int64_t>(kernel - 1, 0)) +
         Count(std::max<std::int64_t>(1 + arguments.output_padding[axis] - 2 * arguments.padding[axis], 0));
}

std::optional<Kernel> ConvKernel(DType dtype, const Dims& x, const Dims& w, const ConvArguments& arguments) {
  const std::size_t axes = x.size() - 2;
  for (std::int64_t padding : arguments.padding) {
    if (padding < 0 || padding > INT32_MAX) return std::nullopt;
  }
  Dims size(x.begin() + 2, x.end());
  if (arguments.transposed) {
    for (std::size_t i = 0; i < axes; ++i) {
      if (arguments.output_padding[i] < 0 || arguments.output_padding[i] > INT32_MAX) return std::nullopt;
      const Count total = TransposedSize(size[i], w[i + 2], arguments, i);
      if (total.overflowed()) return std::nullopt;
      size[i] = total.value();
    }
  }
  const bool one_axis = axes == 1;
  const std::size_t last = axes - 1;
  Conv2d conv;
  conv.batch = x[0];
  conv.in_channels = arguments.transposed ? (Count(w[1]) * Count(arguments.groups)).value() : x[1];
  conv.height = one_axis ? 1 : size[0];
  conv.width = size[last];
  conv.out_channels = w[0];
  conv.kernel_h = one_axis ? 1 : w[2];
  conv.kernel_w = w[2 + last];
  conv.stride_h = one_axis ? 1 : arguments.stride[0];
  conv.stride_w = arguments.stride[last];
  conv.pad_h = one_axis ? 0 : arguments.padding[0];
  conv.pad_w = arguments.padding[last];
  conv.groups = arguments.groups;
  conv.dilation_h = one_axis ? 1 : arguments.dilation[0];
  conv.dilation_w = arguments.dilation[last];
  return MakeKernel(dtype, conv);
}

// Of three spatial axes: by FLOPs and bytes.
std::optional<Kernel> Conv3dKernel(DType dtype, const Dims& x, const Dims& w, const ConvArguments& arguments) {
  Count applications = Count(x[0]);
  for (std::size_t i = 0; i < 3; ++i) {
    std::int64_t steps = x[i + 2];
    if (!arguments.transposed) {
      const Count span =
          Count(std::max<std::int64_t>(arguments.dilation[i], 0)) * Count(std::max<std::int64_t>(w[i + 2] - 1, 0)) +
          Count(1);
      const Count padded = Count(x[i + 2]) + Count(2) * Count(std::max<std::int64_t>(arguments.padding[i], 0));
      if (span.overflowed() || padded.overflowed() || padded.value() < span.value() || arguments.stride[i] < 1) {
        return std::nullopt;
      }
      steps = (padded.value() - span.value()) / arguments.stride[i] + 1;
    }
    applications = applications * Count(steps);
  }
  const Count macs = applications * Elements(w);
  const Count bytes = BytesOf(Elements(x) + Elements(w) + applications * Count(w[0]), BitsOf(dtype).activation);
  if ((Count(2) * macs).overflowed() || bytes.overflowed()) return std::nullopt;
  return MakeKernel(dtype, Custom{"conv3d", 2 * macs.value(), bytes.value()});
}

std::optional<Kernel> AnyConvKernel(DType dtype, const Dims& x, const Dims& w, const ConvArguments& arguments) {
  for (const Dims* dims : {&x, &w}) {
    if (std::any_of(dims->begin(), dims->end(), [](std::int64_t dim) { return dim < 1; })) return std::nullopt;
  }
  if (arguments.groups < 1) return std::nullopt;
  return x.size() == 5 ? Conv3dKernel(dtype, x, w, arguments) : ConvKernel(dtype, x, w, arguments);
}

bool AreConvOperands(const Dims* x, const Dims* w) {
  return x != nullptr && w != nullptr && x->size() >= 3 && x->size() <= 5 && x->size() == w->size();
}

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
Kernels Convolution(const Call& call) {
  const Dims* x = call.Tensor(0);
  const Dims* w = call.Tensor(1);
  if (!AreConvOperands(x, w)) return std::nullopt;
  const std::optional<ConvArguments> arguments = ReadConvArguments(call, 3, x->size() - 2);
  if (!arguments.has_value()) return std::nullopt;
  const std::optional<Kernel> kernel = AnyConvKernel(*call.Type(0), *x, *w, *arguments);
  if (!kernel.has_value()) return std::nullopt;
  return std::vector<Kernel>{*kernel};
}

// grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, output_mask: the gradients of input and
// weight cost a convolution each.
Kernels ConvolutionBackward(const Call& call) {
  const Dims* x = call.Tensor(1);
  const Dims* w = call.Tensor(2);
  if (!AreConvOperands(x, w)) return std::nullopt;
  const std::optional<ConvArguments> arguments = ReadConvArguments(call, 4, x->size() - 2);
  if (!arguments.has_value()) return std::nullopt;
  const std::optional<Kernel> kernel = AnyConvKernel(*call.Type(1), *x, *w, *arguments);
  if (!kernel.has_value()) return std::nullopt;
  constexpr std::size_t kMask = 10;
  const std::string_view mask = call.Text(kMask);
  const bool all = mask.empty();
  const bool of_input = all || mask.starts_with("[True");
  const bool of_weight = all || mask.find(", True,") != std::string_view::npos;
  return std::vector<Kernel>(static_cast<std::size_t>(of_input) + static_cast<std::size_t>(of_weight), *kernel);
}

// query [batch, heads, length, size], key, value.
Kernels AttentionOf(const Call& call, std::size_t query, bool backward) {
  const Dims* q = call.Tensor(query);
  const Dims* k = call.Tensor(query + 1);
  if (q == nullptr || k == nullptr || q->size() != 4 || k->size() != 4) return std::nullopt;
  // is_causal is the last boolean but debugging flags: the first True or False.
  bool causal = false;
  for (std::size_t i = query + 3; i < call.size(); ++i) {
    if (call.Text(i) != "True" && call.Text(i) != "False") continue;
    causal = call.Text(i) == "True";
    // compute_log_sumexp stands before it where there is a bias.
    if (call.Text(i + 1).empty() || i + 2 >= call.size()) break;
    if (call.Text(i + 2) == "True" || call.Text(i + 2) == "False") causal = call.Text(i + 2) == "True";
    break;
  }
  const DType dtype = *call.Type(query);
  const bool decodes = (*q)[2] == 1 && (*k)[2] > 1;
  const Attention attention = {.phase = decodes ? Attention::Phase::kDecode : Attention::Phase::kPrefill,
                               .batch = (*q)[0],
                               .query_len = (*q)[2],
                               .kv_len = (*k)[2],
                               .heads = (*q)[1],
                               .kv_heads = (*k)[1],
                               .head_dim = (*q)[3],
                               .causal = causal && !decodes ? 1 : 0,
                               .kv_dtype = call.Type(query + 1).value_or(dtype)};
  if (!backward) return One(dtype, attention);
  Counts counts;
  if (!Validate(MakeKernel(dtype, attention), counts).ok()) return std::nullopt;
  // Five products for the forward's two; twice its tensors and their gradients.
  const Count flops = Count(counts.flops.value() / 2) * Count(5);
  const Count bytes = counts.bytes() * Count(2);
  if (flops.overflowed() || bytes.overflowed()) return std::nullopt;
  return One(dtype, Custom{"attention_backward", flops.value(), bytes.value()});
}

Kernels Norm(const Call& call, const Entry& entry, std::size_t first) {
  const Dims* x = call.Tensor(first);
  if (x == nullptr || x->empty()) return std::nullopt;
  std::int64_t cols = x->back();
  for (std::size_t i = first; i < call.size(); ++i) {
    const std::optional<Dims> shape = call.Integers(i);
    if (!shape.has_value() || shape->empty() || !call.Text(i).starts_with('[')) continue;
    cols = ElementsOf(*shape);
    break;
  }
  if (cols < 1) return std::nullopt;
  return One(*call.Type(first), Vector{std::string(entry.op), ElementsOf(*x) / cols, cols, 1});
}

// input, weight, bias, N, C, HxW, group, eps
Kernels GroupNorm(const Call& call, const Entry& entry) {
  const Dims* x = call.Tensor(0);
  const std::optional<Dims> groups = call.Integers(6, 1);
  if (x == nullptr || x->empty() || !groups.has_value()) return std::nullopt;
  const Count rows = Count(std::max<std::int64_t>(x->front(), 0)) * Count(std::max<std::int64_t>(groups->front(), 0));
  if (rows.overflowed() || rows.value() < 1) return std::nullopt;
  return One(*call.Type(0), Vector{std::string(entry.op), rows.value(), ElementsOf(*x) / rows.value(), 1});
}

// Along the axes in argument 1, or all.
Kernels Reduction(const Call& call, const Entry& entry) {
  const Dims* x = call.Tensor(0);
  if (x == nullptr) return std::nullopt;
  std::optional<Dims> axes = call.Integers(1);
  const auto rank = static_cast<std::int64_t>(x->size());
  std::int64_t cols = 1;
  for (std::int64_t axis : axes.value_or(Dims())) {
    if (axis < -rank || axis >= rank) return std::nullopt;
    cols =
        (Count(cols) * Count(std::max<std::int64_t>((*x)[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)], 0)))
            .value();
  }
  const std::int64_t elements = ElementsOf(*x);
  if (!axes.has_value() || axes->empty()) cols = elements;
  if (cols < 1) return std::nullopt;
  return One(*call.Type(0), Vector{std::string(entry.op), elements / cols, cols, 1});
}

// input, kernel, stride (empty: the kernel), padding
Kernels Pool(const Call& call, const Entry& entry) {
  const Dims* x = call.Tensor(0);
  const std::optional<Dims> kernel = call.Integers(1, 2);
  const std::optional<Dims> padding = call.Integers(3, 2);
  if (x == nullptr || x->size() < 3 || !kernel.has_value()) return std::nullopt;
  const Dims stride = call.Integers(2, 2).value_or(*kernel);
  Dims out = *x;
  std::int64_t reads = 1;
  for (std::size_t i = 0; i < 2; ++i) {
    std::int64_t& size = out[x->size() - 2 + i];
    const std::int64_t pad = padding.has_value() ? (*padding)[i] : 0;
    if (stride[i] < 1 || stride[i] > INT32_MAX || (*kernel)[i] < 1 || (*kernel)[i] > INT32_MAX || pad < 0 ||
        pad > INT32_MAX || size > INT32_MAX || size + 2 * pad < (*kernel)[i]) {
      return std::nullopt;
    }
    size = (size + 2 * pad - (*kernel)[i]) / stride[i] + 1;
    reads *= std::min(stride[i], (*kernel)[i]);
  }
  return VectorOver(*call.Type(0), entry.op, out, reads);
}

// input, output size
Kernels Resize(const Call& call, const Entry& entry) {
  const Dims* x = call.Tensor(0);
  const std::optional<Dims> size = call.Integers(1, 2);
  if (x == nullptr || x->size() != 4 || !size.has_value()) return std::nullopt;
  return VectorOver(*call.Type(0), entry.op, {(*x)[0], (*x)[1], (*size)[0], (*size)[1]}, 1);
}

// weight [rows, cols], indices
Kernels Embedding(const Call& call, const Entry& entry) {
  const Dims* table = call.Tensor(0);
  const Dims* indices = call.Tensor(1);
  if (table == nullptr || indices == nullptr || table->size() != 2) return std::nullopt;
  return One(*call.Type(0), Vector{std::string(entry.op), ElementsOf(*indices), (*table)[1], 1});
}

// self, dim, index
Kernels Select(const Call& call, const Entry& entry) {
  const Dims* x = call.Tensor(0);
  const Dims* index = call.Tensor(2);
  const std::optional<Dims> axis = call.Integers(1, 1);
  if (x == nullptr || index == nullptr || !axis.has_value()) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(x->size());
  if (axis->front() < -rank || axis->front() >= rank) return std::nullopt;
  Dims out = *x;
  out[static_cast<std::size_t>(axis->front() < 0 ? axis->front() + rank : axis->front())] = ElementsOf(*index);
  return VectorOver(*call.Type(0), entry.op, out, 1);
}

Kernels List(const Call& call, const Entry& entry) {
  Count elements;
  std::int64_t lists = 0;
  DType dtype = DType::kFp32;
  for (std::size_t i = 0; i < call.size(); ++i) {
    const TraceArgument& argument = call.arguments()[i];
    if (argument.tensors.empty() || !DTypeOf(argument.type).has_value()) continue;
    if (++lists > 1) continue;
    dtype = *DTypeOf(argument.type);
    for (const Dims& dims : argument.tensors) elements = elements + Elements(dims);
  }
  if (lists == 0 || elements.overflowed()) return std::nullopt;
  return One(dtype, Vector{std::string(entry.op), 1, elements.value(), std::max<std::int64_t>(lists, 1)});
}

Kernels Unchecked(const Entry& entry, const Call& call, bool linear) {
  switch (entry.kind) {
    case Kind::kElementwise: return Elementwise(call, entry.op);
    case Kind::kProduct: return Product(call, linear);
    case Kind::kConvolution: return Convolution(call);
    case Kind::kConvolutionBackward: return ConvolutionBackward(call);
    case Kind::kAttention: return AttentionOf(call, 0, false);
    case Kind::kAttentionBackward: return AttentionOf(call, 1, true);
    case Kind::kNorm: return Norm(call, entry, 0);
    case Kind::kBatchNorm: {
      const Dims* x = call.Tensor(0);
      return x == nullptr ? std::nullopt : VectorOver(*call.Type(0), entry.op, *x, 1);
    }
    case Kind::kGroupNorm: return GroupNorm(call, entry);
    case Kind::kSoftmax:
    case Kind::kReduction: return Reduction(call, entry);
    case Kind::kPool: return Pool(call, entry);
    case Kind::kResize: return Resize(call, entry);
    case Kind::kEmbedding: return Embedding(call, entry);
    case Kind::kSelect: return Select(call, entry);
    case Kind::kList: return List(call, entry);
  }
  return std::nullopt;
}

}  // namespace

int BitsOfTraceType(std::string_view type) {
  if (type == "double" || type == "long int" || type == "long" || type == "c10::complex<float>") return 64;
  if (type == "float" || type == "int") return 32;
  if (type == "c10::Half" || type == "c10::BFloat16" || type == "short" || type == "short int") return 16;
  if (type == "bool" || type == "unsigned char" || type == "signed char" || type.starts_with("c10::Float8")) return 8;
  return 0;
}

bool IsFloatTraceType(std::string_view type) {
  return type == "float" || type == "double" || type == "c10::Half" || type == "c10::BFloat16" ||
         type.starts_with("c10::Float8");
}

std::optional<std::vector<Kernel>> KernelsOf(const OpSignature& signature, bool linear) {
  const Entry* entry = aten::Find(signature.name);
  if (entry == nullptr) return std::nullopt;
  const bool is_addmm = signature.name == "aten::addmm" || signature.name == "aten::_addmm_activation";
  std::optional<std::vector<Kernel>> kernels = Unchecked(*entry, Call(signature), linear || is_addmm);
  if (!kernels.has_value()) return std::nullopt;
  // Nothing runs over tensors without elements.
  if (!entry->op.empty() && std::get_if<Vector>(&kernels->front().work) != nullptr) {
    const auto& vector = std::get<Vector>(kernels->front().work);
    if (vector.rows == 0 || vector.cols == 0) return std::vector<Kernel>();
  }
  for (const Kernel& kernel : *kernels) {
    if (!Validate(kernel).ok()) return std::nullopt;
  }
  return kernels;
}

}  // namespace gpueta
