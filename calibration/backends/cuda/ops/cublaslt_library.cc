#include "calibration/backends/cuda/ops/cublaslt_library.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibration/backends/cuda/driver/shared_library.h"
#include "calibration/backends/cuda/ops/cublaslt_algorithm.h"
#include "core/base/errors.h"
#include "core/ops/launch.h"

namespace gpueta {
namespace {

// clang-format off
#define GPUETA_CUBLASLT_FUNCTIONS(F) \
  F(cublasLtGetVersion) F(cublasLtCreate) F(cublasLtDestroy) F(cublasLtMatmul) F(cublasLtMatmulDescCreate) \
  F(cublasLtMatmulDescDestroy) F(cublasLtMatmulDescSetAttribute) F(cublasLtMatrixLayoutCreate) \
  F(cublasLtMatrixLayoutDestroy) F(cublasLtMatrixLayoutSetAttribute) F(cublasLtMatmulPreferenceCreate) \
  F(cublasLtMatmulPreferenceDestroy) F(cublasLtMatmulPreferenceSetAttribute) F(cublasLtMatmulAlgoGetHeuristic) \
  F(cublasLtMatmulAlgoGetIds) F(cublasLtMatmulAlgoInit) F(cublasLtMatmulAlgoCheck) \
  F(cublasLtMatmulAlgoConfigGetAttribute) F(cublasLtMatmulAlgoConfigSetAttribute)
// clang-format on

struct Api {
#define GPUETA_DECLARE(function) decltype(&::function) function = nullptr;
  GPUETA_CUBLASLT_FUNCTIONS(GPUETA_DECLARE)
#undef GPUETA_DECLARE
};

absl::StatusOr<Api> LoadApi() {
  GPUETA_ASSIGN_OR_RETURN(const SharedLibrary library,
                          SharedLibrary::Open({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}));
  Api api;
  std::string missing;
#define GPUETA_LOAD(function) library.Load(api.function, #function, missing);
  GPUETA_CUBLASLT_FUNCTIONS(GPUETA_LOAD)
#undef GPUETA_LOAD
  if (!missing.empty()) return FailedPrecondition("{} has no {}", library.name(), missing);
  return api;
}

absl::Status StatusOf(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message = fmt::format("{}: status {}", call, static_cast<int>(status));
  switch (status) {
    case CUBLAS_STATUS_NOT_SUPPORTED: return absl::UnimplementedError(message);
    case CUBLAS_STATUS_INVALID_VALUE: return absl::UnimplementedError(message);  // a shape that it refuses
    case CUBLAS_STATUS_ALLOC_FAILED: return absl::ResourceExhaustedError(message);
    default: return absl::InternalError(message);
  }
}

#define GPUETA_LT(api, function, ...) GPUETA_RETURN_IF_ERROR(StatusOf((api).function(__VA_ARGS__), #function))

// As PyTorch allows it on recent devices.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

// Words of the header for tiles, stages and clusters.
struct Word {
  const char* word;
  int value;
};
#define TILE 0
#define STAGES 1
#define CLUSTER 2
constexpr struct {
  int kind;
  Word word;
} kWords[] = {
#define GPUETA_WORD(kind, word, value) {kind, {word, value}},
#include "cublaslt_words.inc"
#undef GPUETA_WORD
};

std::string WordOf(int kind, int value) {
  const auto at = std::ranges::find_if(kWords, [&](const auto& w) { return w.kind == kind && w.word.value == value; });
  return at != std::end(kWords) ? at->word.word : "";
}
std::optional<int> ValueOf(int kind, const std::string& word) {
  if (word.empty()) return std::nullopt;
  const auto at = std::ranges::find_if(kWords, [&](const auto& w) { return w.kind == kind && w.word.word == word; });
  return at != std::end(kWords) ? std::optional(at->word.value) : std::nullopt;
}

struct Types {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cudaDataType_t operand;
  cudaDataType_t output;
};

std::optional<Types> TypesOf(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return Types{CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F};
    case DType::kFp32: return Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F};
    case DType::kTf32: return Types{CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F};
    case DType::kFp16: return Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F};
    case DType::kBf16: return Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF};
    case DType::kFp8: return Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_8F_E4M3, CUDA_R_16BF};
    case DType::kInt8: return Types{CUBLAS_COMPUTE_32I, CUDA_R_32I, CUDA_R_8I, CUDA_R_32I};
    case DType::kInt4: return std::nullopt;
  }
  return std::nullopt;
}

