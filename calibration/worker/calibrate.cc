#include "calibration/worker/calibrate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "calibration/backends/measure.h"
#include "calibration/worker/algorithms.h"
#include "core/base/errors.h"
#include "core/fit/fit.h"
#include "core/measurements/table_of.h"
#include "core/sampling/sampling.h"

namespace gpueta {
namespace {

// The budget is split over kinds by these weights; what is not listed gets 1.
// Vector operators are many, with parameters of their own, and quick to
// measure; those on indices and masks matter little.
double WeightOf(Op op, DType dtype) {
  switch (op) {
    case Op::kConv2d: return 1.2;
    case Op::kVector: return dtype == DType::kFp64 || dtype == DType::kInt8 ? 0.3 : 1.8;
    default: return 1.0;
  }
}

std::vector<Kernel> ChooseKernels(const std::vector<Kernel>& candidates, const std::vector<MeasuredKernel>& workload,
                                  std::size_t budget, Timing timing, std::uint64_t seed) {
  std::map<std::pair<Op, DType>, std::vector<Measurement>> by_kind;
  for (const Kernel& kernel : candidates) {
    Measurement row;
    row.timing = timing;
    row.kernel = kernel;
    by_kind[{kernel.op(), kernel.dtype}].push_back(std::move(row));
  }
  std::vector<Measurement> known;
  known.reserve(workload.size());
  for (const MeasuredKernel& kernel : workload) {
    if (TableOf(kernel.measurement).has_value()) known.push_back(kernel.measurement);
  }
  double total = 0;
  for (const auto& [kind, rows] : by_kind) total += WeightOf(kind.first, kind.second);
  std::vector<Kernel> chosen;
  for (const auto& [kind, rows] : by_kind) {
    const double weight = WeightOf(kind.first, kind.second);
    const auto share = static_cast<std::size_t>(static_cast<double>(budget) * weight / total);
    // Candidates of one op: cannot fail.
    const std::vector<std::size_t> picks = ChooseSpaceFilling(rows, known, share, seed).value();
    for (std::size_t i : picks) chosen.push_back(rows[i].kernel);
  }
  std::mt19937_64 random(seed);
  std::shuffle(chosen.begin(), chosen.end(), random);
  return chosen;
}

// On a second try a latency is kept when it is known this well, disturbed or
// not: a busy machine would otherwise leave nothing.
constexpr double kGoodEnough = 0.05;

// Kernels of a few microseconds need more runs of the model than its total does.
constexpr GraphPolicy kInPlace = {.runs = 40};
// A short kernel among others varies more than alone, and cannot be tried again
// by itself.
constexpr double kGoodEnoughInPlace = 0.15;

// A device that was in its slower state for a part of the time leaves latencies
// of two kinds, and no table describes both: those of the smaller part are left
// out. So does a device that is shared: kernels that are short against the turns
// of others have it to themselves.
constexpr double kMostly = 0.5;

struct DeviceState {
  bool slowed = false;
  bool shared = false;

  bool Has(const TimingResult& timing) const { return timing.slowed == slowed && timing.shared == shared; }
};

// What most were measured in.
DeviceState StateOf(std::span<const MeasuredKernel> results) {
  const auto mostly = [results](bool TimingResult::*state) {
    const auto count = std::ranges::count_if(results, [state](const MeasuredKernel& r) { return r.timing.*state; });
    return static_cast<double>(count) > kMostly * static_cast<double>(results.size());
  };
  return {.slowed = mostly(&TimingResult::slowed), .shared = mostly(&TimingResult::shared)};
}

// A first pass over all kernels, then second tries of what was disturbed or
// taken in the rarer state of the device.
class Campaign {
 public:
  Campaign(Backend& backend, const CalibrationOptions& options, const MicrosecondClock& clock)
      : backend_(backend),
        options_(options),
        timing_(options.timing.value_or(backend.timing_policy())),
        clock_(clock),
        begin_us_(clock()) {}

  // The distinct kernels of a model that runs as a whole, all its runs in one turn:
  // pauses between them would be timed as a cold device.
  absl::StatusOr<std::vector<MeasuredKernel>> RunModel(const std::vector<Kernel>& kernels) {
    Report(0, "a model of the workload");
    if (options_.wait_turn) GPUETA_RETURN_IF_ERROR(options_.wait_turn());
    GPUETA_ASSIGN_OR_RETURN(const MeasuredGraph graph, MeasureGraph(backend_, kernels, kInPlace, clock_));
    std::vector<MeasuredKernel> results = MeanOfOccurrences(backend_, kernels, graph);
    for (MeasuredKernel& result : results) {
      result.timing.disturbed = result.timing.relative_error > kGoodEnoughInPlace;
    }
    return results;
  }

