// gpueta-echo: the yardstick. Serves Predict, StreamPredict and Admit with answers of
// the same shape and size as gpueta-server's, without predicting: what it does
// in a second is the most that any server of these messages can do.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "core/base/errors.h"
#include "core/wire/prediction_codec.h"
#include "gpueta/v1/prediction_service.grpc.pb.h"
#include "server/limits.h"
#include "server/logging.h"
#include "server/rpc/listen.h"
#include "server/rpc/message_arena.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/stream_predict.h"
#include "server/signals.h"
#include "server/status_details.h"

namespace gpueta {
namespace {

constexpr Estimate kAnswer = {
    .latency_us = {10, 12, 15}, .provenance = Provenance::kInterpolated, .estimator = "family"};

void Fill(const v1::Kernel& kernel, v1::KernelPrediction& prediction) {
  prediction.set_name(kernel.name());
  wire::Encode(kAnswer, prediction);
}

absl::Status Fill(const v1::PredictRequest& request, v1::DevicePrediction& prediction) {
  switch (request.workload_case()) {
    case v1::PredictRequest::kKernel: Fill(request.kernel(), *prediction.mutable_kernel()); return absl::OkStatus();
    case v1::PredictRequest::kKernels:
      for (const v1::Kernel& kernel : request.kernels().kernels())
        Fill(kernel, *prediction.mutable_kernels()->add_kernels());
      return absl::OkStatus();
    case v1::PredictRequest::kColumns: {
      GPUETA_ASSIGN_OR_RETURN(const KernelColumns columns, wire::Decode(request.columns()));
      v1::ColumnsPrediction& out = *prediction.mutable_columns();
      const int rows = static_cast<int>(columns.rows);
      out.mutable_p50_us()->Resize(rows, static_cast<float>(kAnswer.latency_us.p50));
      out.mutable_p90_us()->Resize(rows, static_cast<float>(kAnswer.latency_us.p90));
      out.mutable_p99_us()->Resize(rows, static_cast<float>(kAnswer.latency_us.p99));
      if (request.options().column_provenance()) out.mutable_provenance()->Resize(rows, v1::PROVENANCE_INTERPOLATED);
      out.set_correction(1);
      out.set_estimator(std::string(kAnswer.estimator));
      return absl::OkStatus();
    }
    case v1::PredictRequest::kGraph:
      for (const v1::Graph::Node& node : request.graph().graph().nodes()) {
        v1::GraphPrediction::Part& part = *prediction.mutable_graph()->add_kernels();
        part.set_name(node.kernel().name());
        *part.mutable_kernel() = node.kernel();
      }
      return absl::OkStatus();
    case v1::PredictRequest::kModel:
    case v1::PredictRequest::kSteps:
    case v1::PredictRequest::WORKLOAD_NOT_SET: break;
  }
  return FieldError("workload", "must be one of kernel, kernels, columns and graph: the echo server keeps no models");
}

absl::Status Echo(const v1::PredictRequest& request, v1::PredictResponse& response) {
  response.set_request_id(request.request_id());
  for (const v1::DeviceSelector& device : request.devices()) {
    v1::DevicePrediction& prediction = *response.add_devices();
    prediction.set_device(device.slug());
    prediction.mutable_profile()->set_id("0123456789abcdef");
    prediction.mutable_profile()->set_version(1);
    GPUETA_RETURN_IF_ERROR(Fill(request, prediction));
  }
  return absl::OkStatus();
}

class EchoService final : public v1::PredictionService::CallbackService {
 public:
  EchoService()
      : answer_item_(
            [](const v1::StreamPredictRequest& item, const std::function<bool()>&, v1::StreamPredictResponse& answer) {
              answer.set_id(item.id());
              const absl::Status status = Echo(item.request(), *answer.mutable_response());
              if (status.ok()) return;
              answer.clear_response();
              EncodeStatus(status, *answer.mutable_status());
            }) {
    SetMessageAllocatorFor_Predict(&messages_);
  }

  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context, const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(Echo(*request, *response)));
    return reactor;
  }

  grpc::ServerUnaryReactor* Admit(grpc::CallbackServerContext* context, const v1::AdmitRequest* request,
                                  v1::AdmitResponse* response) override {
    response->set_request_id(request->request_id());
    for (const v1::Candidate& candidate : request->candidates()) {
      v1::Admission& admission = *response->add_admissions();
      admission.set_candidate(candidate.id());
      for (const v1::Replica& replica : request->replicas()) {
        v1::ReplicaDecision& decision = *admission.add_replicas();
        decision.set_replica(replica.name());
        decision.set_admit(true);
        decision.set_ttft_us(1e5);
        decision.set_tpot_us(1e4);
        decision.set_e2e_us(1e6);
        decision.set_margin(0.5);
        decision.set_binds("tpot");
      }
      if (!request->replicas().empty()) admission.set_recommended(request->replicas(0).name());
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerBidiReactor<v1::StreamPredictRequest, v1::StreamPredictResponse>* StreamPredict(
      grpc::CallbackServerContext*) override {
    return StartStreamPredict(answer_item_, ToGrpc, [] {});
  }

 private:
  ArenaAllocator<v1::PredictRequest, v1::PredictResponse> messages_;
  AnswerItem answer_item_;
};

int Main(int argc, char** argv) {
  CLI::App app("Answers as gpueta-server does, without predicting: the yardstick of its speed.", "gpueta-echo");
  app.set_version_flag("--version", "gpueta-echo " GPUETA_VERSION);
  std::string address = "127.0.0.1:7412";
  app.add_option("--listen", address, "Address of the gRPC port; port 0 takes a free one [" + address + "]")
      ->type_name("ADDR");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "gpueta-echo: %s; see --help\n", error.what());
    return 2;
  }
  BlockStopSignals();
  SetUpLogging(LogFormat::kText, LogLevel::kInfo);
  SetUpGrpc();
  EchoService service;
  const auto listening = Listen(address, Limits().message_bytes, {&service});
  if (!listening.ok()) {
    std::fprintf(stderr, "gpueta-echo: %s\n", MessageOf(listening.status()).c_str());
    return 1;
  }
  std::printf("gpueta-echo listening on %s\n", listening->address.c_str());
  std::fflush(stdout);
  WaitForStopSignal();
  listening->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  return 0;
}

}  // namespace
}  // namespace gpueta

int main(int argc, char** argv) { return gpueta::Main(argc, argv); }
