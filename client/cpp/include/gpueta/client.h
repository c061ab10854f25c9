// The C++ client of gpueta.
//
//   auto client = gpueta::Client::Connect("127.0.0.1:7410");
//   gpueta::v1::PredictRequest request;
//   request.add_devices()->set_slug("h100-sxm");
//   auto* kernel = request.mutable_kernel();
//   kernel->set_dtype(gpueta::v1::DTYPE_BF16);
//   kernel->mutable_gemm()->set_m(4096); …
//   absl::StatusOr<gpueta::v1::PredictResponse> response = client->Predict(request);
//
// Requests and responses are the messages of proto/gpueta/v1, whose comments
// are the manual. Errors carry the server's code and message; the message names
// the field at fault.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpueta/v1/observation.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "gpueta/v1/serving.pb.h"

namespace gpueta {

struct ClientOptions {
  // For each call, its retries included. A stream has none.
  std::chrono::milliseconds deadline{10'000};
  // Calls that did not reach the server (UNAVAILABLE) are tried again after a
  // pause that doubles each time. All calls of this client may be repeated
  // safely.
  int attempts = 5;
  std::chrono::milliseconds first_pause{100};
  std::chrono::milliseconds longest_pause{5'000};
  // Largest answer accepted.
  int max_message_bytes = 64 << 20;
};

// One bidirectional stream of questions. Write and Read may be called from
// two threads, one each; nothing else may be concurrent.
template <class Request, class Response>
class Stream {
 public:
  virtual ~Stream() = default;
  // False when the stream is broken; Finish then says why.
  virtual bool Write(const Request& request) = 0;
  virtual void WritesDone() = 0;
  // False at the end of the stream.
  virtual bool Read(Response* response) = 0;
  // Call once, after Read returned false.
  virtual absl::Status Finish() = 0;
};
using PredictStream = Stream<v1::StreamPredictRequest, v1::StreamPredictResponse>;
using AdmitStream = Stream<v1::StreamAdmitRequest, v1::StreamAdmitResponse>;

// Thread-safe but for the streams it gives out. Movable, not copyable.
class Client {
 public:
  // Connecting happens with the first call; this checks the address only.
  static absl::StatusOr<Client> Connect(const std::string& address, ClientOptions options = {});
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // OK when the server is ready to answer.
  absl::Status CheckHealth();

  absl::StatusOr<v1::PredictResponse> Predict(const v1::PredictRequest& request);
  std::unique_ptr<PredictStream> StreamPredict();
  absl::StatusOr<v1::Model> RegisterModel(const v1::RegisterModelRequest& request);
  absl::StatusOr<v1::Model> GetModel(const v1::GetModelRequest& request);
  absl::StatusOr<v1::ListModelsResponse> ListModels(const v1::ListModelsRequest& request);
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request);
  absl::StatusOr<v1::RankDevicesResponse> RankDevices(const v1::RankDevicesRequest& request);

  absl::StatusOr<v1::AdmitResponse> Admit(const v1::AdmitRequest& request);
  // Keeps what it is told of replicas until it ends.
  std::unique_ptr<AdmitStream> StreamAdmit();
  absl::StatusOr<v1::MaxBatchResponse> MaxBatch(const v1::MaxBatchRequest& request);
  absl::StatusOr<v1::FitEngineOverheadResponse> FitEngineOverhead(const v1::FitEngineOverheadRequest& request);

  // `file` holds the bytes of a profile file; `parent` is `devices/{slug}` or
  // `devices/{slug}/nodes/{node}`.
  absl::StatusOr<v1::ProfileInfo> PublishProfile(const std::string& parent, std::string_view file, bool activate);
  // The same in the shadow of the active profile: it answers nobody until it is
  // shown to be better on what is observed. `parent` must be a device.
  absl::StatusOr<v1::ProfileInfo> PublishProfileInShadow(const std::string& parent, std::string_view file);
  absl::StatusOr<v1::ListProfilesResponse> ListProfiles(const v1::ListProfilesRequest& request);
  absl::StatusOr<v1::GetProfileResponse> GetProfile(const v1::GetProfileRequest& request);
  absl::StatusOr<v1::ProfileInfo> ActivateProfile(const v1::ActivateProfileRequest& request);
  absl::StatusOr<v1::ProfileInfo> RollbackProfile(const v1::RollbackProfileRequest& request);
  // Calls `on_event` until it returns false or the stream breaks.
  absl::Status WatchProfiles(const v1::WatchProfilesRequest& request,
                             const std::function<bool(const v1::ProfileEvent&)>& on_event);
  absl::Status WatchCalibrationTasks(const v1::WatchCalibrationTasksRequest& request,
                                     const std::function<bool(const v1::CalibrationTask&)>& on_task);

  // All messages in one stream. Once it is OK, the server has them on disk, if
  // it keeps a store. Repeated after a lost connection, which is safe for what
  // was predicted under an id: duplicates are refused.
  absl::StatusOr<v1::ReportObservationsResponse> ReportObservations(
      const std::vector<v1::ReportObservationsRequest>& messages);
  absl::StatusOr<v1::GetErrorSummaryResponse> GetErrorSummary(const v1::GetErrorSummaryRequest& request);

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpueta
