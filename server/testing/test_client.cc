#include "server/testing/test_client.h"

#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <thread>

#include "gpueta/v1/prediction_service.grpc.pb.h"
#include "gpueta/v1/profile_service.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/status_mapping.h"

namespace gpueta::testing_util {
namespace {

template <class Response, class Call>
absl::StatusOr<Response> Blocking(Call call) {
  const auto context = PatientContext();
  Response response;
  const grpc::Status status = call(context.get(), &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

}  // namespace

std::unique_ptr<grpc::ClientContext> PatientContext() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
  return context;
}

struct TestClient::Stubs {
  std::unique_ptr<v1::PredictionService::Stub> predictions;
  std::unique_ptr<v1::ProfileService::Stub> profiles;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

TestClient::TestClient(const std::string& address) {
  // An idle client sees only every 5 s that its server wants to go, and the
  // server waits for that.
  setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", /*overwrite=*/1);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // Channels to one address would share a connection otherwise.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  stubs_ =
      std::make_unique<Stubs>(Stubs{v1::PredictionService::NewStub(channel_), v1::ProfileService::NewStub(channel_),
                                    grpc::health::v1::Health::NewStub(channel_)});
}

TestClient::~TestClient() = default;

absl::StatusOr<v1::PredictResponse> TestClient::Predict(const v1::PredictRequest& request) {
  return Blocking<v1::PredictResponse>(
      [&](auto* context, auto* response) { return stubs_->predictions->Predict(context, request, response); });
}

absl::StatusOr<TestClient::Answer> TestClient::Ask(const std::string& slug) {
  v1::PredictRequest request;
  request.add_devices()->set_slug(slug);
  request.mutable_kernel()->set_dtype(v1::DTYPE_BF16);
  request.mutable_kernel()->mutable_gemm()->set_m(512);
  request.mutable_kernel()->mutable_gemm()->set_n(512);
  request.mutable_kernel()->mutable_gemm()->set_k(512);
  const auto response = Predict(request);
  if (!response.ok()) return response.status();
  const v1::DevicePrediction& device = response->devices(0);
  return Answer{device.kernel().latency_us().p50(), device.profile().id(), device.profile().version()};
}

absl::Status TestClient::Stream(const std::vector<v1::StreamPredictRequest>& items,
                                std::vector<v1::StreamPredictResponse>& answers) {
  const auto context = PatientContext();
  const auto stream = stubs_->predictions->StreamPredict(context.get());
  std::thread writer([&] {
    for (const auto& item : items) {
      if (!stream->Write(item)) break;
    }
    stream->WritesDone();
  });
  v1::StreamPredictResponse answer;
  while (stream->Read(&answer)) answers.push_back(answer);
  writer.join();
  return FromGrpc(stream->Finish());
}

absl::StatusOr<v1::ProfileInfo> TestClient::Publish(const std::string& parent, const std::string& file, bool activate) {
  const auto context = PatientContext();
  v1::ProfileInfo info;
  const auto writer = stubs_->profiles->PublishProfile(context.get(), &info);
  v1::PublishProfileRequest part;
  part.mutable_header()->set_parent(parent);
  part.mutable_header()->set_activate(activate);
  part.mutable_header()->set_size_bytes(static_cast<std::int64_t>(file.size()));
  constexpr std::size_t kChunk = 256 << 10;
  bool open = writer->Write(part);
  for (std::size_t at = 0; open && at < file.size(); at += kChunk) {
    part.set_chunk(file.substr(at, kChunk));
    open = writer->Write(part);
  }
  writer->WritesDone();
  if (const grpc::Status status = writer->Finish(); !status.ok()) return FromGrpc(status);
  return info;
}

absl::StatusOr<v1::ProfileInfo> TestClient::Activate(const std::string& name, const std::string& etag) {
  v1::ActivateProfileRequest request;
  request.set_name(name);
  request.set_etag(etag);
  return Blocking<v1::ProfileInfo>(
      [&](auto* context, auto* response) { return stubs_->profiles->ActivateProfile(context, request, response); });
}

absl::StatusOr<v1::ProfileInfo> TestClient::Rollback(const std::string& parent, const std::string& etag) {
  v1::RollbackProfileRequest request;
  request.set_parent(parent);
  request.set_etag(etag);
  return Blocking<v1::ProfileInfo>(
      [&](auto* context, auto* response) { return stubs_->profiles->RollbackProfile(context, request, response); });
}

absl::StatusOr<std::vector<v1::ProfileInfo>> TestClient::List(const std::string& parent) {
  v1::ListProfilesRequest request;
  request.set_parent(parent);
  request.set_page_size(1000);
  const auto response = Blocking<v1::ListProfilesResponse>(
      [&](auto* context, auto* answer) { return stubs_->profiles->ListProfiles(context, request, answer); });
  if (!response.ok()) return response.status();
  return std::vector<v1::ProfileInfo>(response->profiles().begin(), response->profiles().end());
}

absl::StatusOr<v1::GetProfileResponse> TestClient::Get(const std::string& name, bool full) {
  v1::GetProfileRequest request;
  request.set_name(name);
  if (full) request.set_view(v1::GetProfileRequest::VIEW_FULL);
  return Blocking<v1::GetProfileResponse>(
      [&](auto* context, auto* response) { return stubs_->profiles->GetProfile(context, request, response); });
}

absl::StatusOr<v1::Model> TestClient::Register(const v1::RegisterModelRequest& request) {
  return Blocking<v1::Model>(
      [&](auto* context, auto* response) { return stubs_->predictions->RegisterModel(context, request, response); });
}

std::string TestClient::Health(const std::string& service) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const auto response = Blocking<grpc::health::v1::HealthCheckResponse>(
      [&](auto* context, auto* answer) { return stubs_->health->Check(context, request, answer); });
  return response.ok() ? grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response->status())
                       : response.status().ToString();
}

v1::PredictRequest GemmColumnsRequest(const std::string& slug, std::uint32_t rows, std::uint32_t seed) {
  v1::PredictRequest request;
  request.add_devices()->set_slug(slug);
  v1::KernelColumns& columns = *request.mutable_columns();
  columns.set_dtype(v1::DTYPE_BF16);
  v1::GemmColumns& gemm = *columns.mutable_gemm();
  gemm.mutable_m()->Reserve(static_cast<int>(rows));
  gemm.mutable_n()->Reserve(static_cast<int>(rows));
  gemm.mutable_k()->Reserve(static_cast<int>(rows));
  std::uint32_t state = seed;
  const auto draw = [&state](std::uint32_t limit) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator
    return 1 + (state >> 8) % limit;
  };
  for (std::uint32_t row = 0; row < rows; ++row) {
    gemm.add_m(draw(8192));
    gemm.add_n(draw(16384));
    gemm.add_k(draw(16384));
  }
  return request;
}

}  // namespace gpueta::testing_util
