// The whole loop on the real CPU: a worker measures it, a client predicts, runs
// and reports; then something else really takes memory bandwidth and cache, and
// the loop notices, corrects, measures again and is quiet. Rolls back at the end.
//
// What runs is a sum of vectors that live in the last-level cache while nobody
// else wants it. A process on another core streaming through memory pushes them
// out of it without taking our core: slower work, not interrupted work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
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

// Below this the change is one that correction absorbs without an alarm.
constexpr double kSlowEnough = 1.35;
// Of the two sides of a comparison on a quiet machine.
constexpr double kQuiet = 0.05;
constexpr double kOthers = 0.2;  // share of all cores that others may use
constexpr int kBefore = 150;
constexpr int kUntilAlarm = 60;

// Seconds of all cores since they started: busy with anything, busy with us, and
// altogether.
struct CpuSeconds {
  double busy = 0, ours = 0, all = 0;
};
CpuSeconds ReadCpuSeconds() {
  CpuSeconds seconds;
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double ticks = 0;
  stat >> cpu;
  for (int i = 0; i < 8 && stat >> ticks; ++i) {
    const double value = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    seconds.all += value;
    if (i != 3 && i != 4) seconds.busy += value;  // idle, waiting for a disk
  }
  tms own{};
  times(&own);
  seconds.ours = static_cast<double>(own.tms_utime + own.tms_stime) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return seconds;
}

// Share of all cores' time that went to others since `before`.
double OthersShare(const CpuSeconds& before) {
  const CpuSeconds now = ReadCpuSeconds();
  return now.all > before.all ? (now.busy - before.busy - (now.ours - before.ours)) / (now.all - before.all) : 1;
}

// The cores this process may use.
std::vector<int> Cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void StayOn(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// Streams through memory on its own core until it is destroyed.
class Antagonist {
 public:
  explicit Antagonist(int core) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    StayOn(core);
    constexpr std::size_t kWords = std::size_t{16} << 20;  // 128 MiB: more than any last-level cache
    std::vector<std::uint64_t> memory(kWords, 1);
    constexpr std::size_t kLine = 8;  // words of a cache line
    for (std::uint64_t sum = 0;; ++sum) {
      for (std::size_t i = 0; i < kWords; i += kLine) memory[i] += sum;
    }
  }
  ~Antagonist() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Antagonist(const Antagonist&) = delete;
  Antagonist& operator=(const Antagonist&) = delete;

 private:
  pid_t pid_;
};

class CpuLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    // OpenMP reads it before main.
    const char* threads = getenv("OMP_NUM_THREADS");
    if (threads == nullptr || std::string(threads) != "1") GTEST_SKIP() << "needs OMP_NUM_THREADS=1, as ctest sets it";
    cores_ = Cores();
    if (cores_.size() < 2) GTEST_SKIP() << "one core only: nothing can run beside it";
    const CpuSeconds start = ReadCpuSeconds();
    StayOn(cores_[0]);
    backend_ = OpenBackend("cpu").value();
    for (const std::int64_t rows : {512, 640, 768, 896, 1024}) {
      kernels_.push_back({.name = "",
                          .dtype = DType::kFp32,
                          .work = Vector{.op = "add", .rows = rows, .cols = 1024, .operands = 2},
                          .launch = {}});
      prepared_.push_back(backend_->Prepare(kernels_.back()).value());
    }
    if (const double others = OthersShare(start); others > kOthers)
      GTEST_SKIP() << "the machine is busy with other things: " << others << " of all cores";
    quiet_us_ = MedianUs();
    if (const double again = MedianUs(); std::abs(std::log(again / quiet_us_)) > kQuiet)
      GTEST_SKIP() << "the CPU is not steady: " << quiet_us_ << " µs, then " << again;
    {
      const Antagonist antagonist(cores_[1]);
      const double slowed = MedianUs();
      if (slowed < kSlowEnough * quiet_us_)
        GTEST_SKIP() << "a process on another core slows this one by " << slowed / quiet_us_ << " only";
    }
    auto started = ServerProcess::Start(
        GPUETA_SERVER_BINARY, {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--profiles", "off", "--store",
                               "sqlite:" + directory_.path() + "/store.db", "--log-level", "error"});
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    client_.emplace(server_->address());
  }

  double RunUs(std::size_t kernel) { return prepared_[kernel]->TakeSample(1)->latency_us; }
  double MedianUs() {
    std::vector<double> us;
    constexpr int kRuns = 100;
    for (int i = 0; i < kRuns; ++i) us.push_back(RunUs(2));
    std::ranges::nth_element(us, us.begin() + kRuns / 2);
    return us[kRuns / 2];
  }

  // The worker, on the core of the kernels that are observed.
  Outcome Calibrate(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--device", "cpu", "--server", server_->address()});
    return RunProgram(GPUETA_CALIBRATE_BINARY, arguments);
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
    v1::ReportObservationsRequest report;
    std::vector<double> errors;
    for (int i = 0; i < count; ++i) {
      const std::size_t kernel = random_() % kernels_.size();
      const v1::KernelPrediction prediction = Predict(kernels_[kernel]);
      RunUs(kernel);  // the caches are the kernel's again
      v1::Observation& observation = *report.mutable_observations()->add_observations();
      observation.set_prediction_id(prediction.prediction_id());
      observation.set_latency_us(RunUs(kernel));
      errors.push_back(std::log(prediction.latency_us().p50() / observation.latency_us()));
    }
    EXPECT_EQ(Accepted(*client_, report), count);
    std::ranges::nth_element(errors, errors.begin() + count / 2);
    return errors[static_cast<std::size_t>(count / 2)];
  }

  TemporaryDirectory directory_;
  std::vector<int> cores_;
  std::unique_ptr<Backend> backend_;
  std::vector<Kernel> kernels_;
  std::vector<std::unique_ptr<PreparedKernel>> prepared_;
  double quiet_us_ = 0;
  std::unique_ptr<ServerProcess> server_;
  std::optional<TestClient> client_;
  std::string profile_;
  std::mt19937_64 random_{1};
};

TEST_F(CpuLoopTest, ASlowedCpuIsNoticedCorrectedMeasuredAnewAndRolledBack) {
  const Outcome first = Calibrate({"--once", "--budget", "120", "--time", "60s"});
  ASSERT_EQ(first.status, 0) << first.standard_error;
  const double before = Observe(kBefore);
  EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_STABLE);
  const std::string quiet_profile = profile_;

  {
    const Antagonist antagonist(cores_[1]);
    Observe(kUntilAlarm);
    EXPECT_EQ(Drift(*client_), v1::DRIFT_STATE_SLOWER);
    Observe(100);
    EXPECT_NEAR(Observe(100), before, 0.05);  // by correction

    const Outcome task = Calibrate({"--watch", "--tasks", "1", "--budget", "60", "--time", "60s"});
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