  // How many of the kernels of all calls of Run are still to come, for what is reported.
  void Expect(std::size_t kernels) { expected_ += static_cast<double>(kernels); }

  // `workload` was measured before; the kernels of models are not tried again
  // one by one.
  absl::Status Run(const std::vector<Kernel>& kernels, std::vector<MeasuredKernel> workload, Calibration& out) {
    const std::size_t first = workload.size();
    std::vector<MeasuredKernel> results = std::move(workload);
    std::size_t asked = 0;
    for (std::size_t i = 0; i < kernels.size() && !TimeIsUp(); ++i) {
      Report(begun_++ / expected_, Describe(kernels[i]));
      GPUETA_ASSIGN_OR_RETURN(const std::optional<MeasuredKernel> measured, MeasureOnce(kernels[i], out));
      if (!measured.has_value()) continue;
      results.push_back(*measured);
      asked += i < options_.asked.size() ? 1 : 0;
    }
    // The kernels that matter say which state is to be described.
    const auto deciding = std::span(results).subspan(asked > 0 ? first : 0, asked > 0 ? asked : results.size());
    DeviceState state = StateOf(deciding);
    for (MeasuredKernel& result : std::span(results).subspan(first)) {
      const TimingResult& timing = result.timing;
      // Short kernels stay as they are on a device that is shared.
      if (!timing.disturbed && (state.Has(timing) || (state.shared && !timing.shared))) continue;
      ++out.disturbed;
      if (TimeIsUp()) continue;
      Report(begun_ / expected_, Describe(result.measurement.kernel));
      GPUETA_ASSIGN_OR_RETURN(const std::optional<MeasuredKernel> again, Measure(result.measurement.kernel, out));
      if (again.has_value() && Better(again->timing, result.timing, state)) result = *again;
    }
    state = StateOf(deciding);
    for (const MeasuredKernel& result : results) {
      const bool known = !result.timing.disturbed || result.timing.relative_error <= kGoodEnough;
      if (known && state.Has(result.timing)) {
        out.measurements.push_back(result.measurement);
      } else {
        ++out.given_up;
      }
    }
    out.slowed = state.slowed;
    out.shared = state.shared;
    return absl::OkStatus();
  }

 private:
  static bool Better(const TimingResult& a, const TimingResult& b, const DeviceState& state) {
    if (a.disturbed != b.disturbed) return !a.disturbed;
    if (state.Has(a) != state.Has(b)) return state.Has(a);
    return a.relative_error < b.relative_error;
  }
  absl::StatusOr<std::optional<MeasuredKernel>> Measure(const Kernel& kernel, Calibration& out) {
    if (options_.wait_turn) GPUETA_RETURN_IF_ERROR(options_.wait_turn());
    absl::StatusOr<MeasuredKernel> measured = MeasureKernel(backend_, kernel, timing_, clock_);
    if (measured.ok()) return *std::move(measured);
    if (absl::IsDeadlineExceeded(measured.status())) return measured.status();
    out.skipped.push_back(MessageOf(measured.status()));
    return std::nullopt;
  }
  // Unless an earlier process did, or did not survive it.
  absl::StatusOr<std::optional<MeasuredKernel>> MeasureOnce(const Kernel& kernel, Calibration& out) {
    if (options_.journal == nullptr) return Measure(kernel, out);
    Journal& journal = *options_.journal;
    if (std::optional<MeasuredKernel> known = journal.Find(kernel); known.has_value()) return known;
    if (journal.WasSkipped(kernel) || journal.IsFatal(kernel)) {
      out.skipped.push_back(Describe(kernel) +
                            (journal.IsFatal(kernel) ? ": the worker did not survive it" : ": skipped"));
      return std::nullopt;
    }
    GPUETA_RETURN_IF_ERROR(journal.Begin(kernel));
    GPUETA_ASSIGN_OR_RETURN(std::optional<MeasuredKernel> measured, Measure(kernel, out));
    GPUETA_RETURN_IF_ERROR(measured.has_value() ? journal.End(kernel, *measured) : journal.Skip(kernel));
    return measured;
  }
  double TimeShare() const { return (clock_() - begin_us_) / options_.time_budget_us; }
  bool TimeIsUp() const { return TimeShare() >= 1; }
  void Report(double share, const std::string& what) const {
    if (options_.progress) options_.progress(std::min(std::max(share, TimeShare()), 1.0), what);
  }

