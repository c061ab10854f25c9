#include "calibration/backends/cuda/ops/cudnn_library.h"

#include <cudnn_graph.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibration/backends/cuda/driver/shared_library.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// clang-format off
#define GPUETA_CUDNN_FUNCTIONS(F) \
  F(cudnnGetVersion) F(cudnnGetErrorString) F(cudnnCreate) F(cudnnDestroy) F(cudnnSetStream) \
  F(cudnnBackendCreateDescriptor) F(cudnnBackendDestroyDescriptor) F(cudnnBackendSetAttribute) \
  F(cudnnBackendGetAttribute) F(cudnnBackendFinalize) F(cudnnBackendExecute)
// clang-format on

struct Api {
#define GPUETA_DECLARE(function) decltype(&::function) function = nullptr;
  GPUETA_CUDNN_FUNCTIONS(GPUETA_DECLARE)
#undef GPUETA_DECLARE

  absl::Status StatusOf(cudnnStatus_t status, const char* call) const {
    if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
    const std::string message = fmt::format("{}: {}", call, cudnnGetErrorString(status));
    // Statuses from 2000 are of bad parameters, from 3000 of what it does not support.
    const int group = static_cast<int>(status) / 1000;
    return group == 2 || group == 3 ? absl::UnimplementedError(message) : absl::InternalError(message);
  }
};

absl::StatusOr<Api> LoadApi() {
  GPUETA_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open({"libcudnn_graph.so.9", "libcudnn.so.9"}));
  Api api;
  std::string missing;
#define GPUETA_LOAD(function) library.Load(api.function, #function, missing);
  GPUETA_CUDNN_FUNCTIONS(GPUETA_LOAD)
#undef GPUETA_LOAD
  if (!missing.empty()) return FailedPrecondition("{} has no {}", library.name(), missing);
  return api;
}

#define GPUETA_CUDNN(api, function, ...) GPUETA_RETURN_IF_ERROR((api).StatusOf((api).function(__VA_ARGS__), #function))

constexpr std::int64_t kWorkspaceBytes = std::int64_t{256} << 20;

// A descriptor of the graph API, destroyed with its owner. Those it refers to must
// outlive it.
class Descriptor {
 public:
  static absl::StatusOr<Descriptor> Create(const Api& api, cudnnBackendDescriptorType_t type) {
    Descriptor descriptor;
    descriptor.api_ = &api;
    GPUETA_CUDNN(api, cudnnBackendCreateDescriptor, type, &descriptor.value_);
    return descriptor;
  }
  Descriptor() = default;
  Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(value_, other.value_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ != nullptr) api_->cudnnBackendDestroyDescriptor(value_);
  }

  cudnnBackendDescriptor_t get() const { return value_; }

  template <class T>
  absl::Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    GPUETA_CUDNN(*api_, cudnnBackendSetAttribute, value_, name, type, static_cast<std::int64_t>(values.size()),
                 values.data());
    return absl::OkStatus();
  }
  absl::Status Set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{other.get()});
  }
  absl::Status Finalize() {
    GPUETA_CUDNN(*api_, cudnnBackendFinalize, value_);
    return absl::OkStatus();
  }
  // One number; 0 where there is none.
  template <class T>
  T Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    T value{};
    std::int64_t count = 0;
    api_->cudnnBackendGetAttribute(value_, name, type, 1, &count, &value);
    return value;
  }
  template <class T>
  std::vector<T> GetAll(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    std::int64_t count = 0;
    api_->cudnnBackendGetAttribute(value_, name, type, most, &count, values.data());
    values.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, most)));
    return values;
  }
  // Descriptors that the attribute holds, of a type; they are made for it to fill in.
  absl::StatusOr<std::vector<Descriptor>> GetDescriptors(cudnnBackendAttributeName_t name,
                                                         cudnnBackendDescriptorType_t type, std::int64_t most) const {
    std::vector<Descriptor> descriptors;
    std::vector<cudnnBackendDescriptor_t> values;
    for (std::int64_t i = 0; i < most; ++i) {
      GPUETA_ASSIGN_OR_RETURN(Descriptor descriptor, Create(*api_, type));
      values.push_back(descriptor.get());
      descriptors.push_back(std::move(descriptor));
    }
    std::int64_t count = 0;
    GPUETA_CUDNN(*api_, cudnnBackendGetAttribute, value_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                 values.data());
    descriptors.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, most)));
    return descriptors;
  }

 private:
  const Api* api_ = nullptr;
  cudnnBackendDescriptor_t value_ = nullptr;
};

