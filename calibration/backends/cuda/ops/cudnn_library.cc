#include "calibration/backends/cuda/ops/cudnn_library.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibration/backends/cuda/ops/cudnn/descriptor.h"
#include "calibration/backends/cuda/ops/cudnn/engine_name.h"
#include "calibration/backends/cuda/ops/cudnn/graph.h"
#include "core/base/errors.h"

namespace gpueta {
namespace cudnn {
namespace {

constexpr std::int64_t kWorkspaceBytes = std::int64_t{256} << 20;

// An engine with its knobs, by the numbers that cuDNN gives them.
std::string EngineOf(const Descriptor& config) {
  constexpr std::int64_t kMostKnobs = 64;
  auto engine = config.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (!engine.ok() || engine->empty()) return "";
  std::string name =
      fmt::format("eng{}", engine->front().Get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64));
  const auto knobs =
      config.GetDescriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, kMostKnobs);
  if (!knobs.ok()) return name;
  for (const Descriptor& knob : *knobs) {
    name += fmt::format(
        "_k{}={}",
        static_cast<int>(knob.Get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE)),
        knob.Get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64));
  }
  return name;
}

// Rounds fp32 operands to TF32 or less.
bool RoundsInputs(const Descriptor& config) {
  constexpr std::int64_t kMostNotes = 32;
  const auto engine = config.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (!engine.ok() || engine->empty()) return false;
  const auto notes = engine->front().GetAll<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                                         CUDNN_TYPE_NUMERICAL_NOTE, kMostNotes);
  return std::ranges::find(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) != notes.end() ||
         std::ranges::find(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes.end();
}

// A graph by one of its engines.
class Planned : public Operation {
 public:
  Planned(CudaDevice& device, const Api& api, cudnnHandle_t handle, std::string name, std::unique_ptr<Graph> graph,
          Descriptor config, Descriptor plan)
      : device_(device),
        api_(api),
        handle_(handle),
        name_(std::move(name)),
        graph_(std::move(graph)),
        config_(std::move(config)),
        plan_(std::move(plan)),
        bytes_(graph_->bytes()) {
    constexpr std::size_t kPlacement = 256;
    const auto plan_bytes =
        static_cast<std::size_t>(plan_.Get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64));
    scratch_offset_ = (plan_bytes + kPlacement - 1) / kPlacement * kPlacement;
    bytes_.workspace += scratch_offset_;
  }

  const OperandBytes& bytes() const override { return bytes_; }
  Launch launch() const override { return {.kernel = name_}; }  // its grid is known once it is recorded

  absl::Status Enqueue(const Operands& operands, StreamHandle stream) override {
    GPUETA_CUDNN(api_, cudnnSetStream, handle_, static_cast<cudaStream_t>(device_.NativeStream(stream)));
    GPUETA_ASSIGN_OR_RETURN(Descriptor * pack, PackOf(operands));
    return Prefixed(api_.StatusOf(api_.cudnnBackendExecute(handle_, plan_.get(), pack->get()), "cudnnBackendExecute"),
                    name_);
  }

 private:
  // Packs are made once for each copy of the weights: making one takes the host longer
  // than a launch.
  absl::StatusOr<Descriptor*> PackOf(const Operands& operands) {
    if (const auto known = packs_.find(operands.weights); known != packs_.end()) return &known->second;
    std::vector<std::int64_t> ids;
    std::vector<void*> addresses;
    for (const auto& [id, address] : graph_->AddressesIn(operands, scratch_offset_)) {
      ids.push_back(id);
      addresses.push_back(address);
    }
    GPUETA_ASSIGN_OR_RETURN(Descriptor pack, Descriptor::Create(api_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
    GPUETA_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids));
    GPUETA_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses));
    GPUETA_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                    std::vector{reinterpret_cast<void*>(operands.workspace)}));
    GPUETA_RETURN_IF_ERROR(pack.Finalize());
    return &packs_.emplace(operands.weights, std::move(pack)).first->second;
  }

  CudaDevice& device_;
  const Api& api_;
  cudnnHandle_t handle_;
  std::string name_;
  std::unique_ptr<Graph> graph_;
  Descriptor config_;
  Descriptor plan_;
  OperandBytes bytes_;
  std::size_t scratch_offset_ = 0;
  std::map<DevicePointer, Descriptor> packs_;
};

class CudnnLibrary : public OperatorLibrary {
 public:
  CudnnLibrary(CudaDevice& device, const Api& api, cudnnHandle_t handle)
      : device_(device), api_(api), handle_(handle) {}
  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;
  ~CudnnLibrary() override { api_.cudnnDestroy(handle_); }

  std::string name() const override { return "cudnn"; }
  std::string version() const override {
    const std::size_t version = api_.cudnnGetVersion();  // 91900 is 9.19.0
    return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
  }