  Backend& backend_;
  const CalibrationOptions& options_;
  TimingPolicy timing_;
  const MicrosecondClock& clock_;
  double begin_us_;
  double begun_ = 0;  // kernels
  double expected_ = 0;
};

// What the library could have run instead of some of `chosen`, as far as it was measured
// in the state of the device that the others were measured in.
absl::Status MeasureAlternatives(Campaign& campaign, const std::vector<Kernel>& alternatives, Calibration& out) {
  Calibration others;
  GPUETA_RETURN_IF_ERROR(campaign.Run(alternatives, {}, others));
  out.skipped.insert(out.skipped.end(), others.skipped.begin(), others.skipped.end());
  out.disturbed += others.disturbed;
  out.given_up += others.given_up;
  if (others.slowed == out.slowed && others.shared == out.shared) {
    out.alternatives = std::move(others.measurements);
  } else {
    out.given_up += others.measurements.size();
  }
  return absl::OkStatus();
}

// Without what was asked for by the name of its algorithm.
std::vector<Measurement> ChosenByLibrary(const std::vector<Measurement>& rows, const std::vector<Kernel>& asked) {
  std::set<std::pair<std::uint32_t, std::string>> named;
  for (const Kernel& kernel : asked) {
    if (!kernel.launch.kernel.empty()) named.emplace(HashOf(kernel), kernel.launch.kernel);
  }
  std::vector<Measurement> chosen;
  for (const Measurement& row : rows) {
    if (!named.contains({HashOf(row.kernel), row.kernel.launch.kernel})) chosen.push_back(row);
  }
  return chosen;
}

}  // namespace

absl::StatusOr<Calibration> Calibrate(Backend& backend, const DeviceSpec& spec, const std::vector<Kernel>& candidates,
                                      const CalibrationOptions& options, const MicrosecondClock& clock) {
  Calibration calibration;
  Campaign campaign(backend, options, clock);
  std::vector<MeasuredKernel> workload;
  for (const std::vector<Kernel>& model : options.workload) {
    GPUETA_ASSIGN_OR_RETURN(std::vector<MeasuredKernel> kernels, campaign.RunModel(model));
    workload.insert(workload.end(), kernels.begin(), kernels.end());
  }
  const std::size_t taken = workload.size() + options.asked.size();
  const std::size_t rest = options.budget > taken ? options.budget - taken : 0;
  std::vector<Kernel> chosen = options.asked;
  const std::vector<Kernel> besides = ChooseKernels(candidates, workload, rest, backend.timing(), options.seed);
  chosen.insert(chosen.end(), besides.begin(), besides.end());
  std::vector<Kernel> alternatives;
  if (options.algorithm_shapes > 0) alternatives = AlternativesOf(backend, chosen, options.algorithm_shapes);
  campaign.Expect(chosen.size() + alternatives.size());
  GPUETA_RETURN_IF_ERROR(campaign.Run(chosen, std::move(workload), calibration));
  if (calibration.measurements.empty()) {
    return InvalidArgument("nothing could be measured on {}{}", spec.slug,
                           calibration.skipped.empty() ? "" : ": " + calibration.skipped.front());
  }
  if (!alternatives.empty()) GPUETA_RETURN_IF_ERROR(MeasureAlternatives(campaign, alternatives, calibration));
  GPUETA_ASSIGN_OR_RETURN(calibration.profile,
                          FitProfile(spec, calibration.measurements, {.seed = options.seed, .base = options.base}));
  LearnAlgorithms(ChosenByLibrary(calibration.measurements, options.asked), calibration.alternatives, options.seed,
                  calibration.profile);
  calibration.profile.labels = backend.labels();
  calibration.profile.host_issue_us = backend.MeasureHostIssueUs().value_or(0);
  if (calibration.slowed) calibration.profile.labels["state"] = "slowed";
  if (calibration.shared) calibration.profile.labels["state"] = "shared";
  return calibration;
}

}  // namespace gpueta
