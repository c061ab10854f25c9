// Traffic for the dashboards: asks a server for predictions of all kinds and
// reports observations, round after round, until standard input ends. Prints
// what it did, one "name value" a line, after each round.

#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpueta/v1/observation.grpc.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/testing/test_client.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

using testing_util::GemmColumnsRequest;
using testing_util::MakeTestProfileFile;
using testing_util::PatientContext;
using testing_util::TestClient;

// What is observed over what was predicted without correction.
constexpr double kGemmBefore = 1.0;
constexpr double kGemmAfter = 1.5;  // from round kDriftRound on
constexpr int kDriftRound = 2;
constexpr double kGraph = 1.1;

void Require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "traffic: %s failed\n", what);
  std::exit(1);
}

v1::PredictRequest GemmRequest(std::int64_t m) {
  v1::PredictRequest request;
  request.add_devices()->set_slug("t4");
  request.mutable_kernel()->set_dtype(v1::DTYPE_FP32);
  request.mutable_kernel()->mutable_gemm()->set_m(m);
  request.mutable_kernel()->mutable_gemm()->set_n(1024);
  request.mutable_kernel()->mutable_gemm()->set_k(1024);
  return request;
}

v1::RegisterModelRequest Model() {
  v1::RegisterModelRequest request;
  request.set_alias("mlp");
  v1::Graph& graph = *request.mutable_graph();
  graph.set_display_name("mlp");
  v1::Kernel& kernel = *graph.add_nodes()->mutable_kernel();
  kernel = GemmRequest(64).kernel();
  kernel.set_name("fc");
  return request;
}

class Traffic {
 public:
  explicit Traffic(const std::string& address)
      : client_(address), observations_(v1::ObservationService::NewStub(client_.channel())) {
    for (const char* device : {"t4", "l4"})
      Require(client_.Publish(std::string("devices/") + device, MakeTestProfileFile(device), true).ok(), "publish");
    Require(client_.Register(Model()).ok(), "register");
  }

  void Round(int round) {
    v1::ReportObservationsRequest report;
    for (int i = 0; i < 60; ++i) {
      const auto answer = client_.Predict(GemmRequest(1 << i % 14));
      Require(answer.ok(), "predict");
      const v1::KernelPrediction& kernel = answer->devices(0).kernel();
      const double factor = round < kDriftRound ? kGemmBefore : kGemmAfter;
      Add(report, kernel.prediction_id(), factor * kernel.latency_us().p50() / kernel.correction(), i % 3);
      v1::PredictRequest model;
      model.add_devices()->set_slug("l4");
      model.mutable_model()->set_model("models/mlp");
      const auto graph = client_.Predict(model);
      Require(graph.ok(), "predict a model");
      const v1::GraphPrediction& prediction = graph->devices(0).graph();
      Add(report, prediction.prediction_id(), kGraph * prediction.latency_us().p50() / prediction.correction(), i % 3);
    }
    Add(report, "not an id", 1, 0);
    const auto context = PatientContext();
    v1::ReportObservationsResponse response;
    const auto writer = observations_->ReportObservations(context.get(), &response);
    writer->Write(report);
    writer->WritesDone();
    Require(writer->Finish().ok(), "report");
    accepted_ += response.accepted();

    std::vector<v1::StreamPredictResponse> answers;
    v1::StreamPredictRequest item;
    *item.mutable_request() = GemmColumnsRequest("t4", 100);
    Require(client_.Stream({item}, answers).ok(), "stream");
    // Calls that fail, one of them at a limit.
    Require(!client_.Predict(GemmRequest(-1)).ok(), "refusing a bad dim");
    v1::PredictRequest many = GemmRequest(1);
    for (int i = 0; i < 8; ++i) many.add_devices()->set_slug("t4");
    Require(absl::IsResourceExhausted(client_.Predict(many).status()), "refusing many devices");
    std::printf("round %d\naccepted %lld\n", round, static_cast<long long>(accepted_));
    std::fflush(stdout);
  }

 private:
  static void Add(v1::ReportObservationsRequest& report, const std::string& id, double us, int node) {
    v1::Observation& observation = *report.mutable_observations()->add_observations();
    observation.set_prediction_id(id);
    observation.set_latency_us(us);
    observation.set_node("node-" + std::to_string(node));
  }

  TestClient client_;
  std::unique_ptr<v1::ObservationService::Stub> observations_;
  std::int64_t accepted_ = 0;
};

// Whether standard input ends within the time.
bool InputEnds(int milliseconds) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char byte;
  return poll(&input, 1, milliseconds) > 0 && read(STDIN_FILENO, &byte, 1) == 0;
}

}  // namespace
}  // namespace gpueta

int main(int argc, char** argv) {
  gpueta::Require(argc == 2, "usage: traffic ADDRESS");
  gpueta::Traffic traffic(argv[1]);
  constexpr int kPauseMs = 200;
  for (int round = 0; !gpueta::InputEnds(kPauseMs); ++round) traffic.Round(round);
}
