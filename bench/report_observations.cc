// How fast observations in columns are taken in, what they cost predictions
// meanwhile, and whether memory grows: starts gpueta-server and gpueta-echo.

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gpueta/v1/observation.grpc.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/testing/test_client.h"
#include "server/testing/test_profile.h"
#include "tests/integration/server_process.h"

namespace gpueta {
namespace {

using testing_util::GemmColumnsRequest;
using testing_util::HttpGet;
using testing_util::ServerProcess;
using testing_util::TestClient;

constexpr std::uint32_t kRows = 10'000;  // of a message

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Metric(const ServerProcess& server, const std::string& name) {
  const std::string text = "\n" + HttpGet(server.metrics_address(), "/metrics");
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? 0 : std::stod(text.substr(at + name.size() + 2));
}

// Seconds of unary predictions of one kernel, one after the other, until told
// to stop, or `calls` of them.
std::vector<double> PredictFor(const std::string& address, int calls, const std::atomic<bool>& stop) {
  TestClient client(address);
  std::vector<double> seconds;
  while (!stop && static_cast<int>(seconds.size()) < calls) {
    const auto start = std::chrono::steady_clock::now();
    if (!client.Ask("t4").ok()) break;
    seconds.push_back(SecondsSince(start));
  }
  return seconds;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double P99(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() * 99 / 100];
}

std::vector<v1::ReportObservationsRequest> MakeReports(TestClient& client, int messages) {
  std::vector<v1::ReportObservationsRequest> reports;
  for (int i = 0; i < messages; ++i) {
    const auto predicted = client.Predict(GemmColumnsRequest("t4", kRows, static_cast<std::uint32_t>(i + 1)));
    if (!predicted.ok()) return {};
    const v1::ColumnsPrediction& answer = predicted->devices(0).columns();
    v1::ObservationColumns& columns = *reports.emplace_back().mutable_columns();
    columns.set_prediction_id(answer.prediction_id());
    for (std::uint32_t row = 0; row < kRows; ++row) {
      columns.add_row(row);
      columns.add_latency_us(answer.p50_us(static_cast<int>(row)) * (0.8F + 0.4F * static_cast<float>(row % 97) / 97));
    }
    *columns.mutable_p50_us() = answer.p50_us();
    *columns.mutable_p90_us() = answer.p90_us();
    *columns.mutable_p99_us() = answer.p99_us();
  }
  return reports;
}

// Seconds until all are acknowledged.
double Report(TestClient& client, const std::vector<v1::ReportObservationsRequest>& reports, std::int64_t& accepted) {
  const auto stub = v1::ObservationService::NewStub(client.channel());
  const auto context = testing_util::PatientContext();
  v1::ReportObservationsResponse response;
  const auto start = std::chrono::steady_clock::now();
  const auto writer = stub->ReportObservations(context.get(), &response);
  for (const auto& report : reports) writer->Write(report);
  writer->WritesDone();
  accepted += writer->Finish().ok() ? response.accepted() : 0;
  return SecondsSince(start);
}

// Seconds of a stream of as many rows asked of the echo.
double Echo(const std::string& address, int messages) {
  TestClient client(address);
  std::vector<v1::StreamPredictRequest> items(static_cast<std::size_t>(messages));
  for (auto& item : items) *item.mutable_request() = GemmColumnsRequest("t4", kRows);
  std::vector<v1::StreamPredictResponse> answers;
  const auto start = std::chrono::steady_clock::now();
  if (!client.Stream(items, answers).ok()) return 0;
  return SecondsSince(start);
}

// What is asked of the server, whatever the machine.
constexpr double kMostGrowthBytes = 20e6;  // of its memory after the first round: buffers of messages come and go
constexpr double kMostP99Ratio = 1.5;

struct Round {
  bool all_accepted = false;
  double resident_bytes = 0;
  double p99_ratio = 0;  // of a prediction, while observations come in over alone
};

Round RunRound(const ServerProcess& server, const ServerProcess& echo, int messages) {
  TestClient client(server.address());
  const double rows = static_cast<double>(messages) * kRows;
  auto reports = MakeReports(client, messages);
  const double cpu = server.CpuSeconds();
  std::int64_t accepted = 0;
  const double seconds = Report(client, reports, accepted);
  const double cost_ns = (server.CpuSeconds() - cpu) / rows * 1e9;
  const double echo_seconds = Echo(echo.address(), messages);

  constexpr int kCalls = 5000;
  const std::atomic<bool> never{false};
  const double alone = P99(PredictFor(server.address(), kCalls, never));
  reports = MakeReports(client, messages);
  std::atomic<bool> done{false};
  std::vector<double> during;
  std::thread predictions([&] { during = PredictFor(server.address(), 1 << 30, done); });
  std::int64_t accepted_meanwhile = 0;
  Report(client, reports, accepted_meanwhile);
  done = true;
  predictions.join();

  const Round round{.all_accepted = accepted + accepted_meanwhile == static_cast<std::int64_t>(2 * rows),
                    .resident_bytes = Metric(server, "process_resident_memory_bytes"),
                    .p99_ratio = P99(during) / alone};
  std::printf(
      "%.0f observations, twice: %lld accepted, %.3g a second; echo of as many rows %.3g a second, ratio %.3f; "
      "%.0f ns of the server's processor each; resident %.1f MB; p99 of a prediction %.0f us alone, %.0f us while "
      "observations come in, ratio %.2f\n",
      rows, static_cast<long long>(accepted + accepted_meanwhile), rows / seconds, rows / echo_seconds,
      echo_seconds / seconds, cost_ns, round.resident_bytes / 1e6, alone * 1e6, P99(during) * 1e6, round.p99_ratio);
  std::fflush(stdout);
  return round;
}

int Run(const std::string& server_path, const std::string& echo_path, int messages, int rounds) {
  const auto server = ServerProcess::Start(
      server_path, {"--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--profiles", "off"});
  const auto echo = ServerProcess::Start(echo_path, {"--listen", "127.0.0.1:0"});
  if (!server.ok() || !echo.ok()) {
    std::fprintf(stderr, "%s\n", std::string((server.ok() ? echo.status() : server.status()).message()).c_str());
    return 1;
  }
  TestClient client((*server)->address());
  if (!client.Publish("devices/t4", testing_util::MakeTestProfileFile("t4"), true).ok()) return 1;
  bool all_accepted = true;
  double first_bytes = 0, most_bytes = 0;
  std::vector<double> p99_ratios;
  for (int i = 0; i < rounds; ++i) {
    const Round round = RunRound(**server, **echo, messages);
    all_accepted = all_accepted && round.all_accepted;
    if (i == 0) first_bytes = round.resident_bytes;
    most_bytes = std::max(most_bytes, round.resident_bytes);
    p99_ratios.push_back(round.p99_ratio);
  }
  const double growth = most_bytes - first_bytes;
  const double p99_ratio = Median(p99_ratios);
  std::printf(
      "memory at most %.1f MB more than after the first round; p99 while observations come in %.2f times that alone\n",
      growth / 1e6, p99_ratio);
  if (all_accepted && growth < kMostGrowthBytes && p99_ratio < kMostP99Ratio) return 0;
  std::fprintf(stderr, "%s\n",
               !all_accepted                ? "not all observations were accepted"
               : growth >= kMostGrowthBytes ? "memory grows"
                                            : "observations hold predictions up");
  return 1;
}

}  // namespace
}  // namespace gpueta

int main(int argc, char** argv) {
  CLI::App app{"Taking in observations, against gpueta-echo in the same run."};
  const std::string here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string server = here + "/gpueta-server", echo = here + "/gpueta-echo";
  int messages = 100, rounds = 5;
  app.add_option("--server", server, "gpueta-server's binary [beside this one]")->type_name("PATH");
  app.add_option("--echo", echo, "gpueta-echo's binary [beside this one]")->type_name("PATH");
  app.add_option("--messages", messages, "Messages of 10,000 observations a round")->capture_default_str();
  app.add_option("--rounds", rounds, "Rounds")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return gpueta::Run(server, echo, messages, rounds);
}