std::optional<cudnnDataType_t> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
    case DType::kTf32: return CUDNN_DATA_FLOAT;
    case DType::kFp16: return CUDNN_DATA_HALF;
    case DType::kBf16: return CUDNN_DATA_BFLOAT16;
    default: return std::nullopt;
  }
}

// What variant packs know tensors by.
enum Tensor : std::int64_t { kInput = 1, kWeights = 2, kOutput = 3 };

// n, c, h, w with strides of either layout.
absl::StatusOr<Descriptor> TensorOf(const Api& api, std::int64_t id, const std::array<std::int64_t, 4>& dims,
                                    DType dtype) {
  const auto& [n, c, h, w] = dims;
  const bool channels_last = dtype == DType::kFp16 || dtype == DType::kBf16;
  const std::vector<std::int64_t> strides = channels_last ? std::vector{h * w * c, std::int64_t{1}, w * c, c}
                                                          : std::vector{c * h * w, h * w, w, std::int64_t{1}};
  constexpr std::int64_t kAlignment = 16;
  GPUETA_ASSIGN_OR_RETURN(Descriptor tensor, Descriptor::Create(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  GPUETA_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{*TypeOf(dtype)}));
  GPUETA_RETURN_IF_ERROR(
      tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::vector<std::int64_t>(dims.begin(), dims.end())));
  GPUETA_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides));
  GPUETA_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector{id}));
  GPUETA_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::vector{kAlignment}));
  GPUETA_RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

// The operation graph of one convolution. Members are in the order in which they refer
// to each other.
class ConvolutionGraph {
 public:
  static absl::StatusOr<std::unique_ptr<ConvolutionGraph>> Make(const Api& api, cudnnHandle_t handle,
                                                                const Conv2d& conv, DType dtype) {
    auto graph = std::make_unique<ConvolutionGraph>();
    GPUETA_ASSIGN_OR_RETURN(graph->input_,
                            TensorOf(api, kInput, {conv.batch, conv.in_channels, conv.height, conv.width}, dtype));
    GPUETA_ASSIGN_OR_RETURN(
        graph->weights_,
        TensorOf(api, kWeights, {conv.out_channels, conv.in_channels / conv.groups, conv.kernel_h, conv.kernel_w},
                 dtype));
    GPUETA_ASSIGN_OR_RETURN(
        graph->output_,
        TensorOf(api, kOutput, {conv.batch, conv.out_channels, OutHeight(conv), OutWidth(conv)}, dtype));
    GPUETA_ASSIGN_OR_RETURN(graph->convolution_, Descriptor::Create(api, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
    Descriptor& c = graph->convolution_;
    const auto pair = [](std::int64_t h, std::int64_t w) { return std::vector{h, w}; };
    GPUETA_RETURN_IF_ERROR(
        c.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT}));
    GPUETA_RETURN_IF_ERROR(
        c.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, std::vector{CUDNN_CROSS_CORRELATION}));
    GPUETA_RETURN_IF_ERROR(c.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::vector{std::int64_t{2}}));
    GPUETA_RETURN_IF_ERROR(
        c.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, pair(conv.dilation_h, conv.dilation_w)));
    GPUETA_RETURN_IF_ERROR(
        c.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, pair(conv.stride_h, conv.stride_w)));
    GPUETA_RETURN_IF_ERROR(c.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pair(conv.pad_h, conv.pad_w)));
    GPUETA_RETURN_IF_ERROR(c.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
                                 pair(conv.pad_h + conv.extra_pad_h, conv.pad_w + conv.extra_pad_w)));
    GPUETA_RETURN_IF_ERROR(c.Finalize());
    GPUETA_ASSIGN_OR_RETURN(graph->operation_,
                            Descriptor::Create(api, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
    Descriptor& operation = graph->operation_;
    GPUETA_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, graph->input_));
    GPUETA_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, graph->weights_));
    GPUETA_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, graph->output_));
    GPUETA_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, c));
    GPUETA_RETURN_IF_ERROR(
        operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, std::vector{1.0F}));
    GPUETA_RETURN_IF_ERROR(
        operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, std::vector{0.0F}));
    GPUETA_RETURN_IF_ERROR(operation.Finalize());
    GPUETA_ASSIGN_OR_RETURN(graph->graph_, Descriptor::Create(api, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    GPUETA_RETURN_IF_ERROR(graph->graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle}));
    GPUETA_RETURN_IF_ERROR(graph->graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation));
    GPUETA_RETURN_IF_ERROR(graph->graph_.Finalize());
    return graph;
  }
  const Descriptor& get() const { return graph_; }

 private:
  Descriptor input_, weights_, output_, convolution_, operation_, graph_;
};

