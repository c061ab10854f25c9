#include "core/wire/kernel_codec.h"

#include "core/base/errors.h"
#include "core/wire/enum_codec.h"

namespace gpueta::wire {
namespace {

static_assert(static_cast<int>(Gemm::Layer::kGemm) + 1 == v1::Gemm::LAYER_GEMM &&
              static_cast<int>(Gemm::Layer::kBmm) + 1 == v1::Gemm::LAYER_BMM);
static_assert(static_cast<int>(Attention::Phase::kPrefill) + 1 == v1::Attention::PHASE_PREFILL &&
              static_cast<int>(Attention::Phase::kDecode) + 1 == v1::Attention::PHASE_DECODE);

std::int64_t OrOne(std::int64_t value) { return value == 0 ? 1 : value; }

void EncodeWork(const Gemm& g, v1::Kernel& kernel) {
  v1::Gemm& message = *kernel.mutable_gemm();
  message.set_layer(static_cast<v1::Gemm::Layer>(static_cast<int>(g.layer) + 1));
  message.set_batch(g.batch);
  message.set_m(g.m);
  message.set_n(g.n);
  message.set_k(g.k);
}

void EncodeWork(const Conv2d& c, v1::Kernel& kernel) {
  v1::Conv2d& message = *kernel.mutable_conv2d();
  message.set_batch(c.batch);
  message.set_in_channels(c.in_channels);
  message.set_height(c.height);
  message.set_width(c.width);
  message.set_out_channels(c.out_channels);
  message.set_kernel_h(c.kernel_h);
  message.set_kernel_w(c.kernel_w);
  message.set_stride_h(c.stride_h);
  message.set_stride_w(c.stride_w);
  message.set_pad_h(c.pad_h);
  message.set_pad_w(c.pad_w);
  message.set_groups(c.groups);
  message.set_dilation_h(c.dilation_h);
  message.set_dilation_w(c.dilation_w);
  message.set_extra_pad_h(c.extra_pad_h);
  message.set_extra_pad_w(c.extra_pad_w);
}

void EncodeWork(const Attention& a, v1::Kernel& kernel) {
  v1::Attention& message = *kernel.mutable_attention();
  message.set_phase(static_cast<v1::Attention::Phase>(static_cast<int>(a.phase) + 1));
  message.set_batch(a.batch);
  message.set_query_len(a.query_len);
  message.set_kv_len(a.kv_len);
  message.set_heads(a.heads);
  message.set_kv_heads(a.kv_heads);
  message.set_head_dim(a.head_dim);
  message.set_causal(a.causal != 0);
  message.set_kv_dtype(Encode(a.kv_dtype));
}

void EncodeWork(const Moe& m, v1::Kernel& kernel) {
  v1::Moe& message = *kernel.mutable_moe();
  message.set_num_tokens(m.num_tokens);
  message.set_hidden_size(m.hidden_size);
  message.set_inter_size(m.inter_size);
  message.set_top_k(m.top_k);
  message.set_num_experts(m.num_experts);
  message.set_tp(m.tp);
  message.set_ep(m.ep);
  message.set_distribution(m.distribution);
}

void EncodeWork(const Vector& v, v1::Kernel& kernel) {
  v1::Vector& message = *kernel.mutable_vector();
  message.set_op(v.op);
  message.set_rows(v.rows);
  message.set_cols(v.cols);
  message.set_operands(v.operands);
}

void EncodeWork(const Collective& c, v1::Kernel& kernel) {
  v1::Collective& message = *kernel.mutable_collective();
  message.set_op(c.op);
  message.set_backend(c.backend);
  message.set_bytes(c.bytes);
  message.set_ranks(c.ranks);
  if (c.stride != 1) message.set_stride(c.stride);
}

void EncodeWork(const Custom& c, v1::Kernel& kernel) {
  v1::Custom& message = *kernel.mutable_custom();
  message.set_op(c.op);
  message.set_flops(c.flops);
  message.set_bytes(c.bytes);
}

absl::StatusOr<Work> DecodeGemm(const v1::Gemm& message) {
  if (!v1::Gemm::Layer_IsValid(message.layer())) {
    return FieldError("gemm.layer", fmt::format("has the unknown value {}", static_cast<int>(message.layer())));
  }
  const bool unspecified = message.layer() == v1::Gemm::LAYER_UNSPECIFIED;
  return Gemm{.layer = unspecified ? Gemm::Layer::kGemm : static_cast<Gemm::Layer>(message.layer() - 1),
              .batch = OrOne(message.batch()),
              .m = message.m(),
              .n = message.n(),
              .k = message.k()};
}

Work DecodeConv2d(const v1::Conv2d& message) {
  return Conv2d{.batch = message.batch(),
                .in_channels = message.in_channels(),
                .height = message.height(),
                .width = message.width(),
                .out_channels = message.out_channels(),
                .kernel_h = message.kernel_h(),
                .kernel_w = message.kernel_w(),
                .stride_h = OrOne(message.stride_h()),
                .stride_w = OrOne(message.stride_w()),
                .pad_h = message.pad_h(),
                .pad_w = message.pad_w(),
                .groups = OrOne(message.groups()),
                .dilation_h = OrOne(message.dilation_h()),
                .dilation_w = OrOne(message.dilation_w()),
                .extra_pad_h = message.extra_pad_h(),
                .extra_pad_w = message.extra_pad_w()};
}

absl::StatusOr<Work> DecodeAttention(const v1::Attention& message, DType kernel_dtype) {
  if (!v1::Attention::Phase_IsValid(message.phase()) || message.phase() == v1::Attention::PHASE_UNSPECIFIED) {
    return FieldError("attention.phase", "is not set; give PHASE_PREFILL or PHASE_DECODE");
  }
  DType kv_dtype = kernel_dtype;
  if (message.kv_dtype() != v1::DTYPE_UNSPECIFIED) {
    GPUETA_ASSIGN_OR_RETURN(kv_dtype, DecodeDType(message.kv_dtype(), "attention.kv_dtype"));
  }
  return Attention{.phase = static_cast<Attention::Phase>(message.phase() - 1),
                   .batch = message.batch(),
                   .query_len = message.query_len(),
                   .kv_len = message.kv_len(),
                   .heads = message.heads(),
                   .kv_heads = message.kv_heads(),
                   .head_dim = message.head_dim(),
                   .causal = message.causal() ? 1 : 0,
                   .kv_dtype = kv_dtype};
}

Work DecodeMoe(const v1::Moe& message) {
  return Moe{.num_tokens = message.num_tokens(),
             .hidden_size = message.hidden_size(),
             .inter_size = message.inter_size(),
             .top_k = message.top_k(),
             .num_experts = message.num_experts(),
             .tp = OrOne(message.tp()),
             .ep = OrOne(message.ep()),
             .distribution = message.distribution()};
}

absl::StatusOr<Work> DecodeWork(const v1::Kernel& message, DType dtype) {
  switch (message.work_case()) {
    case v1::Kernel::kGemm: return DecodeGemm(message.gemm());
    case v1::Kernel::kConv2D: return DecodeConv2d(message.conv2d());
    case v1::Kernel::kAttention: return DecodeAttention(message.attention(), dtype);
    case v1::Kernel::kMoe: return DecodeMoe(message.moe());
    case v1::Kernel::kVector: {
      const v1::Vector& v = message.vector();
      return Vector{v.op(), v.rows(), v.cols(), OrOne(v.operands())};
    }
    case v1::Kernel::kCollective: {
      const v1::Collective& c = message.collective();
      return Collective{c.op(), c.backend(), c.bytes(), c.ranks(), c.stride() == 0 ? 1 : c.stride()};
    }
    case v1::Kernel::kCustom: {
      const v1::Custom& c = message.custom();
      return Custom{c.op(), c.flops(), c.bytes()};
    }
    case v1::Kernel::WORK_NOT_SET: break;
  }
  return FieldError("work", "is not set; give one of gemm, conv2d, attention, moe, vector, collective and custom");
}

}  // namespace

v1::Kernel Encode(const Kernel& kernel) {
  v1::Kernel message;
  message.set_name(kernel.name);
  message.set_dtype(Encode(kernel.dtype));
  std::visit([&message](const auto& work) { EncodeWork(work, message); }, kernel.work);
  if (const Launch& launch = kernel.launch; launch != Launch{}) {
    v1::Launch& encoded = *message.mutable_launch();
    encoded.set_kernel(launch.kernel);
    encoded.set_grid_x(launch.grid_x);
    encoded.set_grid_y(launch.grid_y);
    encoded.set_grid_z(launch.grid_z);
    encoded.set_block_x(launch.block_x);
  }
  return message;
}

absl::StatusOr<Kernel> DecodeUnvalidated(const v1::Kernel& message) {
  // Names are kept with what was predicted.
  constexpr std::size_t kLongestName = 1024;
  for (const auto& [field, text] : {std::pair("name", &message.name()),
                                    {"launch.kernel", &message.launch().kernel()},
                                    {"vector.op", &message.vector().op()},
                                    {"collective.op", &message.collective().op()},
                                    {"collective.backend", &message.collective().backend()},
                                    {"custom.op", &message.custom().op()},
                                    {"moe.distribution", &message.moe().distribution()}}) {
    if (text->size() > kLongestName)
      return FieldError(field, fmt::format("has {} bytes; at most {} are taken", text->size(), kLongestName));
  }
  Kernel kernel;
  kernel.name = message.name();
  GPUETA_ASSIGN_OR_RETURN(kernel.dtype, DecodeDType(message.dtype(), "dtype"));
  GPUETA_ASSIGN_OR_RETURN(kernel.work, DecodeWork(message, kernel.dtype));
  const v1::Launch& launch = message.launch();
  kernel.launch = {launch.kernel(), launch.grid_x(), launch.grid_y(), launch.grid_z(), launch.block_x()};
  return kernel;
}

absl::StatusOr<Kernel> Decode(const v1::Kernel& message) {
  GPUETA_ASSIGN_OR_RETURN(Kernel kernel, DecodeUnvalidated(message));
  GPUETA_RETURN_IF_ERROR(Validate(kernel));
  return kernel;
}

}  // namespace gpueta::wire
