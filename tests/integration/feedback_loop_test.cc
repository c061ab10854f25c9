// The whole loop with real processes: a device changes, observations say so, the
// server corrects and asks for measurements, a worker takes the task and
// publishes, and all is quiet again. The worker replays a recording, so that
// what the device does is known.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "core/base/errors.h"
#include "gpueta/v1/observation.grpc.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.grpc.pb.h"
#include "server/testing/test_client.h"
#include "server/testing/test_profile.h"
#include "tests/integration/observing.h"
#include "tests/integration/server_process.h"

namespace gpueta {
namespace {

using testing_util::Accepted;
using testing_util::Drift;
using testing_util::MakeTestProfileFile;
using testing_util::Outcome;
using testing_util::PatientContext;
using testing_util::RunProgram;
using testing_util::ServerProcess;
using testing_util::TemporaryDirectory;
using testing_util::TestClient;

constexpr double kChange = 1.4;  // what becomes of every GEMM's latency

v1::Kernel Gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  v1::Kernel kernel;
  kernel.set_dtype(v1::DTYPE_FP32);
  kernel.mutable_gemm()->set_m(m);
  kernel.mutable_gemm()->set_n(n);
  kernel.mutable_gemm()->set_k(k);
  return kernel;
}

class FeedbackLoopTest : public testing::Test {
 protected:
  FeedbackLoopTest() {
    auto started = ServerProcess::Start(
        GPUETA_SERVER_BINARY, {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--profiles", "off", "--store",
                               "sqlite:" + directory_.path() + "/store.db", "--log-level", "error"});
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    client_.emplace(server_->address());
    EXPECT_TRUE(client_->Publish("devices/t4", MakeTestProfileFile("t4"), true).ok());
    for (std::int64_t m = 16; m <= 4096; m *= 2) {
      for (std::int64_t n = 64; n <= 4096; n *= 4) {
        for (std::int64_t k = 64; k <= 4096; k *= 4) shapes_.push_back(Gemm(m, n, k));
      }
    }
    for (const v1::Kernel& shape : shapes_) truth_us_.push_back(Predict(shape).latency_us().p50());
  }

  v1::KernelPrediction Predict(const v1::Kernel& kernel) {
    v1::PredictRequest request;
    request.add_devices()->set_slug("t4");
    *request.mutable_kernel() = kernel;
    const auto response = client_->Predict(request);
    EXPECT_TRUE(response.ok()) << response.status();
    profile_ = response->devices(0).profile().id();
    return response->devices(0).kernel();
  }

  // What the changed device does, as a recording.
  std::string Record() {
    const std::string path = directory_.path() + "/t4.csv";
    std::ofstream file(path);
    file << "device,source,timing,dtype,layer,batch,m,n,k,kernel,grid_x,grid_y,grid_z,block_x,kernels,latency_us\n";
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const v1::Gemm& g = shapes_[i].gemm();
      file << fmt::format("t4,recording,kernel,fp32,gemm,1,{},{},{},,,,,,1,{}\n", g.m(), g.n(), g.k(),
                          kChange * truth_us_[i]);
    }
    return path;
  }

  // Predicts, observes `factor` times the device's old latency with 5 % of noise,
  // and reports, `count` times. Returns the mean of ln(predicted/observed).
  double Observe(double factor, int count) {
    std::normal_distribution<double> noise(0, 0.05);
    v1::ReportObservationsRequest report;
    double sum = 0;
    for (int i = 0; i < count; ++i) {
      const std::size_t shape = random_() % shapes_.size();
      const v1::KernelPrediction prediction = Predict(shapes_[shape]);
      v1::Observation& observation = *report.mutable_observations()->add_observations();
      observation.set_prediction_id(prediction.prediction_id());
      observation.set_latency_us(factor * truth_us_[shape] * std::exp(noise(random_)));
      sum += std::log(prediction.latency_us().p50() / observation.latency_us());
    }
    EXPECT_EQ(Accepted(*client_, report), count);
    return sum / count;
  }

