#include "calibration/backends/cuda/driver/nccl_communicators.h"

#include <optional>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// What is moved has the type's size; only sums need the type itself.
std::optional<int> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return nccl::kFloat64;
    case DType::kFp32:
    case DType::kTf32: return nccl::kFloat32;
    case DType::kFp16: return nccl::kFloat16;
    case DType::kBf16: return nccl::kBfloat16;
    case DType::kFp8:
    case DType::kInt8: return nccl::kInt8;
    case DType::kInt4: return std::nullopt;
  }
  return std::nullopt;
}

class NcclCommunicators : public Communicators {
 public:
  NcclCommunicators(const nccl::Api& api, std::vector<CudaDevice*> devices)
      : api_(api), devices_(std::move(devices)), comms_(devices_.size(), nullptr) {}
  NcclCommunicators(const NcclCommunicators&) = delete;
  NcclCommunicators& operator=(const NcclCommunicators&) = delete;
  ~NcclCommunicators() override {
    for (const nccl::Comm comm : comms_) {
      if (comm != nullptr) api_.ncclCommDestroy(comm);
    }
  }

  absl::Status Init() {
    std::vector<int> ordinals;
    for (const CudaDevice* device : devices_) ordinals.push_back(device->properties().ordinal);
    absl::Status status =
        nccl::StatusOf(api_, api_.ncclCommInitAll(comms_.data(), static_cast<int>(ordinals.size()), ordinals.data()),
                       "ncclCommInitAll");
    if (!status.ok()) comms_.clear();  // what a failed try leaves is not ours to end
    return status;
  }

  absl::Status Enqueue(const std::vector<std::vector<ExchangeCall>>& calls, DType dtype,
                       std::span<const StreamHandle> streams) override {
    if (comms_.empty()) return FailedPrecondition("the ranks' connection was ended");
    const std::optional<int> type = TypeOf(dtype);
    if (!type.has_value()) return absl::UnimplementedError(fmt::format("NCCL has no {}", Name(dtype)));
    GPUETA_RETURN_IF_ERROR(nccl::StatusOf(api_, api_.ncclGroupStart(), "ncclGroupStart"));
    absl::Status status;
    for (std::size_t rank = 0; rank < calls.size() && status.ok(); ++rank) {
      void* stream = devices_[rank]->NativeStream(streams[rank]);
      for (const ExchangeCall& call : calls[rank]) {
        status.Update(Add(call, *type, comms_[rank], stream));
        if (!status.ok()) break;
      }
    }
    // What was begun is ended, whatever came of it.
    status.Update(nccl::StatusOf(api_, api_.ncclGroupEnd(), "ncclGroupEnd"));
    return status;
  }

  absl::Status Health() override {
    for (const nccl::Comm comm : comms_) {
      nccl::Result error = nccl::kSuccess;
      GPUETA_RETURN_IF_ERROR(nccl::StatusOf(api_, api_.ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError"));
      if (error == nccl::kInProgress) continue;
      GPUETA_RETURN_IF_ERROR(nccl::StatusOf(api_, error, "NCCL"));
    }
    return absl::OkStatus();
  }

  void Abort() override {
    for (const nccl::Comm comm : std::exchange(comms_, {})) api_.ncclCommAbort(comm);
  }

 private:
  absl::Status Add(const ExchangeCall& call, int type, nccl::Comm comm, void* stream) const {
    const void* from = reinterpret_cast<const void*>(call.from);
    void* to = reinterpret_cast<void*>(call.to);
    switch (call.what) {
      case Exchange::kAllReduce:
        return nccl::StatusOf(api_, api_.ncclAllReduce(from, to, call.count, type, nccl::kSum, comm, stream),
                              "ncclAllReduce");
      case Exchange::kAllGather:
        return nccl::StatusOf(api_, api_.ncclAllGather(from, to, call.count, type, comm, stream), "ncclAllGather");
      case Exchange::kReduceScatter:
        return nccl::StatusOf(api_, api_.ncclReduceScatter(from, to, call.count, type, nccl::kSum, comm, stream),
                              "ncclReduceScatter");
      case Exchange::kSend:
        return nccl::StatusOf(api_, api_.ncclSend(from, call.count, type, call.peer, comm, stream), "ncclSend");
      case Exchange::kReceive:
        return nccl::StatusOf(api_, api_.ncclRecv(to, call.count, type, call.peer, comm, stream), "ncclRecv");
    }
    return absl::OkStatus();
  }

  const nccl::Api& api_;
  std::vector<CudaDevice*> devices_;
  std::vector<nccl::Comm> comms_;  // of each rank; none after Abort
};

class NcclLibrary : public CollectiveLibrary {
 public:
  explicit NcclLibrary(const nccl::Api& api) : api_(api) {}

  std::string name() const override { return "nccl"; }
  std::string version() const override {
    int version = 0;  // 22809 is 2.28.9
    if (api_.ncclGetVersion(&version) != nccl::kSuccess) return "";
    return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
  }
  absl::StatusOr<std::unique_ptr<Communicators>> Connect(std::span<CudaDevice* const> devices) override {
    auto connected =
        std::make_unique<NcclCommunicators>(api_, std::vector<CudaDevice*>(devices.begin(), devices.end()));
    GPUETA_RETURN_IF_ERROR(connected->Init());
    return connected;
  }

 private:
  const nccl::Api& api_;
};

}  // namespace

std::unique_ptr<CollectiveLibrary> MakeNcclLibrary(const nccl::Api& api) { return std::make_unique<NcclLibrary>(api); }

absl::StatusOr<std::unique_ptr<CollectiveLibrary>> OpenNccl() {
  GPUETA_ASSIGN_OR_RETURN(const nccl::Api* api, nccl::Load());
  return MakeNcclLibrary(*api);
}

}  // namespace gpueta