// cuBLASLt stores by column: its product is Cᵀ = Bᵀ·Aᵀ. `transposed`: its first
// operand, our weights, is stored by output.
bool StoredByOutput(const Gemm& gemm, DType dtype) {
  return gemm.layer == Gemm::Layer::kLinear || dtype == DType::kFp8 || dtype == DType::kInt8;
}

// Descriptors of one product, destroyed together.
class Problem {
 public:
  explicit Problem(const Api& api) : api_(api) {}
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
  ~Problem() {
    if (product_ != nullptr) api_.cublasLtMatmulDescDestroy(product_);
    for (cublasLtMatrixLayout_t layout : {weights_, activations_, output_}) {
      if (layout != nullptr) api_.cublasLtMatrixLayoutDestroy(layout);
    }
  }

  // `sms`: for so many of the device's SMs; 0: all of them.
  absl::Status Init(const Gemm& gemm, DType dtype, std::int32_t sms) {
    types_ = *TypesOf(dtype);
    GPUETA_LT(api_, cublasLtMatmulDescCreate, &product_, types_.compute, types_.scale);
    const bool transposed = StoredByOutput(gemm, dtype);
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    GPUETA_LT(api_, cublasLtMatmulDescSetAttribute, product_, CUBLASLT_MATMUL_DESC_TRANSA, &operation,
              sizeof(operation));
    if (sms > 0) {
      GPUETA_LT(api_, cublasLtMatmulDescSetAttribute, product_, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &sms,
                sizeof(sms));
    }
    const auto m = static_cast<std::uint64_t>(gemm.m);
    const auto n = static_cast<std::uint64_t>(gemm.n);
    const auto k = static_cast<std::uint64_t>(gemm.k);
    GPUETA_RETURN_IF_ERROR(Layout(weights_, types_.operand, transposed ? k : n, transposed ? n : k, gemm.batch));
    GPUETA_RETURN_IF_ERROR(Layout(activations_, types_.operand, k, m, gemm.batch));
    return Layout(output_, types_.output, n, m, gemm.batch);
  }

