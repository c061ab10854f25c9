#include "gpueta/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "client/cpp/retry.h"
#include "gpueta/v1/observation.grpc.pb.h"
#include "gpueta/v1/prediction_service.grpc.pb.h"
#include "gpueta/v1/profile_service.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace gpueta {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;  // as PublishProfileRequest allows

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

std::chrono::system_clock::time_point ToSystem(std::chrono::steady_clock::time_point deadline) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(deadline - std::chrono::steady_clock::now());
}

template <class Request, class Response>
class GrpcStream : public Stream<Request, Response> {
 public:
  using Call = std::unique_ptr<grpc::ClientReaderWriter<Request, Response>>;
  GrpcStream(v1::PredictionService::Stub& stub, Call (v1::PredictionService::Stub::*method)(grpc::ClientContext*))
      : stream_((stub.*method)(&context_)) {}
  bool Write(const Request& request) override { return stream_->Write(request); }
  void WritesDone() override { stream_->WritesDone(); }
  bool Read(Response* response) override { return stream_->Read(response); }
  absl::Status Finish() override { return ToAbsl(stream_->Finish()); }

 private:
  grpc::ClientContext context_;
  Call stream_;
};

}  // namespace

struct Client::State {
  ClientOptions options;
  std::string address;
  std::unique_ptr<v1::PredictionService::Stub> predictions;
  std::unique_ptr<v1::ProfileService::Stub> profiles;
  std::unique_ptr<v1::ObservationService::Stub> observations;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;

  // A unary call of a stub's method, repeated as the options say.
  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Call(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request) {
    Response response;
    const absl::Status status = client::Retry(options, client::RealClock(), [&](auto deadline) {
      grpc::ClientContext context;
      context.set_deadline(ToSystem(deadline));
      return ToAbsl((stub.*method)(&context, request, &response));
    });
    if (!status.ok()) return Located(status);
    return response;
  }

  // Of `header` the size is filled in.
  absl::StatusOr<v1::ProfileInfo> Publish(const v1::PublishProfileRequest::Header& header, std::string_view file);

  // The address belongs to errors of the connection.
  absl::Status Located(const absl::Status& status) const {
    if (status.code() != absl::StatusCode::kUnavailable) return status;
    return absl::UnavailableError("no answer from a server at " + address + ": " + std::string(status.message()) +
                                  "; is gpueta-server running there?");
  }
};

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

absl::StatusOr<Client> Client::Connect(const std::string& address, ClientOptions options) {
  if (address.empty() || address.find(':') == std::string::npos) {
    return absl::InvalidArgumentError("the server's address must be HOST:PORT or unix:PATH, not \"" + address + "\"");
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  auto state = std::make_unique<State>();
  state->options = options;
  state->address = address;
  state->predictions = v1::PredictionService::NewStub(channel);
  state->profiles = v1::ProfileService::NewStub(channel);
  state->observations = v1::ObservationService::NewStub(channel);
  state->health = grpc::health::v1::Health::NewStub(channel);
  return Client(std::move(state));
}

absl::Status Client::CheckHealth() {
  using grpc::health::v1::HealthCheckRequest;
  using grpc::health::v1::HealthCheckResponse;
  const absl::StatusOr<HealthCheckResponse> response =
      state_->Call(*state_->health, &grpc::health::v1::Health::Stub::Check, HealthCheckRequest());
  if (!response.ok()) return response.status();
  if (response->status() != HealthCheckResponse::SERVING)
    return absl::UnavailableError("the server at " + state_->address + " is not ready");
  return absl::OkStatus();
}

absl::StatusOr<v1::PredictResponse> Client::Predict(const v1::PredictRequest& request) {
  return state_->Call(*state_->predictions, &v1::PredictionService::Stub::Predict, request);
}

std::unique_ptr<PredictStream> Client::StreamPredict() {
  return std::make_unique<GrpcStream<v1::StreamPredictRequest, v1::StreamPredictResponse>>(
      *state_->predictions, &v1::PredictionService::Stub::StreamPredict);
}

absl::StatusOr<v1::AdmitResponse> Client::Admit(const v1::AdmitRequest& request) {
  return state_->Call(*state_->predictions, &v1::PredictionService::Stub::Admit, request);
}

std::unique_ptr<AdmitStream> Client::StreamAdmit() {
  return std::make_unique<GrpcStream<v1::StreamAdmitRequest, v1::StreamAdmitResponse>>(
      *state_->predictions, &v1::PredictionService::Stub::StreamAdmit);
}

absl::StatusOr<v1::MaxBatchResponse> Client::MaxBatch(const v1::MaxBatchRequest& request) {
  return state_->Call(*state_->predictions, &v1::PredictionService::Stub::MaxBatch, request);
}

absl::StatusOr<v1::FitEngineOverheadResponse> Client::FitEngineOverhead(const v1::FitEngineOverheadRequest& request) {
  return state_->Call(*state_->predictions, &v1::PredictionService::Stub::FitEngineOverhead, request);
}

absl::StatusOr<v1::Model> Client::RegisterModel(const v1::RegisterModelRequest& request) {
  return state_->Call(*state_->predictions, &v1::PredictionService::Stub::RegisterModel, request);
}

absl::StatusOr<v1::Model> Client::GetModel(const v1::GetModelRequest& request) {
  return state_->Call(*state_->predictions, &v1::PredictionService::Stub::GetModel, request);
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels(const v1::ListModelsRequest& request) {
  return state_->Call(*state_->predictions, &v1::PredictionService::Stub::ListModels, request);
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const v1::ExplainRequest& request) {
  return state_->Call(*state_->predictions, &v1::PredictionService::Stub::Explain, request);
}

absl::StatusOr<v1::RankDevicesResponse> Client::RankDevices(const v1::RankDevicesRequest& request) {
  return state_->Call(*state_->predictions, &v1::PredictionService::Stub::RankDevices, request);
}

absl::StatusOr<v1::ProfileInfo> Client::State::Publish(const v1::PublishProfileRequest::Header& header,
                                                       std::string_view file) {
  v1::ProfileInfo info;
  const absl::Status status = client::Retry(options, client::RealClock(), [&](auto deadline) {
    grpc::ClientContext context;
    context.set_deadline(ToSystem(deadline));
    auto writer = profiles->PublishProfile(&context, &info);
    v1::PublishProfileRequest request;
    *request.mutable_header() = header;
    request.mutable_header()->set_size_bytes(static_cast<std::int64_t>(file.size()));
    bool sent = writer->Write(request);
    for (std::size_t start = 0; sent && start < file.size(); start += kChunkBytes) {
      request.set_chunk(std::string(file.substr(start, kChunkBytes)));
      sent = writer->Write(request);
    }
    writer->WritesDone();
    return ToAbsl(writer->Finish());  // says why, where a write failed
  });
  if (!status.ok()) return Located(status);
  return info;
}

absl::StatusOr<v1::ProfileInfo> Client::PublishProfile(const std::string& parent, std::string_view file,
                                                       bool activate) {
  v1::PublishProfileRequest::Header header;
  header.set_parent(parent);
  header.set_activate(activate);
  return state_->Publish(header, file);
}

absl::StatusOr<v1::ProfileInfo> Client::PublishProfileInShadow(const std::string& parent, std::string_view file) {
  v1::PublishProfileRequest::Header header;
  header.set_parent(parent);
  header.set_shadow(true);
  return state_->Publish(header, file);
}

absl::StatusOr<v1::ListProfilesResponse> Client::ListProfiles(const v1::ListProfilesRequest& request) {
  return state_->Call(*state_->profiles, &v1::ProfileService::Stub::ListProfiles, request);
}

absl::StatusOr<v1::GetProfileResponse> Client::GetProfile(const v1::GetProfileRequest& request) {
  return state_->Call(*state_->profiles, &v1::ProfileService::Stub::GetProfile, request);
}

absl::StatusOr<v1::ProfileInfo> Client::ActivateProfile(const v1::ActivateProfileRequest& request) {
  return state_->Call(*state_->profiles, &v1::ProfileService::Stub::ActivateProfile, request);
}

absl::StatusOr<v1::ProfileInfo> Client::RollbackProfile(const v1::RollbackProfileRequest& request) {
  return state_->Call(*state_->profiles, &v1::ProfileService::Stub::RollbackProfile, request);
}

namespace {

// Reads until `on_event` returns false; whether it did.
template <class Event>
bool ReadUntil(grpc::ClientReader<Event>& reader, const std::function<bool(const Event&)>& on_event) {
  Event event;
  while (reader.Read(&event)) {
    if (!on_event(event)) return true;
  }
  return false;
}

}  // namespace

absl::Status Client::WatchProfiles(const v1::WatchProfilesRequest& request,
                                   const std::function<bool(const v1::ProfileEvent&)>& on_event) {
  grpc::ClientContext context;
  auto reader = state_->profiles->WatchProfiles(&context, request);
  const bool stopped = ReadUntil(*reader, on_event);
  if (stopped) context.TryCancel();
  const absl::Status status = ToAbsl(reader->Finish());
  return stopped ? absl::OkStatus() : state_->Located(status);
}

absl::Status Client::WatchCalibrationTasks(const v1::WatchCalibrationTasksRequest& request,
                                           const std::function<bool(const v1::CalibrationTask&)>& on_task) {
  grpc::ClientContext context;
  auto reader = state_->profiles->WatchCalibrationTasks(&context, request);
  const bool stopped = ReadUntil(*reader, on_task);
  if (stopped) context.TryCancel();
  const absl::Status status = ToAbsl(reader->Finish());
  return stopped ? absl::OkStatus() : state_->Located(status);
}

absl::StatusOr<v1::ReportObservationsResponse> Client::ReportObservations(
    const std::vector<v1::ReportObservationsRequest>& messages) {
  v1::ReportObservationsResponse response;
  const absl::Status status = client::Retry(state_->options, client::RealClock(), [&](auto deadline) {
    grpc::ClientContext context;
    context.set_deadline(ToSystem(deadline));
    auto writer = state_->observations->ReportObservations(&context, &response);
    for (const v1::ReportObservationsRequest& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return ToAbsl(writer->Finish());  // says why, where a write failed
  });
  if (!status.ok()) return state_->Located(status);
  return response;
}

absl::StatusOr<v1::GetErrorSummaryResponse> Client::GetErrorSummary(const v1::GetErrorSummaryRequest& request) {
  return state_->Call(*state_->observations, &v1::ObservationService::Stub::GetErrorSummary, request);
}

}  // namespace gpueta
