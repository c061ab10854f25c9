// kill -9 in the middle of emulation, at random moments: the settings of the
// (simulated) card are as they were before, every time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include "calibration/control/card/settings_journal.h"
#include "calibration/control/card/testing_simulated_card.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using testing_util::SimulatedCard;

constexpr int kKills = 10;
const std::string kBefore = "1980";
const std::string kMemoryBefore = "2619";

// The program of emulate_on_simulated_card.cc.
class Worker {
 public:
  Worker(const SimulatedCard& card, unsigned seed, const std::string& guard = GPUETA_CARD_GUARD_BINARY) {
    int said[2];
    if (pipe(said) != 0) return;
    const std::string state = card.state();
    const std::string number = std::to_string(seed);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(said[1], STDOUT_FILENO);
      close(said[0]);
      close(said[1]);
      execl(GPUETA_EMULATE_ON_SIMULATED_CARD, "emulate_on_simulated_card", card.directory().c_str(), state.c_str(),
            guard.c_str(), number.c_str(), nullptr);
      _exit(127);
    }
    close(said[1]);
    char line[32];
    started_ = read(said[0], line, sizeof line) > 0;
    close(said[0]);
  }
  ~Worker() { Kill(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool started() const { return started_; }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  bool started_ = false;
};

// Once the guard, which holds the journal, is gone.
absl::StatusOr<SettingsJournal> WaitForGuard(const SimulatedCard& card) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    absl::StatusOr<SettingsJournal> journal = SettingsJournal::OpenOf(card.state(), card.id());
    if (journal.ok() || std::chrono::steady_clock::now() > deadline) return journal;
    std::this_thread::yield();
  }
}

// Until the card's clock is not what it was, so that the kill finds something
// to restore.
void WaitUntilChanged(const SimulatedCard& card) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < deadline) {
    const std::string now = card.Get("sm_clock_mhz");
    if (!now.empty() && now != kBefore) return;
    std::this_thread::yield();
  }
}

TEST(EmulationKillTest, SettingsAreRestoredEveryTime) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> microseconds(0, 20'000);
  int restored = 0;
  for (int i = 0; i < kKills; ++i) {
    const SimulatedCard card;
    Worker worker(card, generator());
    ASSERT_TRUE(worker.started());
    WaitUntilChanged(card);
    // Any moment: between two settings, while one is made, while it is journalled.
    const auto moment = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds(generator));
    while (std::chrono::steady_clock::now() < moment) std::this_thread::yield();
    worker.Kill();
    const absl::StatusOr<SettingsJournal> journal = WaitForGuard(card);
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_EQ(card.Get("sm_clock_mhz"), kBefore) << "kill " << i;
    EXPECT_EQ(card.Get("memory_clock_mhz"), kMemoryBefore) << "kill " << i;
    EXPECT_TRUE(journal->Read()->entries.empty());
    restored += card.Get("sm_clock_mhz") == kBefore && card.Get("memory_clock_mhz") == kMemoryBefore ? 1 : 0;
  }
  EXPECT_EQ(restored, kKills);
}

TEST(EmulationKillTest, WhatNoGuardCouldDoTheNextStartDoes) {
  SimulatedCard card;
  // Says that it watches, and does nothing in the end.
  card.Set("idle_guard", "#!/bin/sh\nprintf .\ncat >/dev/null");
  const std::string guard = card.directory() + "/idle_guard";
  std::filesystem::permissions(guard, std::filesystem::perms::owner_all);
  Worker worker(card, 1, guard);
  ASSERT_TRUE(worker.started());
  WaitUntilChanged(card);
  worker.Kill();
  ASSERT_TRUE(WaitForGuard(card).ok());
  EXPECT_TRUE(ReplayStaleJournals(card.state()).ok());
  EXPECT_EQ(card.Get("sm_clock_mhz"), kBefore);
  EXPECT_EQ(card.Get("memory_clock_mhz"), kMemoryBefore);
}

}  // namespace
}  // namespace gpueta