  absl::Status Supports(const Kernel& kernel) const override {
    const Pass pass = AskedOf(kernel).pass;
    if (const auto* attention = std::get_if<Attention>(&kernel.work); attention != nullptr) {
      if (device_.properties().compute_capability() < 80) {
        return absl::UnimplementedError("cuDNN's fused attention below compute capability 8.0");
      }
      return SupportsAttention(*attention, kernel.dtype, pass, api_.cudnnGetVersion());
    }
    if (kernel.op() != Op::kConv2d) {
      return absl::UnimplementedError("cuDNN is asked for convolutions and attention only");
    }
    if (!TypeOf(kernel.dtype).has_value()) {
      return absl::UnimplementedError(fmt::format("convolutions in {}", Name(kernel.dtype)));
    }
    if (pass == Pass::kBackward) {
      return absl::UnimplementedError("a convolution has two gradients: cudnn_dgrad and cudnn_wgrad");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Operation>> Prepare(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    const EngineName asked = AskedOf(kernel);
    GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, GraphOf(kernel, asked.pass));
    GPUETA_ASSIGN_OR_RETURN(std::vector<Descriptor> configs, ConfigsOf(*graph, kernel.dtype));
    absl::Status why = NotFound("cuDNN does not run the shape by {}", kernel.launch.kernel);
    if (asked.engine.empty()) why = absl::UnimplementedError("cuDNN has no engine for the shape");
    for (Descriptor& config : configs) {
      std::string engine = EngineOf(config);
      if (!asked.engine.empty() && engine != asked.engine) continue;
      absl::StatusOr<Descriptor> plan = PlanOf(config);
      if (plan.ok()) {
        return std::make_unique<Planned>(device_, api_, handle_,
                                         NameOf(EngineName{.pass = asked.pass, .engine = std::move(engine)}),
                                         std::move(graph), std::move(config), *std::move(plan));
      }
      why = plan.status();
    }
    return why;
  }

  // Of the pass that the kernel names.
  absl::StatusOr<std::vector<std::string>> Algorithms(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    const Pass pass = AskedOf(kernel).pass;
    GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, GraphOf(kernel, pass));
    GPUETA_ASSIGN_OR_RETURN(const std::vector<Descriptor> configs, ConfigsOf(*graph, kernel.dtype));
    std::vector<std::string> names;
    for (const Descriptor& config : configs) {
      std::string name = NameOf(EngineName{.pass = pass, .engine = EngineOf(config)});
      if (std::ranges::find(names, name) == names.end() && PlanOf(config).ok()) names.push_back(std::move(name));
    }
    return names;
  }

 private:
  static EngineName AskedOf(const Kernel& kernel) {
    return ParseEngineName(kernel.launch.kernel).value_or(EngineName{});
  }

  absl::StatusOr<std::unique_ptr<Graph>> GraphOf(const Kernel& kernel, Pass pass) const {
    if (const auto* attention = std::get_if<Attention>(&kernel.work); attention != nullptr) {
      return MakeAttention(api_, handle_, *attention, kernel.dtype, pass);
    }
    return MakeConvolution(api_, handle_, std::get<Conv2d>(kernel.work), kernel.dtype, pass);
  }

  // Best first, by the heuristic. It is not told of a partition's SMs: with a target for
  // them cuDNN 9.10 has no engine for a convolution.
  absl::StatusOr<std::vector<Descriptor>> ConfigsOf(const Graph& graph, DType dtype) const {
    constexpr std::int64_t kMostConfigs = 32;
    GPUETA_ASSIGN_OR_RETURN(Descriptor heuristic, Descriptor::Create(api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    GPUETA_RETURN_IF_ERROR(heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get()));
    GPUETA_RETURN_IF_ERROR(
        heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{CUDNN_HEUR_MODE_A}));
    GPUETA_RETURN_IF_ERROR(heuristic.Finalize());
    GPUETA_ASSIGN_OR_RETURN(
        std::vector<Descriptor> configs,
        heuristic.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostConfigs));
    if (dtype == DType::kFp32) std::erase_if(configs, [](const Descriptor& config) { return RoundsInputs(config); });
    return configs;
  }

  absl::StatusOr<Descriptor> PlanOf(const Descriptor& config) const {
    GPUETA_ASSIGN_OR_RETURN(Descriptor plan, Descriptor::Create(api_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    GPUETA_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_}));
    GPUETA_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config));
    GPUETA_RETURN_IF_ERROR(plan.Finalize());
    if (plan.Get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64) > kWorkspaceBytes) {
      return absl::UnimplementedError("the engine needs too large a workspace");
    }
    return plan;
  }

  CudaDevice& device_;
  const Api& api_;
  cudnnHandle_t handle_;
};

}  // namespace
}  // namespace cudnn

absl::StatusOr<std::unique_ptr<OperatorLibrary>> OpenCudnn(CudaDevice& device) {
  GPUETA_ASSIGN_OR_RETURN(const cudnn::Api* api, cudnn::Load());
  cudnnHandle_t handle = nullptr;
  GPUETA_CUDNN(*api, cudnnCreate, &handle);
  return std::make_unique<cudnn::CudnnLibrary>(device, *api, handle);
}

}  // namespace gpueta
