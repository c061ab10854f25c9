#include "calibration/backends/cuda/ops/cudnn/graph.h"

#include <algorithm>
#include <bit>

namespace gpueta::cudnn {
namespace {

constexpr std::size_t kPlacement = 256;
constexpr std::int64_t kAlignment = 16;  // that is promised to the library

std::size_t ElementBytes(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16: return 2;
    case CUDNN_DATA_BOOLEAN: return 1;
    default: return 4;
  }
}

std::size_t BytesOf(const Dims& dims, cudnnDataType_t type) {
  std::int64_t elements = 1;
  for (const std::int64_t size : dims.sizes) elements *= size;
  return static_cast<std::size_t>(elements) * ElementBytes(type);
}

}  // namespace

Dims Contiguous(const std::array<std::int64_t, 4>& sizes) {
  return {.sizes = sizes, .strides = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
}

std::optional<cudnnDataType_t> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
    case DType::kTf32: return CUDNN_DATA_FLOAT;
    case DType::kFp16: return CUDNN_DATA_HALF;
    case DType::kBf16: return CUDNN_DATA_BFLOAT16;
    default: return std::nullopt;
  }
}

Graph::~Graph() {
  while (!parts_.empty()) parts_.pop_back();
}

const Descriptor* Graph::Keep(Descriptor descriptor) {
  parts_.push_back(std::move(descriptor));
  return &parts_.back();
}

std::size_t& Graph::BytesAt(Place place) {
  if (place == Place::kWeights) return bytes_.weights;
  if (place == Place::kOutput) return bytes_.output;
  if (place == Place::kScratch) return bytes_.workspace;
  return bytes_.inputs[static_cast<std::size_t>(place)];
}

absl::StatusOr<Graph::Tensor> Graph::MakeTensor(const Dims& dims, cudnnDataType_t type, bool is_virtual,
                                                bool by_value) {
  const std::int64_t id = next_id_++;
  return Add(CUDNN_BACKEND_TENSOR_DESCRIPTOR, [&](Descriptor& tensor) -> absl::Status {
    GPUETA_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type}));
    GPUETA_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
                                      std::vector<std::int64_t>(dims.sizes.begin(), dims.sizes.end())));
    GPUETA_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
                                      std::vector<std::int64_t>(dims.strides.begin(), dims.strides.end())));
    GPUETA_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector{id}));
    GPUETA_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::vector{kAlignment}));
    // CUDNN_TYPE_BOOLEAN is a bool; std::vector<bool> has no address.
    const bool yes = true;
    if (is_virtual) {
      GPUETA_CUDNN(api_, cudnnBackendSetAttribute, tensor.get(), CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                   &yes);
    }
    if (by_value) {
      GPUETA_CUDNN(api_, cudnnBackendSetAttribute, tensor.get(), CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1,
                   &yes);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Graph::Tensor> Graph::AddTensor(const Dims& dims, cudnnDataType_t type, Place place) {
  const std::int64_t id = next_id_;
  GPUETA_ASSIGN_OR_RETURN(const Tensor tensor, MakeTensor(dims, type, false, false));
  std::size_t& bytes = BytesAt(place);
  const std::size_t offset = (bytes + kPlacement - 1) / kPlacement * kPlacement;
  bytes = offset + BytesOf(dims, type);
  bindings_.push_back({.id = id, .place = place, .offset = offset});
  return tensor;
}

absl::StatusOr<Graph::Tensor> Graph::AddVirtual(const Dims& dims, cudnnDataType_t type) {
  return MakeTensor(dims, type, true, false);
}

absl::StatusOr<Graph::Tensor> Graph::MakeScalar(cudnnDataType_t type, std::uint32_t bits) {
  scalars_.push_back({.id = next_id_, .bits = bits});
  return MakeTensor(Contiguous({1, 1, 1, 1}), type, false, true);
}

absl::StatusOr<Graph::Tensor> Graph::AddScalar(float value) {
  return MakeScalar(CUDNN_DATA_FLOAT, std::bit_cast<std::uint32_t>(value));
}

absl::StatusOr<Graph::Tensor> Graph::AddScalar(std::int32_t value) {
  return MakeScalar(CUDNN_DATA_INT32, std::bit_cast<std::uint32_t>(value));
}

absl::Status Graph::Finish(cudnnHandle_t handle) {
  GPUETA_ASSIGN_OR_RETURN(
      graph_, Add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, [&](Descriptor& graph) -> absl::Status {
        GPUETA_RETURN_IF_ERROR(graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle}));
        return graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_);
      }));
  return absl::OkStatus();
}

std::vector<std::pair<std::int64_t, void*>> Graph::AddressesIn(const Operands& operands, std::size_t scratch_offset) {
  std::vector<std::pair<std::int64_t, void*>> addresses;
  for (const Binding& binding : bindings_) {
    DevicePointer base = 0;
    switch (binding.place) {
      case Place::kWeights: base = operands.weights; break;
      case Place::kOutput: base = operands.output; break;
      case Place::kScratch: base = operands.workspace + scratch_offset; break;
      default: base = operands.inputs[static_cast<std::size_t>(binding.place)];
    }
    addresses.emplace_back(binding.id, reinterpret_cast<void*>(base + binding.offset));
  }
  for (Scalar& scalar : scalars_) addresses.emplace_back(scalar.id, &scalar.bits);
  return addresses;
}

}  // namespace gpueta::cudnn
