#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
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
  double Uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
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

absl::StatusOr<Kernel> DrawKernel(Op op, DType dtype, Draw& draw) {
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
    case Op::kCustom: return InvalidArgument("no shapes can be generated for {}; give candidates in a file", Name(op));
  }
  return kernel;
}

// Of the shapes for a known device, those moved to where its latency steps.
constexpr double kAtEdges = 0.3;
// Working sets around the L2 in octaves: below a quarter of it all is kept.
constexpr double kL2From = -2, kL2To = 1;
// Sides of the tiles that libraries use most.
constexpr std::array<std::int64_t, 3> kTiles = {64, 128, 256};
constexpr std::int64_t kWaveTile = 128;

// A multiple of `unit` next to `value`, or one past it.
std::int64_t BesideMultiple(Draw& draw, std::int64_t value, std::int64_t unit) {
  return std::max<std::int64_t>((value + unit / 2) / unit, 1) * unit + (draw.Chance(0.5) ? 1 : 0);
}

// The most units whose blocks (`each` a unit) still fit in the whole waves next
// to `units`, or one unit more.
std::int64_t BesideWave(Draw& draw, std::int64_t units, std::int64_t each, double sms) {
  const double waves = std::max(1.0, std::round(static_cast<double>(units * each) / sms));
  const auto most = static_cast<std::int64_t>(waves * sms) / each;
  return std::max<std::int64_t>(most, 1) + (draw.Chance(0.5) ? 1 : 0);
}

double NearL2(Draw& draw, const Machine<double>& machine) {
  return machine.l2 * std::exp2(draw.Uniform(kL2From, kL2To));
}

void MoveToEdge(Draw& draw, const Machine<double>& machine, Gemm& gemm) {
  // Of products of activations other dims follow m.
  switch (gemm.layer == Gemm::Layer::kBmm ? 0 : draw.Below(3)) {
    case 0: gemm.m = BesideMultiple(draw, gemm.m, draw.OneOf(kTiles)); break;
    case 1: {
      const std::int64_t each = gemm.batch * ((gemm.n + kWaveTile - 1) / kWaveTile);
      const std::int64_t tiles = BesideWave(draw, (gemm.m + kWaveTile - 1) / kWaveTile, each, machine.sms);
      gemm.m = tiles * kWaveTile;
      break;
    }
    default: {
      const auto n = static_cast<double>(gemm.n), k = static_cast<double>(gemm.k);
      const double left = NearL2(draw, machine) / static_cast<double>(gemm.batch) - n * k * machine.w_bytes;
      const double m = left / (k * machine.a_bytes + n * machine.out_bytes);
      if (m >= 1) gemm.m = static_cast<std::int64_t>(m);
    }
  }
}

void MoveToEdge(Draw& draw, const Machine<double>& machine, Attention& attention) {
  const bool decode = attention.phase == Attention::Phase::kDecode;
  switch (draw.Below(3)) {
    case 0: attention.kv_len = BesideMultiple(draw, attention.kv_len, kWaveTile); break;
    case 1: {
      const std::int64_t each =
          decode ? attention.kv_heads : attention.heads * ((attention.query_len + kWaveTile - 1) / kWaveTile);
      attention.batch = BesideWave(draw, attention.batch, each, machine.sms);
      break;
    }
    default: {
      const double of_token =
          2.0 * machine.kv_bytes * static_cast<double>(attention.batch * attention.kv_heads * attention.head_dim);
      attention.kv_len = std::max<std::int64_t>(1, static_cast<std::int64_t>(NearL2(draw, machine) / of_token));
    }
  }
  if (!decode) attention.query_len = attention.kv_len;
}

void MoveToEdge(Draw& draw, const DeviceSpec& spec, Kernel& kernel) {
  const Machine<double> machine = MachineOf(spec, KeyOf(kernel, Timing::kKernel));
  if (auto* gemm = std::get_if<Gemm>(&kernel.work)) MoveToEdge(draw, machine, *gemm);
  if (auto* attention = std::get_if<Attention>(&kernel.work)) MoveToEdge(draw, machine, *attention);
}

