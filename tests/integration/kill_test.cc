// kill -9 at random moments while profiles are published: after every restart
// the server answers from the last profile that was committed.

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "core/base/errors.h"
#include "gpueta/v1/observation.grpc.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/store/sqlite.h"
#include "server/testing/test_client.h"
#include "server/testing/test_profile.h"
#include "tests/integration/server_process.h"

namespace gpueta {
namespace {

using testing_util::MakeTestProfile;
using testing_util::ServerProcess;
using testing_util::TemporaryDirectory;
using testing_util::TestClient;

constexpr int kKills = 100;
// A kill falls anywhere in the first publishes of a life.
constexpr int kPublishesOfALife = 3;

// Large enough for a commit to take several writes.
std::string MakeFile(int variation) {
  Profile profile = MakeTestProfile("t4", variation);
  profile.labels["padding"] = std::string(200'000, 'x');
  return SerializeProfile(profile);
}

// Publishes one new profile after the other until the server is gone. What was
// acknowledged must survive; the one in flight may.
class Publisher {
 public:
  explicit Publisher(int& variation) : variation_(&variation) {}

  void Run(const std::string& address) {
    TestClient client(address);
    for (;;) {
      const std::string file = MakeFile(++*variation_);
      {
        const std::lock_guard lock(mutex_);
        in_flight_ = ParseProfile(file)->id;
      }
      const auto info = client.Publish("devices/t4", file, true);
      const std::lock_guard lock(mutex_);
      if (!info.ok()) {
        gone_ = true;
        changed_.notify_all();
        return;
      }
      acknowledged_.insert(info->id());
      last_ = info->id();
      in_flight_.clear();
    }
  }

  // Until the publisher gives up or the time is up; true if it gave up.
  bool Wait(std::chrono::microseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return gone_; });
  }

  const std::set<std::string>& acknowledged() const { return acknowledged_; }
  const std::string& last() const { return last_; }
  const std::string& in_flight() const { return in_flight_; }

 private:
  int* variation_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> acknowledged_;
  std::string last_;
  std::string in_flight_;
  bool gone_ = false;
};

TEST(KillTest, EveryRestartServesTheLastCommittedProfile) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/store.db";
  const std::vector<std::string> arguments = {
      "--listen", "127.0.0.1:0", "--metrics-listen", "off",     "--profiles",
      "off",      "--store",     "sqlite:" + path,   "--limit", "profiles=1000000"};
  std::set<std::string> committed;
  std::string expected;   // acknowledged last
  std::string uncertain;  // in flight at the kill
  int variation = 0;
  int in_flight_kept = 0;
  std::int64_t version = 0;
  std::chrono::microseconds latest_kill{0};
  for (int kill = 0; kill <= kKills; ++kill) {
    const auto server = ServerProcess::Start(GPUETA_SERVER_BINARY, arguments);
    ASSERT_TRUE(server.ok()) << "after kill " << kill << ": " << server.status();
    TestClient client((*server)->address());
    const auto answer = client.Ask("t4");
    ASSERT_TRUE(answer.ok()) << answer.status();
    if (!uncertain.empty() && answer->profile_id == uncertain) {
      expected = uncertain;
      committed.insert(uncertain);
      ++in_flight_kept;
    }
    ASSERT_EQ(answer->profile_id, expected) << "after kill " << kill << ", seed " << seed;
    ASSERT_GE(answer->version, version);
    version = answer->version;
    ASSERT_EQ(version, static_cast<std::int64_t>(committed.size()));  // every activation is there once
    if (kill == kKills) break;
    if (kill == 0) {  // how long does a publish take here?
      const auto start = std::chrono::steady_clock::now();
      const auto info = client.Publish("devices/t4", MakeFile(++variation), true);
      ASSERT_TRUE(info.ok()) << info.status();
      latest_kill = kPublishesOfALife *
                    std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
      expected = info->id();
      committed.insert(expected);
    }

    Publisher publisher(variation);
    std::thread thread([&] { publisher.Run((*server)->address()); });
    ASSERT_FALSE(publisher.Wait(std::chrono::microseconds(random() % latest_kill.count())))
        << "the server stopped by itself";
    (*server)->Kill();
    thread.join();
    committed.insert(publisher.acknowledged().begin(), publisher.acknowledged().end());
    if (!publisher.last().empty()) expected = publisher.last();
    uncertain = publisher.in_flight();
  }
  std::printf("%zu profiles committed in %d lives; %d of them were in flight at a kill\n", committed.size(), kKills,
              in_flight_kept);
  EXPECT_GT(committed.size(), 0U);

