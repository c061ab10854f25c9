// The whole loop on the real CPU: a worker measures it, a client predicts, runs
// and reports; then another process really takes a share of the core, and the loop
// notices, corrects, measures again and is quiet. Rolls back at the end.
//
// The antagonist takes many short turns a millisecond, so that work of several
// milliseconds is slower by the same factor each time: a long turn now and then
// would leave half of the runs as they were. Where the system allows it, what is
// timed and the antagonist go ahead of whatever else runs on the machine.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>

#include "calibration/backends/backends.h"
#include "calibration/backends/measure.h"
#include "core/base/errors.h"
#include "core/wire/kernel_codec.h"
#include "gpueta/v1/observation.grpc.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.grpc.pb.h"
#include "server/testing/test_client.h"
#include "tests/integration/observing.h"
#include "tests/integration/server_process.h"

namespace gpueta {
namespace {

using testing_util::Accepted;
using testing_util::Drift;
using testing_util::Outcome;
using testing_util::PatientContext;
using testing_util::RunProgram;
using testing_util::ServerProcess;
using testing_util::TemporaryDirectory;
using testing_util::TestClient;

// Below this the change is one that correction absorbs without an alarm; above it
// lies beyond what correction may do.
constexpr double kSlowEnough = 1.35;
constexpr double kTooSlow = 1.9;
// Of the two sides of a comparison on a quiet machine.
constexpr double kQuiet = 0.05;
// Nine runs in ten come within that of the median.
constexpr double kSteady = 0.15;
constexpr int kBefore = 150;
constexpr int kUntilAlarm = 60;
constexpr int kReported = 10;  // observations a message

// Ahead of all ordinary processes; false where that is not allowed. Not inherited.
bool GoAhead(int priority) {
  const sched_param parameters{.sched_priority = priority};
  return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters) == 0;
}

cpu_set_t Cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}

cpu_set_t FirstOf(const cpu_set_t& cores) {
  cpu_set_t first;
  CPU_ZERO(&first);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores)) continue;
    CPU_SET(core, &first);
    break;
  }
  return first;
}

void StayOn(const cpu_set_t& cores) { sched_setaffinity(0, sizeof cores, &cores); }

// Takes turns on the core of the process that makes it until it is destroyed.
class Antagonist {
 public:
  Antagonist() {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ != 0) {
      // It cannot start while something ahead of it is at work.
      char byte = 0;
      EXPECT_EQ(read(ready[0], &byte, 1), 1);
      close(ready[0]);
      close(ready[1]);
      return;
    }
    constexpr double kTurnUs = 60;
    constexpr timespec kRest{.tv_sec = 0, .tv_nsec = 180'000};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds
    GoAhead(2);
    if (write(ready[1], "", 1) != 1) _exit(1);
    for (;;) {
      for (const double start_us = SteadyMicroseconds(); SteadyMicroseconds() < start_us + kTurnUs;) {
      }
      nanosleep(&kRest, nullptr);
    }
  }
  ~Antagonist() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Antagonist(const Antagonist&) = delete;
  Antagonist& operator=(const Antagonist&) = delete;

 private:
  pid_t pid_ = -1;
};

class CpuLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    // OpenMP reads it before main.
    const char* threads = getenv("OMP_NUM_THREADS");
    if (threads == nullptr || std::string(threads) != "1") GTEST_SKIP() << "needs OMP_NUM_THREADS=1, as ctest sets it";
    core_ = FirstOf(all_cores_);
    StayOn(core_);
    const bool ahead = GoAhead(1);
    backend_ = OpenBackend("cpu").value();
    for (const std::int64_t m : {192, 256, 320, 384, 448}) {
      kernels_.push_back({.name = "",
                          .dtype = DType::kFp32,
                          .work = Gemm{.layer = Gemm::Layer::kLinear, .m = m, .n = 1024, .k = 1024},
                          .launch = {}});
      prepared_.push_back(backend_->Prepare(kernels_.back()).value());
    }
    const Latencies quiet = Run(2);
    if (const Latencies again = Run(2); std::abs(std::log(again.median_us / quiet.median_us)) > kQuiet ||
                                        std::max(again.spread, quiet.spread) > kSteady) {
      GTEST_SKIP() << "the CPU is not steady: " << quiet << ", then " << again
                   << (ahead ? "" : "; with CAP_SYS_NICE this test would go ahead of what else runs");
    }
    {
      const Antagonist antagonist;
      const Latencies slowed = Run(2);
      std::cout << "alone: " << quiet << "; beside another process: " << slowed << "\n";
      const double factor = slowed.median_us / quiet.median_us;
      if (factor < kSlowEnough || factor > kTooSlow || slowed.spread > kSteady)
        GTEST_SKIP() << "another process does not slow this one steadily by a factor of " << kSlowEnough << " to "
                     << kTooSlow << ": " << quiet << " alone, " << slowed << " beside it";
    }
    auto started =
        ServerProcess::Start(GPUETA_SERVER_BINARY,
                             {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--profiles", "off", "--store",
                              "sqlite:" + directory_.path() + "/store.db", "--log-level", "error"},
                             [this] { StayOn(all_cores_); });
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    client_.emplace(server_->address());
  }

  double RunUs(std::size_t kernel) { return prepared_[kernel]->TakeSample(1)->latency_us; }

  struct Latencies {
    double median_us = 0;
    double spread = 0;  // of nine in ten, over the median
    friend std::ostream& operator<<(std::ostream& out, const Latencies& l) {
      return out << fmt::format("{:.0f} us +-{:.0f} %", l.median_us, 100 * l.spread);
    }
  };
  Latencies Run(std::size_t kernel) {
    constexpr std::size_t kRuns = 100;
    std::vector<double> us;
    for (std::size_t i = 0; i < kRuns; ++i) us.push_back(RunUs(kernel));
    std::ranges::sort(us);
    const double median = us[kRuns / 2];
    return {median, std::max(us[kRuns * 95 / 100] - median, median - us[kRuns * 5 / 100]) / median};
  }

  // The worker, on the core of the kernels that are observed.
  Outcome Calibrate(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--device", "cpu", "--server", server_->address()});
    const Outcome outcome = RunProgram(GPUETA_CALIBRATE_BINARY, arguments, [] { GoAhead(1); });
    std::cout << outcome.standard_output;
    return outcome;
  }

  v1::KernelPrediction Predict(const Kernel& kernel) {
    v1::PredictRequest request;
    request.add_devices()->set_slug(backend_->slug());
    *request.mutable_kernel() = wire::Encode(kernel);
    const auto response = client_->Predict(request);
    EXPECT_TRUE(response.ok()) << response.status();
    profile_ = response->devices(0).profile().id();
    return response->devices(0).kernel();
  }

  // Predicts, runs on the CPU and reports, `count` times. The median of
  // ln(predicted/observed).
  double Observe(int count) {
    std::vector<double> errors;
    v1::ReportObservationsRequest report;
    const auto send = [&] {
      EXPECT_EQ(Accepted(*client_, report), report.observations().observations_size());
      report.Clear();
    };
    for (int i = 0; i < count; ++i) {
      const std::size_t kernel = random_() % kernels_.size();
      const v1::KernelPrediction prediction = Predict(kernels_[kernel]);
      RunUs(kernel);  // the caches are the kernel's again
      v1::Observation& observation = *report.mutable_observations()->add_observations();
      observation.set_prediction_id(prediction.prediction_id());
      observation.set_latency_us(RunUs(kernel));
      errors.push_back(std::log(prediction.latency_us().p50() / observation.latency_us()));
      if (report.observations().observations_size() == kReported) send();
    }
    if (report.has_observations()) send();
    std::ranges::nth_element(errors, errors.begin() + count / 2);
    const double median = errors[static_cast<std::size_t>(count / 2)];
    std::cout << fmt::format("{} observations: predicted/observed {:.3f}, drift {}\n", count, std::exp(median),
                             v1::DriftState_Name(Drift(*client_)));
    return median;
  }
  // How many observations it takes.
  int ObserveUntilAlarm(int most) {
    int count = 0;
    while (count < most && Drift(*client_) != v1::DRIFT_STATE_SLOWER) {
      Observe(kReported);
      count += kReported;
    }
    return count;
  }

  TemporaryDirectory directory_;
  cpu_set_t all_cores_ = Cores();
  cpu_set_t core_{};
  std::unique_ptr<Backend> backend_;
  std::vector<Kernel> kernels_;
  std::vector<std::unique_ptr<PreparedKernel>> prepared_;
  std::unique_ptr<ServerProcess> server_;
  std::optional<TestClient> client_;
  std::string profile_;
  std::mt19937_64 random_{1};
};

TEST_F(CpuLoopTest, ASlowedCpuIsNoticedCorrectedMeasuredAnewAndRolledBack) {
  const Outcome first = Calibrate({"--once", "--budget", "200", "--time", "60s"});
  ASSERT_EQ(first.status, 0) << first.standard_error;
  const double before = Observe(kBefore);
  EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_STABLE);
  const std::string quiet_profile = profile_;

  {
    const Antagonist antagonist;
    EXPECT_LE(ObserveUntilAlarm(2 * kUntilAlarm), kUntilAlarm);
    EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_SLOWER);
    Observe(200);
    EXPECT_NEAR(Observe(100), before, 0.05);  // by correction
    EXPECT_EQ(profile_, quiet_profile);

    const Outcome task = Calibrate({"--watch", "--tasks", "1", "--budget", "40", "--time", "60s"});
    ASSERT_EQ(task.status, 0) << task.standard_error;
    EXPECT_THAT(task.standard_output, testing::HasSubstr("calibrationTasks/"));
    Observe(100);
    EXPECT_NE(profile_, quiet_profile);
    EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_STABLE);
  }

  const auto stub = v1::ProfileService::NewStub(client_->channel());
  v1::RollbackProfileRequest back;
  back.set_parent("devices/" + backend_->slug());
  v1::ProfileInfo info;
  ASSERT_TRUE(stub->RollbackProfile(PatientContext().get(), back, &info).ok());
  EXPECT_EQ(info.id(), quiet_profile);
  EXPECT_TRUE(info.active());
  EXPECT_NEAR(Observe(100), before, 0.1);  // the CPU is its own again
  EXPECT_EQ(profile_, quiet_profile);
}

}  // namespace
}  // namespace gpueta
