#include <array>
#include <cmath>
#include <random>

#include "core/base/errors.h"
#include "core/sampling/sampling.h"

namespace gpueta {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  // Log-uniform in [low, high], rounded to a multiple of `step`.
  std::int64_t LogUniform(double low, double high, std::int64_t step = 1) {
    std::uniform_real_distribution<double> uniform(std::log(low), std::log(high));
    const auto steps = static_cast<std::int64_t>(std::round(std::exp(uniform(random_)) / static_cast<double>(step)));
    return std::max<std::int64_t>(steps, 1) * step;
  }
  template <std::size_t n>
  std::int64_t OneOf(const std::array<std::int64_t, n>& values) {
    return values[std::uniform_int_distribution<std::size_t>(0, n - 1)(random_)];
  }
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }

 private:
  std::mt19937_64 random_;
};

// Hidden sizes of models are multiples of 64; tokens are anything.
Gemm DrawGemm(Draw& draw) {
  Gemm gemm;
  if (draw.Chance(0.25)) {  // attention-like products of activations
    gemm.layer = Gemm::Layer::kBmm;
    gemm.batch = draw.LogUniform(4, 256);
    gemm.m = draw.LogUniform(16, 1024);
    const std::int64_t head = draw.OneOf<3>({32, 64, 128});
    const bool scores = draw.Chance(0.5);
    gemm.k = scores ? head : gemm.m;
    gemm.n = scores ? gemm.m : head;
    return gemm;
  }
  gemm.layer = Gemm::Layer::kLinear;
  gemm.m = draw.LogUniform(1, 8192);
  gemm.n = draw.LogUniform(64, 16384, 64);
  gemm.k = draw.LogUniform(64, 16384, 64);
  return gemm;
}

Conv2d DrawConv(Draw& draw) {
  Conv2d conv;
  conv.batch = draw.LogUniform(1, 32);
  conv.height = conv.width = draw.LogUniform(7, 224);
  conv.in_channels = draw.Chance(0.08) ? 3 : draw.LogUniform(16, 1024, 8);
  conv.out_channels = draw.LogUniform(16, 1024, 8);
  conv.kernel_h = conv.kernel_w = draw.OneOf<6>({1, 1, 3, 3, 5, 7});
  conv.stride_h = conv.stride_w = draw.OneOf<3>({1, 1, 2});
  conv.pad_h = conv.pad_w = conv.kernel_h / 2;
  if (conv.kernel_h > 1 && draw.Chance(0.2)) {  // depthwise
    conv.out_channels = conv.groups = conv.in_channels;
  }
  return conv;
}

Attention DrawAttention(Draw& draw) {
  Attention attention;
  attention.batch = draw.LogUniform(1, 128);
  attention.kv_heads = draw.OneOf<5>({1, 2, 4, 8, 32});
  attention.heads = attention.kv_heads * draw.OneOf<4>({1, 2, 4, 8});
  attention.head_dim = draw.OneOf<3>({64, 128, 256});
  attention.phase = draw.Chance(0.5) ? Attention::Phase::kDecode : Attention::Phase::kPrefill;
  attention.kv_len = draw.LogUniform(16, 16384);
  attention.query_len = attention.phase == Attention::Phase::kDecode ? 1 : attention.kv_len;
  attention.causal = attention.phase == Attention::Phase::kPrefill ? 1 : 0;
  return attention;
}

Moe DrawMoe(Draw& draw) {
  Moe moe;
  moe.num_tokens = draw.LogUniform(1, 8192);
  moe.hidden_size = draw.LogUniform(1024, 8192, 256);
  moe.inter_size = draw.LogUniform(512, 14336, 256);
  moe.num_experts = draw.OneOf<4>({8, 16, 64, 128});
  moe.top_k = draw.OneOf<4>({1, 2, 4, 8});
  moe.distribution = "balanced";
  return moe;
}

Vector DrawVector(Draw& draw) {
  static constexpr std::array kOps = {"add", "mul", "relu", "gelu", "tanh", "softmax", "layernorm", "copy", "div", "pow"};
  Vector vector;
  vector.op = kOps[static_cast<std::size_t>(draw.LogUniform(1, 1e6) % static_cast<std::int64_t>(kOps.size()))];
  vector.rows = draw.LogUniform(1, 65536);
  vector.cols = draw.LogUniform(16, 16384);
  const bool binary = vector.op == "add" || vector.op == "mul" || vector.op == "div" || vector.op == "pow";
  vector.operands = binary && draw.Chance(0.5) ? 2 : 1;
  return vector;
}

}  // namespace

absl::StatusOr<std::vector<Kernel>> GenerateShapes(Op op, DType dtype, std::size_t count, std::uint64_t seed) {
  Draw draw(seed);
  std::vector<Kernel> kernels;
  while (kernels.size() < count) {
    Kernel kernel;
    kernel.dtype = dtype;
    switch (op) {
      case Op::kGemm: kernel.work = DrawGemm(draw); break;
      case Op::kConv2d: kernel.work = DrawConv(draw); break;
      case Op::kAttention: {
        Attention attention = DrawAttention(draw);
        attention.kv_dtype = dtype;
        kernel.work = attention;
        break;
      }
      case Op::kMoe: kernel.work = DrawMoe(draw); break;
      case Op::kVector: kernel.work = DrawVector(draw); break;
      case Op::kCollective:
      case Op::kCustom: return InvalidArgument("no shapes can be generated for {}; give candidates in a file", Name(op));
    }
    if (Validate(kernel).ok()) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace gpueta
