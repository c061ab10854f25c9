#include "calibration/backends/cuda/cuda_backend.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "calibration/backends/cuda/device/capabilities.h"
#include "calibration/backends/cuda/device/microbenchmarks.h"
#include "calibration/backends/cuda/events.h"
#include "calibration/backends/cuda/prepared_graph.h"
#include "calibration/backends/cuda/prepared_kernel.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Enough to even out single slow calls; few against what a stream's queue holds
// before a launch blocks (1024).
constexpr int kIssuedKernels = 500;

// NVML tells how busy a card was in the last sampling period, of up to a second.
constexpr double kSamplingPeriodUs = 1.2e6;
// A display or a monitoring agent is no user.
constexpr double kIdleShare = 0.03;

// Events are 0.5 us apart at least, and clocks are read around each sample, which
// takes some hundred microseconds.
constexpr TimingPolicy kCudaPolicy = {.warm_up_us = 3'000, .sample_us = 500, .min_time_us = 5'000};

class CudaBackend : public Backend {
 public:
  CudaBackend(CudaParts parts, const CudaOptions& options, StreamHandle stream)
      : parts_(std::move(parts)),
        context_{.device = *parts_.device,
                 .card = parts_.card.get(),
                 .activities = parts_.activities.get(),
                 .time = parts_.time,
                 .options = options,
                 .stream = stream,
                 .memory = OperandMemory(*parts_.device, stream)} {
    if (parts_.collectives == nullptr || parts_.peers.empty()) return;
    collectives_ = std::make_unique<NodeCollectives>(*parts_.collectives, parts_.peers, context_);
  }

  std::string slug() const override { return SlugOf(parts_.device->properties()); }
  Timing timing() const override { return context_.options.timing; }
  TimingPolicy timing_policy() const override { return kCudaPolicy; }
  std::vector<std::string> notes() const override { return parts_.notes; }
  std::vector<std::string> peers() const override {
    std::vector<std::string> names;
    for (const PeerDevice& peer : parts_.peers)
      names.push_back(LabelsOf(peer.device->properties(), {}, {}, false)["uuid"]);
    return names;
  }

  std::map<std::string, std::string> labels() const override {
    LibraryVersions versions;
    for (const auto& library : parts_.libraries) versions[library->name()] = library->version();
    if (collectives_ != nullptr) versions[parts_.collectives->name()] = parts_.collectives->version();
    std::optional<CardInfo> card;
    if (parts_.card != nullptr) {
      if (absl::StatusOr<CardInfo> info = parts_.card->Info(); info.ok()) card = *std::move(info);
    }
    auto labels =
        LabelsOf(parts_.device->properties(), card, versions, std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr);
    if (context_.options.l2 != L2State::kAsInModel) labels["l2"] = Name(context_.options.l2);
    return labels;
  }

  // The data sheet where there is one: what other devices taught is relative to
  // data sheets. Else what is measured.
  absl::StatusOr<DeviceSpec> Describe() override {
    DeviceSpec spec = SpecOf(parts_.device->properties());
    if (spec.fp32_tflops > 0 && spec.mem_bandwidth_gb_s > 0) return spec;
    // What is missing for one of the two, the other may tell.
    const absl::StatusOr<Capabilities> reached = MeasureCapabilities(*this, context_.time.now);
    const absl::StatusOr<Microbenchmarks> micro = RunMicrobenchmarks(context_.device, context_.time);
    if (!reached.ok() && !micro.ok()) return reached.status();
    if (reached.ok()) spec = WithCapabilities(std::move(spec), *reached);
    return micro.ok() ? WithMicrobenchmarks(std::move(spec), *micro) : spec;
  }

  absl::StatusOr<std::map<std::string, double>> MeasureLimits() override {
    GPUETA_ASSIGN_OR_RETURN(const Microbenchmarks measured, RunMicrobenchmarks(context_.device, context_.time));
    return FiguresOf(measured, context_.device.properties().l2_bytes);
  }

