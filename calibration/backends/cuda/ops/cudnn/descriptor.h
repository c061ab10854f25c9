// Descriptors of cuDNN's graph API. Only built where there is cudnn_graph.h.
#pragma once

#include <cudnn_graph.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/errors.h"

namespace gpueta::cudnn {

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

  // OK, or "cudnnBackendFinalize: CUDNN_STATUS_NOT_SUPPORTED": UNIMPLEMENTED for bad
  // parameters and what it does not support, else INTERNAL.
  absl::Status StatusOf(cudnnStatus_t status, const char* call) const;
};

// Opens the library, once a process. FAILED_PRECONDITION saying what is missing.
absl::StatusOr<const Api*> Load();

// Calls a function of an Api and returns its error.
#define GPUETA_CUDNN(api, function, ...) GPUETA_RETURN_IF_ERROR((api).StatusOf((api).function(__VA_ARGS__), #function))

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

}  // namespace gpueta::cudnn