// Whether a drawn product is of the line's kind: of activations (bmm) or with
// weights, which is meant where dims are fixed and nothing is said.
bool IsOfKind(const Line& line, const Kernel& kernel) {
  const auto* gemm = std::get_if<Gemm>(&kernel.work);
  const bool fixes = std::ranges::any_of(line.dims, [](const auto& dim) { return dim.has_value(); });
  if (gemm == nullptr || (!fixes && !line.layer.has_value())) return true;
  const bool bmm = line.layer.value_or(Gemm::Layer::kLinear) == Gemm::Layer::kBmm;
  return bmm == (gemm->layer == Gemm::Layer::kBmm);
}

// Gives the kernel what the line fixes.
void PutOn(const Line& line, Kernel& kernel) {
  if (auto* vector = std::get_if<Vector>(&kernel.work)) {
    if (!line.label.empty()) vector->op = line.label;
    // As many elements as were drawn, whatever the width.
    const auto cols = line.dims[static_cast<std::size_t>(*FindDim(Op::kVector, "cols"))];
    if (cols.has_value()) vector->rows = std::max<std::int64_t>(1, vector->rows * vector->cols / *cols);
  }
  if (auto* gemm = std::get_if<Gemm>(&kernel.work)) gemm->layer = line.layer.value_or(gemm->layer);
  if (auto* attention = std::get_if<Attention>(&kernel.work);
      attention != nullptr && line.phase.has_value() && attention->phase != *line.phase) {
    const bool decode = *line.phase == Attention::Phase::kDecode;
    attention->phase = *line.phase;
    attention->query_len = decode ? 1 : attention->kv_len;
    attention->causal = decode ? 0 : 1;
  }
  const int dims = DimNamesOf(line.op).size;
  for (int d = 0; d < dims; ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (line.dims[at].has_value()) SetDim(kernel, d, *line.dims[at]);
    if (line.same_as[at].has_value()) SetDim(kernel, d, GetDim(kernel, *line.same_as[at]));
  }
}

// Lines may contradict the rest of what is drawn; this many attempts a kernel
// show that nothing fits.
constexpr std::size_t kAttempts = 1000;

}  // namespace

absl::StatusOr<std::vector<Kernel>> GenerateShapes(Op op, DType dtype, std::size_t count, std::uint64_t seed,
                                                   const DeviceSpec* spec) {
  const Line everything{.op = op};
  return GenerateShapesOn(std::span(&everything, 1), dtype, count, seed, spec);
}

absl::StatusOr<std::vector<Kernel>> GenerateShapesOn(std::span<const Line> lines, DType dtype, std::size_t count,
                                                     std::uint64_t seed, const DeviceSpec* spec) {
  Draw draw(seed);
  std::vector<Kernel> kernels;
  std::size_t failed = 0;
  while (kernels.size() < count) {
    const std::size_t at = kernels.size() % lines.size();
    const Line& line = lines[at];
    GPUETA_ASSIGN_OR_RETURN(Kernel kernel, DrawKernel(line.op, line.dtype.value_or(dtype), draw));
    if (!IsOfKind(line, kernel)) continue;
    PutOn(line, kernel);
    if (spec != nullptr && draw.Chance(kAtEdges)) {
      MoveToEdge(draw, *spec, kernel);
      PutOn(line, kernel);
    }
    if (Validate(kernel).ok()) {
      kernels.push_back(std::move(kernel));
      failed = 0;
    } else if (++failed > kAttempts) {
      return InvalidArgument("line {} of {}: no shape on it is valid, e.g. {}", at + 1, lines.size(), Describe(kernel));
    }
  }
  return kernels;
}

}  // namespace gpueta