  absl::StatusOr<double> MeasureHostIssueUs() override {
    const Kernel smallest{.dtype = DType::kFp32, .work = Vector{.op = "relu", .rows = 1, .cols = 1}};
    GPUETA_ASSIGN_OR_RETURN(OperatorLibrary * library, LibraryFor(smallest));
    GPUETA_ASSIGN_OR_RETURN(const auto operation, library->Prepare(smallest));
    GPUETA_ASSIGN_OR_RETURN(const KernelOperands operands,
                            context_.memory.ForKernel(operation->bytes(), smallest.dtype, false));
    Events events(context_.device);
    GPUETA_RETURN_IF_ERROR(events.Reserve(1));
    double shortest_us = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const double start_us = context_.time.now();
      for (int i = 0; i < kIssuedKernels; ++i) {
        GPUETA_RETURN_IF_ERROR(operation->Enqueue(operands.OfRun(0), context_.stream));
      }
      const double us = (context_.time.now() - start_us) / kIssuedKernels;
      shortest_us = attempt == 0 ? us : std::min(shortest_us, us);
      GPUETA_RETURN_IF_ERROR(context_.device.Record(events[0], context_.stream));
      GPUETA_RETURN_IF_ERROR(Await(context_.device, events[0], "an empty kernel", context_.time));
    }
    return shortest_us;
  }

  absl::StatusOr<bool> UsedByOthers() override {
    std::vector<Card*> cards;
    if (parts_.card != nullptr) cards.push_back(parts_.card.get());
    if (collectives_ != nullptr) {
      for (Card* card : collectives_->Cards()) cards.push_back(card);
    }
    std::erase_if(cards, [](Card* card) { return IsOurs(*card); });
    if (cards.empty()) return false;
    context_.time.pause(kSamplingPeriodUs);
    return std::ranges::any_of(cards, [](Card* card) { return card->State().value_or(CardState{}).busy > kIdleShare; });
  }

  absl::Status Supports(const Kernel& kernel) const override {
    if (kernel.op() != Op::kCollective) return LibraryFor(kernel).status();
    GPUETA_RETURN_IF_ERROR(Validate(kernel));
    if (collectives_ != nullptr) return collectives_->Supports(kernel);
    return absl::UnimplementedError("collectives need NCCL and another GPU of this kind, and to be asked for");
  }

  std::vector<Kernel> Algorithms(const Kernel& kernel) override {
    std::vector<Kernel> kernels;
    const absl::StatusOr<OperatorLibrary*> library = LibraryFor(kernel);
    if (!library.ok()) return kernels;
    const absl::StatusOr<std::vector<std::string>> names = (*library)->Algorithms(kernel);
    if (!names.ok()) return kernels;
    for (const std::string& name : *names) kernels.emplace_back(kernel).launch.kernel = name;
    return kernels;
  }

  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Kernel& kernel) override {
    if (kernel.op() == Op::kCollective) {
      GPUETA_RETURN_IF_ERROR(Supports(kernel));
      return collectives_->Prepare(kernel);
    }
    GPUETA_ASSIGN_OR_RETURN(OperatorLibrary * library, LibraryFor(kernel));
    GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<Operation> operation, library->Prepare(kernel));
    return PrepareCudaKernel(kernel, std::move(operation), library->name(), context_);
  }

  absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareGraph(std::span<const Kernel> kernels) override {
    std::vector<std::unique_ptr<Operation>> operations;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const auto prepare = [&]() -> absl::StatusOr<std::unique_ptr<Operation>> {
        GPUETA_ASSIGN_OR_RETURN(OperatorLibrary * library, LibraryFor(kernels[i]));
        return library->Prepare(kernels[i]);
      };
      absl::StatusOr<std::unique_ptr<Operation>> operation = prepare();
      if (!operation.ok()) {
        return Prefixed(operation.status(), fmt::format("kernel {} ({})", i, gpueta::Describe(kernels[i])));
      }
      operations.push_back(*std::move(operation));
    }
    // All kernels of a model have one dtype, but for a few that do not matter.
    const DType dtype = kernels.empty() ? DType::kFp32 : kernels.front().dtype;
    return PrepareCudaGraph(std::move(operations), dtype, context_);
  }

 private:
  // One context on the card is ours: NVML's process ids are the host's, and in a
  // container ours is another.
  static bool IsOurs(Card& card) {
    const absl::StatusOr<std::vector<CardProcess>> processes = card.Processes();
    return processes.ok() && processes->size() <= 1;
  }

  absl::StatusOr<OperatorLibrary*> LibraryFor(const Kernel& kernel) const {
    GPUETA_RETURN_IF_ERROR(Validate(kernel));
    if (kernel.op() == Op::kCollective) return absl::UnimplementedError("collectives are measured one by one");
    absl::Status why = absl::UnimplementedError("no library of kernels could be opened");
    for (const auto& library : parts_.libraries) {
      why = library->Supports(kernel);
      if (why.ok()) return library.get();
    }
    return why;
  }

  CudaParts parts_;
  CudaContext context_;
  std::unique_ptr<NodeCollectives> collectives_;  // null: none are measured
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(CudaParts parts, const CudaOptions& options) {
  if (options.timing == Timing::kKernel && parts.activities == nullptr) {
    return FailedPrecondition("timing \"kernel\" needs CUPTI's records: use \"graph\" or \"eager\"");
  }
  GPUETA_ASSIGN_OR_RETURN(const StreamHandle stream, parts.device->CreateStream());
  return std::make_unique<CudaBackend>(std::move(parts), options, stream);
}

}  // namespace gpueta