  // The heuristic's choices, best first.
  absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> Heuristic(cublasLtHandle_t handle, int count) const {
    cublasLtMatmulPreference_t preference = nullptr;
    GPUETA_LT(api_, cublasLtMatmulPreferenceCreate, &preference);
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
    int found = 0;
    absl::Status status =
        StatusOf(api_.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                           &kWorkspaceBytes, sizeof(kWorkspaceBytes)),
                 "cublasLtMatmulPreferenceSetAttribute");
    if (status.ok()) {
      status = StatusOf(api_.cublasLtMatmulAlgoGetHeuristic(handle, product_, weights_, activations_, output_, output_,
                                                            preference, count, results.data(), &found),
                        "cublasLtMatmulAlgoGetHeuristic");
    }
    api_.cublasLtMatmulPreferenceDestroy(preference);
    GPUETA_RETURN_IF_ERROR(status);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < found; ++i) {
      if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
        algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
    }
    if (algorithms.empty()) return absl::UnimplementedError("cuBLASLt has no algorithm for the shape");
    return algorithms;
  }

  // Every algorithm that can be had at all, by number.
  absl::StatusOr<std::vector<int>> Ids(cublasLtHandle_t handle) const {
    constexpr int kMostIds = 256;
    std::vector<int> ids(kMostIds);
    int found = 0;
    GPUETA_LT(api_, cublasLtMatmulAlgoGetIds, handle, types_.compute, types_.scale, types_.operand, types_.operand,
              types_.output, types_.output, kMostIds, ids.data(), &found);
    ids.resize(static_cast<std::size_t>(found));
    return ids;
  }

  // NOT_FOUND where the library does not run the shape by it.
  absl::StatusOr<cublasLtMatmulAlgo_t> Make(cublasLtHandle_t handle, const CublasLtAlgorithm& algorithm) const {
    cublasLtMatmulAlgo_t algo;
    GPUETA_LT(api_, cublasLtMatmulAlgoInit, handle, types_.compute, types_.scale, types_.operand, types_.operand,
              types_.output, types_.output, algorithm.id, &algo);
    const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, std::optional<int> value,
                         std::size_t size = sizeof(std::uint32_t)) {
      if (!value.has_value()) return absl::OkStatus();
      const auto word = static_cast<std::uint32_t>(*value);  // little-endian: its first bytes are the smaller types
      return StatusOf(api_.cublasLtMatmulAlgoConfigSetAttribute(&algo, attribute, &word, size),
                      "cublasLtMatmulAlgoConfigSetAttribute");
    };
    GPUETA_RETURN_IF_ERROR(set(CUBLASLT_ALGO_CONFIG_TILE_ID, ValueOf(TILE, algorithm.tile)));
    GPUETA_RETURN_IF_ERROR(set(CUBLASLT_ALGO_CONFIG_STAGES_ID, ValueOf(STAGES, algorithm.stages)));
    GPUETA_RETURN_IF_ERROR(set(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, algorithm.split_k));
    GPUETA_RETURN_IF_ERROR(set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, algorithm.reduction));
    GPUETA_RETURN_IF_ERROR(set(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, algorithm.swizzle));
    GPUETA_RETURN_IF_ERROR(set(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, algorithm.custom));
    GPUETA_RETURN_IF_ERROR(set(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, algorithm.inner_shape, sizeof(std::uint16_t)));
    GPUETA_RETURN_IF_ERROR(
        set(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, ValueOf(CLUSTER, algorithm.cluster), sizeof(std::uint16_t)));
    cublasLtMatmulHeuristicResult_t result;
    const cublasStatus_t status =
        api_.cublasLtMatmulAlgoCheck(handle, product_, weights_, activations_, output_, output_, &algo, &result);
    if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kWorkspaceBytes) {
      return NotFound("cuBLASLt does not run the shape by {}", NameOf(algorithm));
    }
    return algo;
  }

  CublasLtAlgorithm Describe(const cublasLtMatmulAlgo_t& algo) const {
    const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, std::size_t size = sizeof(std::uint32_t)) {
      std::uint32_t value = 0;
      std::size_t written = 0;
      api_.cublasLtMatmulAlgoConfigGetAttribute(&algo, attribute, &value, size, &written);
      return static_cast<int>(value);
    };
    return {.id = get(CUBLASLT_ALGO_CONFIG_ID),
            .tile = WordOf(TILE, get(CUBLASLT_ALGO_CONFIG_TILE_ID)),
            .stages = WordOf(STAGES, get(CUBLASLT_ALGO_CONFIG_STAGES_ID)),
            .split_k = std::max(1, get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM)),
            .reduction = get(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
            .swizzle = get(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
            .custom = get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
            .inner_shape = get(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, sizeof(std::uint16_t)),
            .cluster = WordOf(CLUSTER, get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, sizeof(std::uint16_t)))};
  }

  absl::Status Run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algo, DevicePointer weights,
                   DevicePointer activations, DevicePointer output, DevicePointer workspace, void* stream) const {
    // One and zero of every scale type; the smaller ones read the first bytes.
    static constexpr float kOne = 1;
    static constexpr double kOne64 = 1;
    static constexpr std::int32_t kOne32 = 1;
    static constexpr double kZero = 0;
    const void* one = &kOne;
    if (types_.scale == CUDA_R_64F) one = &kOne64;
    if (types_.scale == CUDA_R_32I) one = &kOne32;
    const auto at = [](DevicePointer pointer) { return reinterpret_cast<void*>(pointer); };
    GPUETA_LT(api_, cublasLtMatmul, handle, product_, one, at(weights), weights_, at(activations), activations_, &kZero,
              at(output), output_, at(output), output_, &algo, at(workspace), kWorkspaceBytes,
              static_cast<cudaStream_t>(stream));
    return absl::OkStatus();
  }

 private:
  absl::Status Layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, std::uint64_t rows, std::uint64_t columns,
                      std::int64_t batch) const {
    GPUETA_LT(api_, cublasLtMatrixLayoutCreate, &layout, type, rows, columns, static_cast<std::int64_t>(rows));
    if (batch == 1) return absl::OkStatus();
    const auto count = static_cast<std::int32_t>(batch);
    const auto stride = static_cast<std::int64_t>(rows * columns);
    GPUETA_LT(api_, cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
              sizeof(count));
    GPUETA_LT(api_, cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
              sizeof(stride));
    return absl::OkStatus();
  }

  const Api& api_;
  Types types_{};
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t weights_ = nullptr;
  cublasLtMatrixLayout_t activations_ = nullptr;
  cublasLtMatrixLayout_t output_ = nullptr;
};