// An engine with its knobs, by the numbers that cuDNN gives them.
std::string NameOf(const Descriptor& config) {
  constexpr std::int64_t kMostKnobs = 64;
  auto engine = config.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (!engine.ok() || engine->empty()) return "cudnn";
  std::string name =
      fmt::format("cudnn_eng{}", engine->front().Get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64));
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

class Convolution : public Operation {
 public:
  Convolution(CudaDevice& device, const Api& api, cudnnHandle_t handle, const Kernel& kernel, std::string name,
              std::unique_ptr<ConvolutionGraph> graph, Descriptor config, Descriptor plan)
      : device_(device),
        api_(api),
        handle_(handle),
        name_(std::move(name)),
        graph_(std::move(graph)),
        config_(std::move(config)),
        plan_(std::move(plan)) {
    const auto& conv = std::get<Conv2d>(kernel.work);
    const int bits = BitsOf(kernel.dtype).activation;
    const auto size = [bits](std::initializer_list<std::int64_t> dims) {
      return static_cast<std::size_t>(BytesOf(Product(dims), bits).value());
    };
    bytes_.inputs[0] = size({conv.batch, conv.in_channels, conv.height, conv.width});
    bytes_.weights = size({conv.out_channels, conv.in_channels / conv.groups, conv.kernel_h, conv.kernel_w});
    bytes_.output = size({conv.batch, conv.out_channels, OutHeight(conv), OutWidth(conv)});
    bytes_.workspace =
        static_cast<std::size_t>(plan_.Get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64));
  }

  const OperandBytes& bytes() const override { return bytes_; }
  Launch launch() const override { return {.kernel = name_}; }  // its grid is known once it is recorded

  absl::Status Enqueue(const Operands& operands, StreamHandle stream) override {
    GPUETA_CUDNN(api_, cudnnSetStream, handle_, static_cast<cudaStream_t>(device_.NativeStream(stream)));
    GPUETA_ASSIGN_OR_RETURN(Descriptor * pack, PackOf(operands));
    GPUETA_CUDNN(api_, cudnnBackendExecute, handle_, plan_.get(), pack->get());
    return absl::OkStatus();
  }

 private:
  // Packs are made once for each copy of the weights: making one takes the host longer
  // than a launch.
  absl::StatusOr<Descriptor*> PackOf(const Operands& operands) {
    if (const auto known = packs_.find(operands.weights); known != packs_.end()) return &known->second;
    const auto at = [](DevicePointer pointer) { return reinterpret_cast<void*>(pointer); };
    GPUETA_ASSIGN_OR_RETURN(Descriptor pack, Descriptor::Create(api_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
    GPUETA_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                    std::vector<std::int64_t>{kInput, kWeights, kOutput}));
    GPUETA_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                    std::vector{at(operands.inputs[0]), at(operands.weights), at(operands.output)}));
    GPUETA_RETURN_IF_ERROR(
        pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{at(operands.workspace)}));
    GPUETA_RETURN_IF_ERROR(pack.Finalize());
    return &packs_.emplace(operands.weights, std::move(pack)).first->second;
  }

  CudaDevice& device_;
  const Api& api_;
  cudnnHandle_t handle_;
  std::string name_;
  std::unique_ptr<ConvolutionGraph> graph_;
  Descriptor config_;
  Descriptor plan_;
  OperandBytes bytes_;
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
    if (kernel.op() != Op::kConv2d) return absl::UnimplementedError("cuDNN is asked for convolutions only");
    if (!TypeOf(kernel.dtype).has_value()) {
      return absl::UnimplementedError(fmt::format("convolutions in {}", Name(kernel.dtype)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Operation>> Prepare(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    GPUETA_ASSIGN_OR_RETURN(auto graph,
                            ConvolutionGraph::Make(api_, handle_, std::get<Conv2d>(kernel.work), kernel.dtype));
    GPUETA_ASSIGN_OR_RETURN(std::vector<Descriptor> configs, ConfigsOf(*graph, kernel.dtype));
    const bool named = kernel.launch.kernel.starts_with("cudnn_eng");
    absl::Status why = NotFound("cuDNN does not run the shape by {}", kernel.launch.kernel);
    if (!named) why = absl::UnimplementedError("cuDNN has no engine for the shape");
    for (Descriptor& config : configs) {
      std::string name = NameOf(config);
      if (named && name != kernel.launch.kernel) continue;
      absl::StatusOr<Descriptor> plan = PlanOf(config);
      if (plan.ok()) {
        return std::make_unique<Convolution>(device_, api_, handle_, kernel, std::move(name), std::move(graph),
                                             std::move(config), *std::move(plan));
      }
      why = plan.status();
    }
    return why;
  }

  absl::StatusOr<std::vector<std::string>> Algorithms(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    GPUETA_ASSIGN_OR_RETURN(const auto graph,
                            ConvolutionGraph::Make(api_, handle_, std::get<Conv2d>(kernel.work), kernel.dtype));
    GPUETA_ASSIGN_OR_RETURN(const std::vector<Descriptor> configs, ConfigsOf(*graph, kernel.dtype));
    std::vector<std::string> names;
    for (const Descriptor& config : configs) {
      std::string name = NameOf(config);
      if (std::ranges::find(names, name) == names.end() && PlanOf(config).ok()) names.push_back(std::move(name));
    }
    return names;
  }

 private:
  // Best first, by the heuristic.
  absl::StatusOr<std::vector<Descriptor>> ConfigsOf(const ConvolutionGraph& graph, DType dtype) const {
    constexpr std::int64_t kMostConfigs = 32;
    GPUETA_ASSIGN_OR_RETURN(Descriptor heuristic, Descriptor::Create(api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    GPUETA_RETURN_IF_ERROR(heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get()));
    GPUETA_RETURN_IF_ERROR(
        heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{CUDNN_HEUR_MODE_A}));
    if (const DeviceProperties& device = device_.properties(); device.partition) {
      GPUETA_RETURN_IF_ERROR(heuristic.Set(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32,
                                           std::vector<std::int32_t>{device.sm_count}));
    }
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

absl::StatusOr<std::unique_ptr<OperatorLibrary>> OpenCudnn(CudaDevice& device) {
  static const absl::StatusOr<Api> api = LoadApi();
  if (!api.ok()) return FailedPrecondition("{}", MessageOf(api.status()));
  cudnnHandle_t handle = nullptr;
  GPUETA_CUDNN(*api, cudnnCreate, &handle);
  return std::make_unique<CudnnLibrary>(device, *api, handle);
}

}  // namespace gpueta
