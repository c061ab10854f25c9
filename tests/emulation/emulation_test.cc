// One core, with and without somebody else's memory traffic beside it, emulated
// on the two-core machine that it is part of, and measured for real. The target
// is told to the emulation by its capabilities alone.
//
// Latencies are measured before and after the emulation; where these differ, or
// the machine says that it was busy, the round says nothing and is taken again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tests/integration/server_process.h"

namespace gpueta::testing_util {
namespace {

using nlohmann::json;

// The share by which an emulated latency may be off. Contention of one kind stands
// for any: beside traffic more.
constexpr double kMostOff = 0.10;
constexpr double kMostOffInTraffic = 0.15;
// The same work measured twice may differ by this; more, and the machine is not
// the same any more. Beside memory traffic latencies vary more.
constexpr double kMostApart = 0.04;
constexpr double kMostApartInTraffic = 0.08;
constexpr double kMostBandwidthsApart = 0.08;
// No further round is begun after this.
constexpr std::chrono::seconds kPatience(30);

struct Model {
  std::string path;
  std::vector<std::string> dims;
};
// Ten milliseconds, so that some run is undisturbed on a busy machine.
const Model kShort = {GPUETA_SOURCE_DIR "/tests/data/onnx/squeezenet1_0.ts-op13.onnx", {"--batch", "1"}};
// Convolutions, then 234 MB of weights that pass once: as much memory traffic
// as arithmetic.
const Model kOfMuchTraffic = {GPUETA_SOURCE_DIR "/tests/data/onnx/alexnet.ts-op14.onnx", {}};

std::vector<int> UsableCores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void StayOn(std::initializer_list<int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

std::optional<json> Ask(std::vector<std::string> arguments, std::initializer_list<int> cores) {
  arguments.insert(arguments.begin(), "--json");
  const Outcome outcome = RunProgram(GPUETA_BINARY, arguments, [cores] {
    StayOn(cores);
    unsetenv("OMP_NUM_THREADS");  // one thread a core
  });
  EXPECT_EQ(outcome.status, 0) << outcome.standard_error;
  json answer = json::parse(outcome.standard_output, nullptr, false);
  if (answer.is_discarded()) return std::nullopt;
  return answer;
}

// scripts/lib/memory_hog.py while it lives.
class MemoryHog {
 public:
  explicit MemoryHog(int core) {
    int said[2];
    if (pipe(said) != 0) return;
    const std::string number = std::to_string(core);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(said[1], STDOUT_FILENO);
      execlp("python3", "python3", GPUETA_SOURCE_DIR "/scripts/lib/memory_hog.py", number.c_str(), nullptr);
      _exit(127);
    }
    close(said[1]);
    char line[16];
    running_ = read(said[0], line, sizeof line) > 0;
    close(said[0]);
  }
  ~MemoryHog() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  MemoryHog(const MemoryHog&) = delete;
  MemoryHog& operator=(const MemoryHog&) = delete;
  bool running() const { return running_; }

 private:
  pid_t pid_ = -1;
  bool running_ = false;
};

struct Round {
  double measured_us = 0;
  json emulated;  // the device of the answer
  double off() const { return emulated["latency_us"]["p50"].get<double>() / measured_us - 1; }
};

class EmulationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cores_ = UsableCores();
    if (cores_.size() < 2) GTEST_SKIP() << "needs two cores: a host, and a target that is part of it";
  }

  // With `traffic`, a memory hog on the other core is part of the target. nullopt
  // if the machine was too busy to tell.
  std::optional<Round> Take(const Model& model, bool traffic) {
    const std::string spec = directory_.path() + "/target.csv";
    const int own = cores_[0];
    const int other = cores_[1];
    std::string slug;
    std::vector<double> bandwidths;
    const auto measure = [&]() -> std::optional<double> {
      std::optional<MemoryHog> hog;
      if (traffic) hog.emplace(other);
      if (hog.has_value() && !hog->running()) return std::nullopt;
      const std::string row = slug.empty() ? spec : directory_.path() + "/again.csv";
      const auto capabilities = Ask({"measure", "--capabilities", "--device", "cpu", "--out", row}, {own});
      if (!capabilities.has_value()) return std::nullopt;
      slug = (*capabilities)["device"];
      bandwidths.push_back((*capabilities)["mem_bandwidth_gb_s"]);
      const auto run = Ask(With(model, {"measure", model.path, "--device", "cpu"}), {own});
      if (!run.has_value() || (*run)["disturbed"].get<bool>()) return std::nullopt;
      return (*run)["total_us"].get<double>();
    };
    const std::optional<double> before = measure();
    if (!before.has_value()) return std::nullopt;
    const auto answer =
        Ask(With(model, {"emulate", model.path, "--device", slug, "--spec", spec, "--on", "cpu"}), {own, other});
    const std::optional<double> after = measure();
    if (!answer.has_value() || !after.has_value()) return std::nullopt;
    Round round{.measured_us = (*before + *after) / 2, .emulated = (*answer)["devices"][0]};
    std::printf("measured %.0f and %.0f us, emulated %.0f us with %s\n", *before, *after,
                round.emulated["latency_us"]["p50"].get<double>(),
                round.emulated["emulation"]["configuration"].get<std::string>().c_str());
    for (const auto& warning : round.emulated["warnings"]) {
      if (warning.get<std::string>().find("busy") != std::string::npos) return std::nullopt;
    }
    if (std::abs(std::log(bandwidths[1] / bandwidths[0])) > kMostBandwidthsApart) return std::nullopt;
    if (std::abs(std::log(*after / *before)) > (traffic ? kMostApartInTraffic : kMostApart)) return std::nullopt;
    return round;
  }

  // The first round that a busy machine did not spoil.
  std::optional<Round> TakeUndisturbed(const Model& model, bool traffic) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      if (std::optional<Round> round = Take(model, traffic); round.has_value() || HasFailure()) return round;
    }
    return std::nullopt;
  }

  static std::vector<std::string> With(const Model& model, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), model.dims.begin(), model.dims.end());
    return arguments;
  }

  std::vector<int> cores_;
  TemporaryDirectory directory_;
};

TEST_F(EmulationTest, OneCoreIsPredictedFromTwo) {
  const std::optional<Round> round = TakeUndisturbed(kShort, false);
  if (!round.has_value()) GTEST_SKIP() << "the machine was busy";
  EXPECT_LE(std::abs(round->off()), kMostOff);
  EXPECT_LE(round->measured_us, round->emulated["latency_us"]["p99"].get<double>());
  EXPECT_THAT(round->emulated["emulation"]["configuration"].get<std::string>(), ::testing::HasSubstr("units 1 of"));
  EXPECT_EQ(round->emulated["provenance"], json({{"emulated", 1}}));
}

TEST_F(EmulationTest, OneCoreBesideMemoryTrafficIsPredictedFromTwo) {
  if (cores_.size() > 2) GTEST_SKIP() << "one core's traffic leaves bandwidth to spare on larger machines";
  const std::optional<Round> round = TakeUndisturbed(kOfMuchTraffic, true);
  if (!round.has_value()) GTEST_SKIP() << "the machine was busy";
  EXPECT_LE(std::abs(round->off()), kMostOffInTraffic);
  EXPECT_THAT(round->emulated["emulation"]["configuration"].get<std::string>(),
              ::testing::Not(::testing::HasSubstr("contention 0.0")));
}

}  // namespace
}  // namespace gpueta::testing_util