  TemporaryDirectory directory_;
  std::unique_ptr<ServerProcess> server_;
  std::optional<TestClient> client_;
  std::vector<v1::Kernel> shapes_;
  std::vector<double> truth_us_;
  std::string profile_;
  std::mt19937_64 random_{1};
};

TEST_F(FeedbackLoopTest, AChangeIsNoticedCorrectedMeasuredAndOver) {
  const std::string recording = Record();
  Outcome outcome;
  std::thread worker([&] {
    outcome = RunProgram(GPUETA_CALIBRATE_BINARY,
                         {"--device", "replay:" + recording, "--server", server_->address(), "--watch", "--tasks", "1",
                          "--budget", "150", "--journal", directory_.path() + "/journal"});
  });
  Observe(1, 200);
  EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_STABLE);
  const std::string before = profile_;

  // The change; 60 observations are enough for the alarm, and the correction
  // follows while the worker measures.
  Observe(kChange, 60);
  worker.join();
  EXPECT_EQ(outcome.status, 0) << outcome.standard_error;
  EXPECT_THAT(outcome.standard_output, testing::HasSubstr("devices/t4/calibrationTasks/"));
  EXPECT_THAT(outcome.standard_output, testing::HasSubstr("active"));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/journal"));  // the task is done

  Predict(shapes_[0]);
  EXPECT_NE(profile_, before);
  EXPECT_NEAR(Observe(kChange, 100), 0, 0.05);
  EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_STABLE);
  EXPECT_NEAR(Observe(kChange, 100), 0, 0.03);
  EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_STABLE);

  // Of other ops the old tables still answer.
  v1::PredictRequest vector;
  vector.add_devices()->set_slug("t4");
  vector.mutable_kernel()->set_dtype(v1::DTYPE_FP32);
  vector.mutable_kernel()->mutable_vector()->set_op("add");
  vector.mutable_kernel()->mutable_vector()->set_rows(64);
  vector.mutable_kernel()->mutable_vector()->set_cols(64);
  EXPECT_NE(client_->Predict(vector)->devices(0).kernel().provenance(), v1::PROVENANCE_ROOFLINE);
}

// The disk is full in the middle of a task: the system ends the worker. The next one gets
// the same task and measures the rest.
TEST_F(FeedbackLoopTest, AWorkerThatWasEndedInATaskGoesOnFromItsJournal) {
  const std::string journal = directory_.path() + "/journal";
  const std::vector<std::string> arguments = {
      "--device", "replay:" + Record(), "--server", server_->address(), "--watch", "--tasks",
      "1",        "--budget",           "150",      "--journal",        journal};
  Observe(1, 200);
  Observe(kChange, 60);
  const Outcome ended = RunProgram(GPUETA_CALIBRATE_BINARY, arguments, [] {
    constexpr rlimit kFile = {.rlim_cur = 8192, .rlim_max = 8192};
    setrlimit(RLIMIT_FSIZE, &kFile);
  });
  EXPECT_EQ(ended.status, 128 + SIGXFSZ) << ended.standard_error;
  ASSERT_TRUE(std::filesystem::exists(journal));
  const Outcome next = RunProgram(GPUETA_CALIBRATE_BINARY, arguments);
  EXPECT_EQ(next.status, 0) << next.standard_error;
  EXPECT_THAT(next.standard_output,
              testing::ContainsRegex("going on from " + journal + ": [1-9][0-9]* kernels were measured before"));
  EXPECT_THAT(next.standard_output, testing::HasSubstr("active"));
  EXPECT_FALSE(std::filesystem::exists(journal));
  EXPECT_NEAR(Observe(kChange, 100), 0, 0.05);
}

TEST_F(FeedbackLoopTest, WithoutAWorkerTheCorrectionBringsTheBiasBack) {
  Observe(1, 200);
  for (int i = 0; i < 4; ++i) Observe(kChange, 50);
  EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_SLOWER);
  EXPECT_NEAR(Observe(kChange, 100), 0, 0.05);
  for (int i = 0; i < 6; ++i) Observe(1, 50);
  EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_STABLE);
}

}  // namespace
}  // namespace gpueta