class Product : public Operation {
 public:
  Product(CudaDevice& device, cublasLtHandle_t handle, const Kernel& kernel, std::unique_ptr<Problem> problem,
          const cublasLtMatmulAlgo_t& algo)
      : device_(device), handle_(handle), problem_(std::move(problem)), algo_(algo) {
    const auto& gemm = std::get<Gemm>(kernel.work);
    const ElementBits bits = BitsOf(kernel.dtype);
    const auto elements = [&](std::int64_t rows, std::int64_t columns) {
      return gpueta::Product({gemm.batch, rows, columns});
    };
    const auto size = [](Count bytes) { return static_cast<std::size_t>(bytes.value()); };
    bytes_.inputs[0] = size(BytesOf(elements(gemm.m, gemm.k), bits.activation));
    const std::size_t second = size(BytesOf(elements(gemm.k, gemm.n), bits.weight));
    second_is_activation_ = gemm.layer == Gemm::Layer::kBmm;
    (second_is_activation_ ? bytes_.inputs[1] : bytes_.weights) = second;
    bytes_.output = size(BytesOf(elements(gemm.m, gemm.n), bits.output));
    bytes_.workspace = kWorkspaceBytes;
    // The grid as it follows from the tile; a record of the launch knows better.
    const CublasLtAlgorithm algorithm = problem_->Describe(algo);
    launch_.kernel = NameOf(algorithm);
    if (const auto tile = TileOfKernelName(launch_.kernel); tile.has_value()) {
      launch_.grid_x = static_cast<std::int64_t>(TilesOf(*ProductOf(kernel), *tile)) * algorithm.split_k;
      launch_.grid_y = launch_.grid_z = 1;
    }
  }

  const OperandBytes& bytes() const override { return bytes_; }
  Launch launch() const override { return launch_; }
  absl::Status Enqueue(const Operands& operands, StreamHandle stream) override {
    return problem_->Run(handle_, algo_, second_is_activation_ ? operands.inputs[1] : operands.weights,
                         operands.inputs[0], operands.output, operands.workspace, device_.NativeStream(stream));
  }

 private:
  CudaDevice& device_;
  cublasLtHandle_t handle_;
  std::unique_ptr<Problem> problem_;
  cublasLtMatmulAlgo_t algo_;
  OperandBytes bytes_;
  Launch launch_;
  bool second_is_activation_ = false;
};

