// A client for tests: blocking calls with a deadline, errors as absl::Status.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta::v1 {
class GetProfileResponse;
class Model;
class PredictRequest;
class PredictResponse;
class ProfileInfo;
class RegisterModelRequest;
class StreamPredictRequest;
class StreamPredictResponse;
}  // namespace gpueta::v1

namespace gpueta::testing_util {

// Longer than anything takes on a slow, busy machine under a sanitizer.
inline constexpr std::chrono::seconds kPatience{60};

class TestClient {
 public:
  explicit TestClient(const std::string& address);
  ~TestClient();

  absl::StatusOr<v1::PredictResponse> Predict(const v1::PredictRequest& request);
  // The p50 of a fixed kernel on a device, with the profile that answered.
  struct Answer {
    double p50 = 0;
    std::string profile_id;
    std::int64_t version = 0;
  };
  absl::StatusOr<Answer> Ask(const std::string& slug);

  // All items of a stream, written by a second thread; then the status.
  absl::Status Stream(const std::vector<v1::StreamPredictRequest>& items,
                      std::vector<v1::StreamPredictResponse>& answers);

  absl::StatusOr<v1::ProfileInfo> Publish(const std::string& parent, const std::string& file, bool activate);
  absl::StatusOr<v1::ProfileInfo> Activate(const std::string& name, const std::string& etag = "");
  absl::StatusOr<v1::ProfileInfo> Rollback(const std::string& parent, const std::string& etag = "");
  absl::StatusOr<std::vector<v1::ProfileInfo>> List(const std::string& parent);
  absl::StatusOr<v1::GetProfileResponse> Get(const std::string& name, bool full = false);
  absl::StatusOr<v1::Model> Register(const v1::RegisterModelRequest& request);

  // "SERVING", "NOT_SERVING" or the error.
  std::string Health(const std::string& service);

  // For calls that are not here.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  struct Stubs;
  std::unique_ptr<Stubs> stubs_;
};

// A context with the deadline kPatience from now.
std::unique_ptr<grpc::ClientContext> PatientContext();

// A request about `rows` GEMMs in columns; the rows differ by `seed`.
v1::PredictRequest GemmColumnsRequest(const std::string& slug, std::uint32_t rows, std::uint32_t seed = 1);

}  // namespace gpueta::testing_util