  auto database = Sqlite::Open(path, 5000);
  ASSERT_TRUE(database.ok()) << database.status();
  EXPECT_EQ(database->Query("PRAGMA integrity_check").value(), "ok");
  EXPECT_EQ(database->Query("SELECT count(*) FROM profiles").value(), std::to_string(committed.size()));
}

// Predicts and reports in columns until the server is gone; counts what was
// acknowledged, and tells after `reports`.
std::int64_t ReportUntilGone(const std::string& address, int reports, std::promise<void> reported) {
  constexpr std::uint32_t kRows = 100;
  TestClient client(address);
  const auto observations = v1::ObservationService::NewStub(client.channel());
  std::int64_t acknowledged = 0;
  for (std::uint32_t seed = 1;; ++seed) {
    const auto predicted = client.Predict(testing_util::GemmColumnsRequest("t4", kRows, seed));
    if (!predicted.ok()) return acknowledged;
    const v1::ColumnsPrediction& answer = predicted->devices(0).columns();
    v1::ReportObservationsRequest request;
    v1::ObservationColumns& columns = *request.mutable_columns();
    columns.set_prediction_id(answer.prediction_id());
    for (std::uint32_t row = 0; row < kRows; ++row) columns.add_row(row);
    *columns.mutable_p50_us() = answer.p50_us();
    *columns.mutable_p90_us() = answer.p90_us();
    *columns.mutable_p99_us() = answer.p99_us();
    *columns.mutable_latency_us() = answer.p90_us();
    const auto context = testing_util::PatientContext();
    v1::ReportObservationsResponse response;
    const auto writer = observations->ReportObservations(context.get(), &response);
    writer->Write(request);
    writer->WritesDone();
    if (!writer->Finish().ok()) return acknowledged;
    acknowledged += response.accepted();
    if (--reports == 0) reported.set_value();
  }
}

std::int64_t ObservationsOf(const std::string& address) {
  TestClient client(address);
  const auto observations = v1::ObservationService::NewStub(client.channel());
  const auto context = testing_util::PatientContext();
  v1::GetErrorSummaryResponse response;
  const grpc::Status status = observations->GetErrorSummary(context.get(), v1::GetErrorSummaryRequest(), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.summaries_size() == 0 ? 0 : response.summaries(0).n();
}

TEST(KillTest, NoAcknowledgedObservationIsLost) {
  constexpr int kLives = 10;
  constexpr std::int64_t kRows = 100;
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  TemporaryDirectory directory;
  const std::vector<std::string> arguments = {
      "--listen",   "127.0.0.1:0", "--metrics-listen", "off",
      "--profiles", "off",         "--store",          "sqlite:" + directory.path() + "/store.db"};
  std::int64_t before = 0;
  for (int life = 0; life < kLives; ++life) {
    const auto server = ServerProcess::Start(GPUETA_SERVER_BINARY, arguments);
    ASSERT_TRUE(server.ok()) << server.status();
    const std::int64_t kept = ObservationsOf((*server)->address());
    ASSERT_GE(kept, before) << "seed " << seed;
    ASSERT_LE(kept, before + kRows);  // the report in flight may have been committed
    std::int64_t acknowledged = 0;
    std::promise<void> reported;
    std::future<void> is_reported = reported.get_future();
    const int reports = 1 + static_cast<int>(random() % 20);
    std::thread thread([&, reported = std::move(reported)]() mutable {
      acknowledged = ReportUntilGone((*server)->address(), reports, std::move(reported));
    });
    is_reported.wait();  // the next one is on its way when the server dies
    (*server)->Kill();
    thread.join();
    before = kept + acknowledged;
  }
  std::printf("%lld observations acknowledged in %d lives\n", static_cast<long long>(before), kLives);
  EXPECT_GT(before, 0);
}

}  // namespace
}  // namespace gpueta