class CublasLtLibrary : public OperatorLibrary {
 public:
  CublasLtLibrary(CudaDevice& device, const Api& api, cublasLtHandle_t handle)
      : device_(device), api_(api), handle_(handle) {}
  CublasLtLibrary(const CublasLtLibrary&) = delete;
  CublasLtLibrary& operator=(const CublasLtLibrary&) = delete;
  ~CublasLtLibrary() override { api_.cublasLtDestroy(handle_); }

  std::string name() const override { return "cublaslt"; }
  std::string version() const override {
    const std::size_t version = api_.cublasLtGetVersion();  // 130100 is 13.1.0
    return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
  }

  absl::Status Supports(const Kernel& kernel) const override {
    if (kernel.op() != Op::kGemm) return absl::UnimplementedError("cuBLASLt has products only");
    const int capability = device_.properties().compute_capability();
    const int needed = kernel.dtype == DType::kFp8                                    ? 89
                       : kernel.dtype == DType::kBf16 || kernel.dtype == DType::kTf32 ? 80
                                                                                      : 0;
    if (capability < needed || !TypesOf(kernel.dtype).has_value()) {
      return absl::UnimplementedError(fmt::format("products in {} on compute capability {}.{}", Name(kernel.dtype),
                                                  capability / 10, capability % 10));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Operation>> Prepare(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<Problem> problem, ProblemOf(kernel));
    cublasLtMatmulAlgo_t algo;
    const auto algorithm = ParseCublasLtAlgorithm(kernel.launch.kernel);
    if (!algorithm.has_value()) {
      GPUETA_ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> chosen, problem->Heuristic(handle_, 1));
      algo = chosen.front();
    } else {
      GPUETA_ASSIGN_OR_RETURN(algo, problem->Make(handle_, *algorithm));
    }
    return std::make_unique<Product>(device_, handle_, kernel, std::move(problem), algo);
  }

  // What the heuristic thinks worth trying, and of every other algorithm its plain
  // configuration.
  absl::StatusOr<std::vector<std::string>> Algorithms(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<Problem> problem, ProblemOf(kernel));
    constexpr int kAsked = 16;
    GPUETA_ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> best, problem->Heuristic(handle_, kAsked));
    std::vector<CublasLtAlgorithm> algorithms;
    for (const cublasLtMatmulAlgo_t& algo : best) algorithms.push_back(problem->Describe(algo));
    GPUETA_ASSIGN_OR_RETURN(const std::vector<int> ids, problem->Ids(handle_));
    for (int id : ids) {
      if (std::ranges::find(algorithms, id, &CublasLtAlgorithm::id) != algorithms.end()) continue;
      if (const auto algo = problem->Make(handle_, {.id = id}); algo.ok())
        algorithms.push_back(problem->Describe(*algo));
    }
    std::vector<std::string> names;
    for (const CublasLtAlgorithm& algorithm : algorithms) {
      if (std::string name = NameOf(algorithm); std::ranges::find(names, name) == names.end())
        names.push_back(std::move(name));
    }
    return names;
  }

 private:
  absl::StatusOr<std::unique_ptr<Problem>> ProblemOf(const Kernel& kernel) const {
    auto problem = std::make_unique<Problem>(api_);
    const DeviceProperties& device = device_.properties();
    GPUETA_RETURN_IF_ERROR(
        problem->Init(std::get<Gemm>(kernel.work), kernel.dtype, device.partition ? device.sm_count : 0));
    return problem;
  }

  CudaDevice& device_;
  const Api& api_;
  cublasLtHandle_t handle_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OperatorLibrary>> OpenCublasLt(CudaDevice& device) {
  static const absl::StatusOr<Api> api = LoadApi();
  if (!api.ok()) return FailedPrecondition("{}", MessageOf(api.status()));
  cublasLtHandle_t handle = nullptr;
  GPUETA_LT(*api, cublasLtCreate, &handle);
  return std::make_unique<CublasLtLibrary>(device, *api, handle);
}

}  // namespace gpueta
