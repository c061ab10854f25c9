#include "server/validation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"
#include "core/profile/ladder.h"

namespace gpueta {
namespace {

// Shapes a table is tried with, and at least so many for each of its labels.
constexpr std::size_t kProbesPerTable = 256;
constexpr std::size_t kProbesPerLabel = 8;
// Draws for one probe until the dims fit together.
constexpr int kDraws = 20;

// A kernel of the table with this label; dims as yet unset.
Kernel KernelOf(const TableKey& key, std::string_view label) {
  Kernel kernel{.dtype = key.dtype};
  const std::string_view stem = label.substr(0, label.find('/'));
  const bool any = label == "*";
  switch (key.op) {
    case Op::kGemm: kernel.work = Gemm{.layer = ParseGemmLayer(label).value_or(Gemm::Layer::kGemm)}; break;
    case Op::kConv2d: kernel.work = Conv2d{}; break;
    case Op::kAttention:
      kernel.work = Attention{.phase = key.phase, .kv_dtype = key.kv_dtype};
      if (!any) kernel.launch.kernel = label;
      break;
    case Op::kMoe: kernel.work = Moe{.distribution = any ? "balanced" : std::string(label)}; break;
    case Op::kVector: kernel.work = Vector{.op = any ? "unknown" : std::string(stem)}; break;
    case Op::kCollective:
      kernel.work = Collective{.op = any ? "all_reduce" : std::string(stem), .backend = key.backend};
      break;
    case Op::kCustom: kernel.work = Custom{.op = any ? "unknown" : std::string(label)}; break;
  }
  return kernel;
}

// The number behind the slash of "add/2" and "all_reduce/8".
std::optional<std::int64_t> NumberIn(std::string_view label) {
  const std::size_t slash = label.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(label.data() + slash + 1, label.data() + label.size(), number);
  return error == std::errc() && end == label.data() + label.size() && number >= 1 ? std::optional(number)
                                                                                   : std::nullopt;
}

using Random = std::mt19937_64;

// Spread evenly in ln between the hull's ends and kProbeBeyondHull beyond;
// evenly itself where the hull reaches down to 0.
std::int64_t Draw(double low, double high, Random& random) {
  if (low >= high) return std::llround(low);
  if (low < 1) return std::llround(std::uniform_real_distribution(low, high)(random));
  std::uniform_real_distribution ln(std::log(low / kProbeBeyondHull), std::log(high * kProbeBeyondHull));
  return std::max<std::int64_t>(1, std::llround(std::exp(ln(random))));
}

// Moves dims so that they satisfy what Validate asks between them.
void Reconcile(Gemm&, Random&) {}
void Reconcile(Vector&, Random&) {}
void Reconcile(Collective& c, Random&) { c.ranks = std::max<std::int64_t>(c.ranks, 2); }
void Reconcile(Custom& c, Random&) { c.bytes = std::max<std::int64_t>(c.bytes, 1); }

void Reconcile(Conv2d& c, Random& random) {
  switch (c.groups == 1 ? 0 : random() % 3) {
    case 0: c.groups = 1; break;                               // dense
    case 1: c.groups = c.out_channels = c.in_channels; break;  // depthwise
    default:                                                   // grouped
      c.in_channels = (c.in_channels + c.groups - 1) / c.groups * c.groups;
      c.out_channels = (c.out_channels + c.groups - 1) / c.groups * c.groups;
  }
  c.pad_h = std::min(c.pad_h, c.kernel_h / 2);
  c.pad_w = std::min(c.pad_w, c.kernel_w / 2);
  c.extra_pad_h = c.extra_pad_w = 0;
}

void Reconcile(Attention& a, Random&) {
  if (a.phase == Attention::Phase::kDecode) a.query_len = 1;
  a.causal = a.causal > 0 ? 1 : 0;
  a.kv_len = std::max(a.kv_len, a.query_len);  // the keys of the queries and of a cached prefix
  a.heads = std::max<std::int64_t>(1, a.heads / a.kv_heads) * a.kv_heads;
}

void Reconcile(Moe& m, Random&) {
  m.num_experts = std::max<std::int64_t>(1, m.num_experts / m.ep) * m.ep;
  m.inter_size = std::max<std::int64_t>(1, m.inter_size / m.tp) * m.tp;
  m.top_k = std::min(m.top_k, m.num_experts);
}

std::optional<Kernel> DrawProbe(const Table& table, std::string_view label, Random& random) {
  const Op op = table.key.op;
  for (int draw = 0; draw < kDraws; ++draw) {
    Kernel kernel = KernelOf(table.key, label);
    for (int d = 0; d < DimNamesOf(op).size; ++d) {
      const auto i = static_cast<std::size_t>(d);
      SetDim(kernel, d, Draw(table.dim_min[i], table.dim_max[i], random));
    }
    std::visit([&random](auto& work) { Reconcile(work, random); }, kernel.work);
    if (const auto number = NumberIn(label); number.has_value()) {
      if (op == Op::kVector) std::get<Vector>(kernel.work).operands = *number;
      if (op == Op::kCollective) std::get<Collective>(kernel.work).ranks = std::max<std::int64_t>(*number, 2);
    }
    if (Validate(kernel).ok()) return kernel;
  }
  return std::nullopt;  // the hull leaves hardly any legal shape
}

// The least time the device can take, in µs; 0 where nothing is known.
struct Floor {
  double us = 0;
  std::string why;
};
Floor FloorOf(const Kernel& kernel, const Machine<double>& machine, double tolerance) {
  if (kernel.op() == Op::kCollective) return {};  // bound by links, which data sheets do not cover
  const Counts counts = CountsOf(kernel);
  const double faster = kernel.op() == Op::kConv2d ? kConvolutionSavings : tolerance;
  const double compute_us = static_cast<double>(counts.flops.value()) / (faster * machine.peak);
  const auto bytes = static_cast<double>(counts.bytes().value());
  // What the cache may still hold need not come from DRAM. The bytes of a MoE
  // are an expectation over which experts are active: no bound.
  const bool from_dram = bytes >= 2 * machine.l2 && kernel.op() != Op::kMoe;
  const double memory_us = from_dram ? (bytes - machine.l2) / (tolerance * machine.bandwidth) : 0;
  if (compute_us >= memory_us) {
    return {compute_us, fmt::format("its {:.4g} operations take that at {} times {:.4g} TFLOPS",
                                    static_cast<double>(counts.flops.value()), faster, machine.peak / 1e6)};
  }
  return {memory_us, fmt::format("its {:.4g} bytes, less the cache, take that at {} times {:.4g} GB/s", bytes,
                                 tolerance, machine.bandwidth / 1e3)};
}

absl::Status CheckQuantiles(const Kernel& kernel, const Quantiles& q) {
  if (!(std::isfinite(q.p99) && q.p50 > 0)) {
    return FailedPrecondition("{} gives p50 {} and p99 {}; they must be finite and above 0", Describe(kernel), q.p50,
                              q.p99);
  }
  if (!(q.p50 <= q.p90 && q.p90 <= q.p99)) {
    return FailedPrecondition("{} gives p50 {}, p90 {}, p99 {}; they must not decrease", Describe(kernel), q.p50, q.p90,
                              q.p99);
  }
  return absl::OkStatus();
}

// What the probes of a table say about physics.
class PhysicsCheck {
 public:
  PhysicsCheck(const Machine<double>& machine, double tolerance) : machine_(&machine), tolerance_(tolerance) {}

