#include "calibration/backends/cuda/ops/vector_library.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// As in vector_kernels.cu.
constexpr std::uint32_t kElementwiseThreads = 128;
constexpr std::uint32_t kRowThreads = 256;
constexpr std::int64_t kPackBytes = 16;
constexpr std::int64_t kTile = 32;

bool HasBlockPerRow(const std::string& op) { return InfoOf(op).row_wise || op == "rope" || op == "embedding"; }

// Elements of scale and shift.
std::int64_t WeightsOf(const Vector& vector) {
  if (vector.op == "layernorm" || vector.op == "groupnorm") return 2 * vector.cols;
  if (vector.op == "batchnorm") return 2 * vector.rows;
  return vector.op == "rmsnorm" ? vector.cols : 0;
}

// Bytes of each input tensor, of so many bytes of output.
std::array<std::int64_t, kMaxCudaInputs> InputsOf(const Vector& vector, std::int64_t tensor) {
  std::array<std::int64_t, kMaxCudaInputs> inputs{};
  // A pooling's operands are elements of one tensor; an optimiser's are written, too.
  if (vector.op == "pool") {
    inputs[0] = vector.operands * tensor;
  } else {
    const auto count = std::min(static_cast<std::size_t>(vector.operands), kMaxCudaInputs);
    std::fill_n(inputs.begin(), count, tensor);
  }
  return inputs;
}

std::string EntryOf(const Vector& vector, DType dtype) {
  const std::string operands = vector.op == "pool" ? "n" : std::to_string(vector.operands);
  return fmt::format("{}_{}_{}", vector.op, operands, Name(dtype == DType::kTf32 ? DType::kFp32 : dtype));
}

LaunchGeometry GeometryOf(const Vector& vector, std::int64_t element_bytes) {
  LaunchGeometry geometry;
  if (HasBlockPerRow(vector.op)) {
    geometry.grid.x = static_cast<std::uint32_t>(std::min<std::int64_t>(vector.rows, 1 << 30));
    geometry.block.x = kRowThreads;
    return geometry;
  }
  if (vector.op == "transpose") {
    const auto tiles = [](std::int64_t side) { return (side + kTile - 1) / kTile; };
    geometry.grid.x = static_cast<std::uint32_t>(tiles(vector.rows) * tiles(vector.cols));
    geometry.block.x = kRowThreads;
    return geometry;
  }
  const std::int64_t per_block = kElementwiseThreads * kPackBytes / element_bytes;
  geometry.grid.x = static_cast<std::uint32_t>((vector.rows * vector.cols + per_block - 1) / per_block);
  geometry.block.x = kElementwiseThreads;
  return geometry;
}

class VectorOperation : public Operation {
 public:
  VectorOperation(CudaDevice& device, FunctionHandle function, const Vector& vector, DType dtype)
      : device_(device),
        function_(function),
        entry_(EntryOf(vector, dtype)),
        rows_(vector.rows),
        columns_(vector.cols),
        operands_(vector.operands) {
    const std::int64_t element = BitsOf(dtype).activation / 8;
    geometry_ = GeometryOf(vector, element);
    const std::int64_t tensor = rows_ * columns_ * element;
    std::ranges::transform(InputsOf(vector, tensor), bytes_.inputs.begin(), Size);
    bytes_.output = Size(InfoOf(vector.op).one_result_per_row ? rows_ * element : tensor);
    bytes_.weights = Size(WeightsOf(vector) * element);
  }

  const OperandBytes& bytes() const override { return bytes_; }
  Launch launch() const override {
    return {.kernel = "gpueta_" + entry_,
            .grid_x = geometry_.grid.x,
            .grid_y = geometry_.grid.y,
            .grid_z = geometry_.grid.z,
            .block_x = geometry_.block.x};
  }
  absl::Status Enqueue(const Operands& operands, StreamHandle stream) override {
    Operands values = operands;
    std::array<void*, 9> arguments = {
        &values.output, &values.inputs[0], &values.inputs[1], &values.inputs[2], &values.inputs[3], &values.weights,
        &rows_,         &columns_,         &operands_};
    return device_.Launch(function_, geometry_, arguments, stream);
  }

 private:
  static std::size_t Size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

  CudaDevice& device_;
  FunctionHandle function_;
  std::string entry_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t operands_;
  LaunchGeometry geometry_;
  OperandBytes bytes_;
};

class VectorLibrary : public OperatorLibrary {
 public:
  VectorLibrary(CudaDevice& device, ModuleHandle module, std::set<std::string, std::less<>> entries)
      : device_(device), module_(module), entries_(std::move(entries)) {}
  VectorLibrary(const VectorLibrary&) = delete;
  VectorLibrary& operator=(const VectorLibrary&) = delete;
  ~VectorLibrary() override { device_.UnloadModule(module_).IgnoreError(); }

  std::string name() const override { return "gpueta-kernels"; }
  std::string version() const override { return GPUETA_VERSION; }

  absl::Status Supports(const Kernel& kernel) const override {
    const auto* vector = std::get_if<Vector>(&kernel.work);
    if (vector == nullptr) return absl::UnimplementedError("our own kernels are vector operators only");
    if (!entries_.contains(EntryOf(*vector, kernel.dtype))) {
      return absl::UnimplementedError(fmt::format("no kernel of ours for {} of {} operands in {}", vector->op,
                                                  vector->operands, Name(kernel.dtype)));
    }
    // Blocks along x are counted in 31 bits.
    const std::int64_t inputs = vector->op == "pool" ? vector->operands : 1;
    const std::int64_t most = (std::int64_t{1} << 40) / inputs;
    if (vector->rows > most / vector->cols) {
      return absl::UnimplementedError(
          fmt::format("{} rows of {} columns: our kernels take at most {} elements", vector->rows, vector->cols, most));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Operation>> Prepare(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    const auto& vector = std::get<Vector>(kernel.work);
    GPUETA_ASSIGN_OR_RETURN(const FunctionHandle function,
                            device_.FindFunction(module_, EntryOf(vector, kernel.dtype)));
    return std::make_unique<VectorOperation>(device_, function, vector, kernel.dtype);
  }

 private:
  CudaDevice& device_;
  ModuleHandle module_;
  std::set<std::string, std::less<>> entries_;
};

std::set<std::string, std::less<>> EntriesOf(std::string_view ptx) {
  std::set<std::string, std::less<>> entries;
  constexpr std::string_view kEntry = ".entry ";
  for (std::size_t at = ptx.find(kEntry); at != std::string_view::npos; at = ptx.find(kEntry, at + 1)) {
    const std::string_view rest = ptx.substr(at + kEntry.size());
    entries.emplace(rest.substr(0, rest.find_first_of("( \n")));
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OperatorLibrary>> LoadVectorLibrary(CudaDevice& device, std::string_view ptx) {
  GPUETA_ASSIGN_OR_RETURN(const ModuleHandle module, device.LoadModule(std::as_bytes(std::span(ptx))));
  return std::make_unique<VectorLibrary>(device, module, EntriesOf(ptx));
}

}  // namespace gpueta
