// Operation graphs of cuDNN and where their tensors lie. Only built where there is
// cudnn_graph.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/ops/cudnn/descriptor.h"
#include "calibration/backends/cuda/ops/cudnn/engine_name.h"
#include "calibration/backends/cuda/ops/operation.h"
#include "core/ops/kernel.h"

namespace gpueta::cudnn {

// Which memory of an operation a tensor lies in. Scratch is a part of the workspace, whose
// contents nobody needs.
enum class Place : std::uint8_t { kInput0, kInput1, kInput2, kInput3, kWeights, kOutput, kScratch };

struct Dims {
  std::array<std::int64_t, 4> sizes{};
  std::array<std::int64_t, 4> strides{};
};
// With strides of that order: the last dim is contiguous.
Dims Contiguous(const std::array<std::int64_t, 4>& sizes);

// Types that graphs are built for; nullopt for others.
std::optional<cudnnDataType_t> TypeOf(DType dtype);

// A graph and everything that it refers to. Built from tensors to operations; Finish
// makes it ready. Errors name the call.
class Graph {
 public:
  using Tensor = const Descriptor*;  // lives as long as the graph

  explicit Graph(const Api& api) : api_(api) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  // In device memory, at a multiple of 256 bytes behind what lies in the place already.
  absl::StatusOr<Tensor> AddTensor(const Dims& dims, cudnnDataType_t type, Place place);
  // Between two operations only.
  absl::StatusOr<Tensor> AddVirtual(const Dims& dims, cudnnDataType_t type);
  absl::StatusOr<Tensor> AddScalar(float value);
  absl::StatusOr<Tensor> AddScalar(std::int32_t value);
  // An operation, or what one refers to; `set` sets its attributes.
  template <class Set>
  absl::StatusOr<const Descriptor*> Add(cudnnBackendDescriptorType_t type, const Set& set) {
    GPUETA_ASSIGN_OR_RETURN(Descriptor made, Descriptor::Create(api_, type));
    GPUETA_RETURN_IF_ERROR(set(made));
    GPUETA_RETURN_IF_ERROR(made.Finalize());
    return Keep(std::move(made));
  }
  template <class Set>
  absl::Status AddOperation(cudnnBackendDescriptorType_t type, const Set& set) {
    GPUETA_ASSIGN_OR_RETURN(const Descriptor* made, Add(type, set));
    operations_.push_back(made->get());
    return absl::OkStatus();
  }
  absl::Status Finish(cudnnHandle_t handle);

  const Descriptor& get() const { return *graph_; }
  const OperandBytes& bytes() const { return bytes_; }  // of workspace: the scratch
  // Ids and addresses of all tensors, for variant packs; the scratch begins at
  // `scratch_offset` of the workspace. Scalars are in the graph.
  std::vector<std::pair<std::int64_t, void*>> AddressesIn(const Operands& operands, std::size_t scratch_offset);

 private:
  struct Binding {
    std::int64_t id = 0;
    Place place = Place::kInput0;
    std::size_t offset = 0;  // bytes
  };
  struct Scalar {
    std::int64_t id = 0;
    std::uint32_t bits = 0;
  };

  const Descriptor* Keep(Descriptor descriptor);
  std::size_t& BytesAt(Place place);
  absl::StatusOr<Tensor> MakeScalar(cudnnDataType_t type, std::uint32_t bits);
  absl::StatusOr<Tensor> MakeTensor(const Dims& dims, cudnnDataType_t type, bool is_virtual, bool by_value);

  const Api& api_;
  std::deque<Descriptor> parts_;  // each refers to those before it only
  std::vector<cudnnBackendDescriptor_t> operations_;
  const Descriptor* graph_ = nullptr;
  std::int64_t next_id_ = 1;
  std::vector<Binding> bindings_;
  std::deque<Scalar> scalars_;
  OperandBytes bytes_;
};

// The kernel's convolution, forward or one of its gradients. Operands: the input or its
// gradient, the weights or theirs, the output or its; what is computed is the output.
absl::StatusOr<std::unique_ptr<Graph>> MakeConvolution(const Api& api, cudnnHandle_t handle, const Conv2d& conv,
                                                       DType dtype, Pass pass);

// UNIMPLEMENTED saying what keeps cuDNN of this version (91900 is 9.19.0) from the kernel.
absl::Status SupportsAttention(const Attention& attention, DType dtype, Pass pass, std::size_t version);

// Fused attention, forward or backward; causal forward behind a cached prefix too, where
// the last query sees all keys. Operands: forward queries, keys and values (one behind the
// other in the weights where they are cached: cached_keys.h), then the output; with
// statistics the logarithm of each row's sum follows it. Backward queries, keys, values,
// then output, its gradient and the statistics one behind the other; the output holds the
// gradients of queries, keys and values. Rows are stored by batch, row, head. What follows
// another begins at a multiple of 256 bytes.
absl::StatusOr<std::unique_ptr<Graph>> MakeAttention(const Api& api, cudnnHandle_t handle, const Attention& attention,
                                                     DType dtype, Pass pass, bool with_statistics = false);

}  // namespace gpueta::cudnn