  void Add(const Kernel& kernel, double p50_us) {
    const Floor floor = FloorOf(kernel, *machine_, tolerance_);
    const double excess = floor.us / p50_us;  // above 1: faster than possible
    if (excess > kBinding) ++bound_;
    if (excess > 1) ++impossible_;
    if (excess <= worst_) return;
    worst_ = excess;
    example_ = fmt::format("{} gives {:.4g} us, at least {:.4g} us are needed: {}", Describe(kernel), p50_us, floor.us,
                           floor.why);
  }

  absl::Status Verdict() const {
    const bool too_often = impossible_ >= kFewProbes && impossible_ > kImpossibleShare * bound_;
    if (!too_often && worst_ <= kImpossibleFactor) return absl::OkStatus();
    return FailedPrecondition(
        "{} of {} estimates that the device limits are faster than possible, e.g. {}; check units, device and settings",
        impossible_, bound_, example_);
  }

 private:
  // The device limits a kernel that takes less than twice what it needs.
  static constexpr double kBinding = 0.5;
  // Fewer are an accident of the draw.
  static constexpr int kFewProbes = 4;

  const Machine<double>* machine_;
  double tolerance_;
  int bound_ = 0;
  int impossible_ = 0;
  double worst_ = 1;
  std::string example_;
};

absl::Status ProbeTable(const Predictor& predictor, const Table& table, const Machine<double>& machine, bool physics) {
  Random random(LabelHash(Describe(table.key)));  // a fixed sequence for each table
  const std::size_t labels = table.variants.size();
  const std::size_t probes = std::max(kProbesPerTable, kProbesPerLabel * labels);
  EstimateOptions options;
  options.timing = table.key.timing;
  PhysicsCheck check(machine, IsCpu(predictor.spec()) ? kMeasuredPeakTolerance : kPeakTolerance);
  for (std::size_t i = 0; i < probes; ++i) {
    const std::optional<Kernel> kernel = DrawProbe(table, table.variants[i % labels].label, random);
    if (!kernel.has_value()) continue;
    GPUETA_ASSIGN_OR_RETURN(const Estimate estimate, predictor.EstimateKernel(*kernel, options));
    GPUETA_RETURN_IF_ERROR(CheckQuantiles(*kernel, estimate.latency_us));
    check.Add(*kernel, estimate.latency_us.p50);
  }
  return physics ? check.Verdict() : absl::OkStatus();
}

// Steps at either end of what was measured are not faster than their FLOPs allow.
absl::Status CheckEndToEnd(const EndToEnd& line, const DeviceSpec& judge) {
  const double peak = MachineOf(judge, {.op = Op::kGemm, .dtype = line.dtype}).peak;
  for (const double flops : {line.min_flops, line.max_flops}) {
    const double us = line.slope * flops + line.constant_us;
    const double least_us = flops / (kConvolutionSavings * peak);
    if (us >= least_us) continue;
    return FailedPrecondition(
        "{:.4g} FLOPs give {:.4g} us, at least {:.4g} us are needed at {} times {:.4g} TFLOPS; check units and device",
        flops, us, least_us, kConvolutionSavings, peak / 1e6);
  }
  return absl::OkStatus();
}

bool SameParameters(const Table& a, const Table& b) {
  return a.residual == b.residual &&
         std::equal(a.variants.begin(), a.variants.end(), b.variants.begin(), b.variants.end(),
                    [](const Variant& x, const Variant& y) { return x.label == y.label && x.theta == y.theta; });
}

// All tables that both have are the same, and there is one; of profiles without
// such tables the same of their lines of whole steps.
bool RepeatsParameters(const Profile& a, const Profile& b) {
  bool shared = false;
  for (const Table& table : a.tables) {
    const Table* other = b.Find(table.key);
    if (other == nullptr) continue;
    if (!SameParameters(table, *other)) return false;
    shared = true;
  }
  if (shared) return true;
  for (const EndToEnd& line : a.end_to_end) {
    const EndToEnd* other = FindEndToEnd(b.end_to_end, {.dtype = line.dtype, .training = line.training});
    if (other == nullptr) continue;
    if (line.slope != other->slope || line.constant_us != other->constant_us) return false;
    shared = true;
  }
  return shared;
}

}  // namespace

absl::Status ValidateProfile(const LoadedProfile& loaded, std::string_view device,
                             std::span<const Profile* const> others, const Catalogue& catalogue) {
  const Profile& profile = loaded.profile;
  const std::string slug = catalogue.CanonicalSlug(profile.device);
  if (slug != catalogue.CanonicalSlug(device)) {
    return FieldError("header.parent", fmt::format("names {}, but the profile is of {}", device, profile.device));
  }
  if (profile.tables.empty() && profile.whole_model.empty() && profile.end_to_end.empty()) {
    return FieldError(
        "tables",
        "is empty, and so are whole_model and end_to_end; a profile needs measurements of kernels or times "
        "of whole models");
  }
  const CatalogueEntry* known = catalogue.Find(slug);
  const bool has_spec = profile.spec.mem_bandwidth_gb_s > 0 && profile.spec.fp32_tflops > 0;
  if (known == nullptr && !has_spec && !profile.transfer) {
    return FieldError(
        "spec",
        fmt::format("is missing, and {} is not in the catalogue; give at least mem_bandwidth_gb_s and fp32_tflops",
                    profile.device));
  }
  for (const Profile* other : others) {
    if (profile.transfer || other->transfer || catalogue.CanonicalSlug(other->device) == slug) continue;
    if (RepeatsParameters(profile, *other)) {
      return FailedPrecondition(
          "the profile of {} repeats the parameters of the profile of {}; fit it to measurements of {}", profile.device,
          other->device, profile.device);
    }
  }

  // A pooled profile is of no one device: only its intervals are checked, on
  // the spec it carries.
  const DeviceSpec& spec = known != nullptr && !has_spec ? known->spec : profile.spec;
  const auto compiled = std::make_shared<const CompiledProfile>(loaded);
  const Predictor predictor(spec, compiled, nullptr);
  // The catalogue's word is taken over the profile's own on what is possible.
  const DeviceSpec& judge = known != nullptr ? known->spec : spec;
  for (const Table& table : compiled->loaded().profile.tables) {
    const Machine<double> machine = MachineOf(judge, table.key);
    const absl::Status status = ProbeTable(predictor, table, machine, !profile.transfer);
    if (!status.ok()) return FailedPrecondition("table {}: {}", Describe(table.key), MessageOf(status));
  }
  for (const EndToEnd& line : profile.end_to_end) {
    const absl::Status status = profile.transfer ? absl::OkStatus() : CheckEndToEnd(line, judge);
    if (!status.ok()) return FailedPrecondition("end-to-end, {}: {}", Describe(line), MessageOf(status));
  }
  return absl::OkStatus();
}

}  // namespace gpueta
