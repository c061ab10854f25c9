#include <algorithm>
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
  std::size_t Below(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }

 private:
  std::mt19937_64 random_;
};

// Half of the dims are values that models really have, the other half fill the
// space between them.
constexpr double kCommon = 0.5;
constexpr std::array<std::int64_t, 10> kHiddenSizes = {384, 512, 768, 1024, 1280, 2048, 3072, 4096, 5120, 8192};
constexpr std::array<std::int64_t, 12> kChannels = {16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048};
constexpr std::array<std::int64_t, 12> kWidths = {7, 14, 28, 56, 64, 112, 128, 384, 768, 1024, 3072, 4096};
constexpr std::array<std::int64_t, 6> kImageSizes = {7, 14, 28, 56, 112, 224};

std::int64_t Hidden(Draw& draw) {
  return draw.Chance(kCommon) ? draw.OneOf(kHiddenSizes) : draw.LogUniform(64, 16384, 64);
}
std::int64_t Channels(Draw& draw) {
  return draw.Chance(kCommon) ? draw.OneOf(kChannels) : draw.LogUniform(16, 2048, 8);
}

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
  gemm.n = Hidden(draw);
  gemm.k = Hidden(draw);
  return gemm;
}

Conv2d DrawConv(Draw& draw) {
  Conv2d conv;
  conv.batch = draw.LogUniform(1, 16);
  conv.height = conv.width = draw.Chance(kCommon) ? draw.OneOf(kImageSizes) : draw.LogUniform(7, 224);
  conv.in_channels = draw.Chance(0.06) ? 3 : Channels(draw);
  conv.out_channels = Channels(draw);
  conv.kernel_h = conv.kernel_w = draw.OneOf<7>({1, 1, 1, 3, 3, 5, 7});
  conv.stride_h = conv.stride_w = draw.OneOf<4>({1, 1, 1, 2});
  conv.pad_h = conv.pad_w = conv.kernel_h / 2;
  if (conv.kernel_h > 1 && draw.Chance(0.25)) {  // depthwise, as mobile nets have
    conv.out_channels = conv.groups = conv.in_channels;
  } else if (conv.kernel_h > 1 && draw.Chance(0.05) && conv.in_channels % 8 == 0) {
    conv.groups = 8;
    conv.out_channels = conv.in_channels;
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
  // What graphs are made of, the frequent ones more often.
  static constexpr std::array kOps = {"add",    "add",       "add",     "mul",       "mul",  "relu", "relu",
                                      "copy",   "copy",      "softmax", "layernorm", "gelu", "tanh", "sigmoid",
                                      "reduce", "hardswish", "pool",    "embedding", "div",  "pow",  "sqrt",
                                      "erf",    "sub",       "clip",    "cast",      "where"};
  Vector vector;
  vector.op = kOps[draw.Below(kOps.size())];
  // Activations of common models have a thousand to some million elements.
  vector.cols = draw.Chance(kCommon) ? draw.OneOf(kWidths) : draw.LogUniform(7, 8192);
  vector.rows = std::max<std::int64_t>(1, draw.LogUniform(1e3, 8e6) / vector.cols);
  const bool binary =
      vector.op == "add" || vector.op == "mul" || vector.op == "div" || vector.op == "pow" || vector.op == "sub";
  vector.operands = binary && draw.Chance(0.6) ? 2 : vector.op == "pool" && draw.Chance(0.7) ? 4 : 1;
  return vector;
}

// What graphs do with indices (8 bytes: fp64) and masks (1 byte: int8): few
// elements.
Vector DrawBookkeeping(Draw& draw) {
  static constexpr std::array kOps = {"add", "mul", "compare", "logical", "cast", "copy"};
  Vector vector;
  vector.op = kOps[draw.Below(kOps.size())];
  vector.cols = draw.LogUniform(1, 1024);
  vector.rows = std::max<std::int64_t>(1, draw.LogUniform(1, 1e5) / vector.cols);
  vector.operands = vector.op == "cast" || vector.op == "copy" || draw.Chance(0.5) ? 1 : 2;
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
      case Op::kVector:
        kernel.work = dtype == DType::kFp64 || dtype == DType::kInt8 ? DrawBookkeeping(draw) : DrawVector(draw);
        break;
      case Op::kCollective:
      case Op::kCustom:
        return InvalidArgument("no shapes can be generated for {}; give candidates in a file", Name(op));
    }
    if (Validate(kernel).ok()) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace gpueta
