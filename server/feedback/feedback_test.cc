#include "server/feedback/feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace gpueta {
namespace {

using State = DriftDetector::State;

class FeedbackTest : public testing::Test {
 protected:
  FeedbackTest() : store_(OpenStore("sqlite::memory:").value()) { Reopen(); }

  void Reopen(bool serve_corrections = true) {
    feedback_ = Feedback::Open(
                    *store_, [this] { return now_; }, limits_, serve_corrections)
                    .value();
  }

  static ObservedGroup Group(const std::string& device = "t4", Family family = Family::kGemm,
                             const std::string& node = "", const std::string& model = "") {
    return {.key = {device, std::string(Name(family)), "fp32", model, "interpolated", node},
            .family = family,
            .of_active_profile = true,
            .profile = 7};
  }

  // Observations `factor` times what was predicted, with some noise; each
  // predicted with the corrections of the moment.
  void Observe(const ObservedGroup& group, double factor, int count, double noise = 0.05) {
    std::normal_distribution<double> error(0, noise);
    for (int i = 0; i < count; ++i) {
      const double uncorrected = 100;
      const auto table = feedback_->Corrections();
      const Corrections* corrections = table->Find(group.key.device, group.profile);
      const double p50 = uncorrected * (corrections == nullptr || group.family == Family::kGraph
                                            ? 1
                                            : FactorAt(corrections->Of(static_cast<Op>(group.family)), uncorrected));
      const JudgedObservation one{.predicted_us = {p50, 1.1 * p50, 1.2 * p50},
                                  .uncorrected_p50_us = uncorrected,
                                  .observed_us = uncorrected * factor * std::exp(error(random_)),
                                  .serial = ++serial_};
      bool is_new = false;
      feedback_->Take(group, std::span(&one, 1), std::span(&is_new, 1));
      EXPECT_TRUE(is_new);
    }
  }

  std::vector<CalibrationTask> OpenTasks() { return feedback_->Sample().open_tasks; }
  WatchSample WatchOf(const std::string& device = "t4") {
    for (const WatchSample& watch : feedback_->Sample().watches) {
      if (watch.device == device) return watch;
    }
    return {};
  }

  std::chrono::system_clock::time_point now_{std::chrono::seconds(1'800'000'000)};
  Limits limits_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Feedback> feedback_;
  std::mt19937_64 random_{1};
  std::uint64_t serial_ = 0;
};

TEST_F(FeedbackTest, LearnsAFactorAndServesItForThatProfileAlone) {
  Observe(Group(), 1.3, 300);
  const auto table = feedback_->Corrections();
  ASSERT_NE(table->Find("t4", 7), nullptr);
  EXPECT_NEAR(FactorAt(table->Find("t4", 7)->Of(Op::kGemm), 100), 1.3, 0.03);
  EXPECT_TRUE(table->Find("t4", 7)->Of(Op::kVector).IsNone());
  EXPECT_EQ(table->Find("t4", 8), nullptr);
  EXPECT_EQ(table->Find("l4", 7), nullptr);
  // The error without correction is in the first ones only.
  const auto rows = feedback_->Summaries({.by_device = true, .only = {}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].errors.n, 300);
  EXPECT_LT(std::abs(WatchOf().recent.LnBias()), 0.1);
}

TEST_F(FeedbackTest, SwitchedOffCorrectionsAreLearntAllTheSame) {
  Reopen(false);
  Observe(Group(), 1.3, 300);
  EXPECT_EQ(feedback_->Corrections()->Find("t4", 7), nullptr);
  EXPECT_TRUE(WatchOf().correction.IsNone());
  EXPECT_NEAR(WatchOf().recent.LnBias(), -std::log(1.3), 0.05);  // shown as it is answered
  ASSERT_TRUE(feedback_->Commit().ok());
  Reopen(true);
  ASSERT_NE(feedback_->Corrections()->Find("t4", 7), nullptr);
  EXPECT_NEAR(FactorAt(feedback_->Corrections()->Find("t4", 7)->Of(Op::kGemm), 100), 1.3, 0.03);
}

TEST_F(FeedbackTest, ASuddenChangeIsAnAlarmWithATaskUntilAnotherProfileAnswers) {
  Observe(Group(), 1, 200);
  EXPECT_EQ(WatchOf().drift, State::kStable);
  std::vector<CalibrationTask> told;
  feedback_->Subscribe([&](const CalibrationTask& task, bool was_open) {
    EXPECT_FALSE(was_open);
    told.push_back(task);
  });
  Observe(Group(), 1.4, 60);
  EXPECT_EQ(WatchOf().drift, State::kSlower);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].device, "t4");
  EXPECT_EQ(told[0].family, Family::kGemm);
  EXPECT_EQ(told[0].reason, TaskReason::kDrift);
  EXPECT_NEAR(told[0].ln_ratio, std::log(1.4), 0.1);
  EXPECT_EQ(OpenTasks().size(), 1U);
  // Corrected meanwhile.
  Observe(Group(), 1.4, 300);
  EXPECT_LT(std::abs(WatchOf().recent.LnBias()), 0.05);
  EXPECT_EQ(told.size(), 1U);

  feedback_->ProfileIs("t4", 7);
  EXPECT_EQ(OpenTasks().size(), 1U);  // nothing changed
  feedback_->ProfileIs("t4", 8);
  EXPECT_TRUE(OpenTasks().empty());
  EXPECT_EQ(WatchOf().drift, State::kLearning);
  EXPECT_EQ(feedback_->Corrections()->Find("t4", 7), nullptr);
}

TEST_F(FeedbackTest, OneSlowNodeIsATaskOfTheNodeAndNoAlarmOfTheDevice) {
  const auto round = [&](double slow) {
    for (int node = 0; node < 10; ++node)
      Observe(Group("t4", Family::kGemm, "n" + std::to_string(node)), node == 3 ? slow : 1, 1);
  };
  for (int i = 0; i < 100; ++i) round(1);
  for (int i = 0; i < 60; ++i) round(1.4);
  EXPECT_EQ(WatchOf().drift, State::kStable);
  EXPECT_EQ(WatchOf().nodes_in_alarm, 1);
  ASSERT_EQ(OpenTasks().size(), 1U);
  EXPECT_EQ(OpenTasks()[0].node, "n3");
  const auto rows = feedback_->Summaries({.by_node = true, .only = {}});
  ASSERT_EQ(rows.size(), 10U);
  for (const ErrorRow& row : rows) EXPECT_EQ(row.drift, row.key.node == "n3" ? State::kSlower : State::kStable);
}

TEST_F(FeedbackTest, ACorrectionThatStaysAtItsBoundIsATask) {
  // Slowly worse, so that it is no sudden change.
  for (double factor = 1; factor < 4; factor *= 1.004) Observe(Group(), factor, 10, 0.3);
  Observe(Group(), 4, 500, 0.3);
  ASSERT_FALSE(OpenTasks().empty());
  EXPECT_NEAR(FactorAt(feedback_->Corrections()->Find("t4", 7)->Of(Op::kGemm), 100), kLargestCorrection, 0.01);
}

TEST_F(FeedbackTest, ObservationsOfAnotherProfileCountButTeachNothing) {
  ObservedGroup group = Group();
  group.of_active_profile = false;
  Observe(group, 2, 300);
  EXPECT_EQ(feedback_->Corrections()->Find("t4", 7), nullptr);
  EXPECT_EQ(feedback_->Summaries({})[0].errors.n, 300);
  EXPECT_TRUE(OpenTasks().empty());
}

TEST_F(FeedbackTest, DuplicatesCountOnce) {
  const JudgedObservation one{{100, 110, 120}, 100, 105, 42};
  bool is_new = false;
  for (int i = 0; i < 3; ++i) {
    feedback_->Take(Group(), std::span(&one, 1), std::span(&is_new, 1));
    EXPECT_EQ(is_new, i == 0);
  }
  EXPECT_EQ(feedback_->Summaries({})[0].errors.n, 1);
  EXPECT_EQ(feedback_->Sample().outcomes.at("duplicate"), 2);
}

TEST_F(FeedbackTest, WhatWasCommittedIsThereAfterARestart) {
  Observe(Group("t4", Family::kGemm, "n1"), 1.3, 300);
  Observe(Group("t4", Family::kVector, "n1"), 1, 200);
  Observe(Group("t4", Family::kVector, "n1"), 1.5, 60);
  const PredictionTicket ticket{.device = "t4"};
  std::string id;
  feedback_->ids().Make(ticket, id);
  ASSERT_TRUE(feedback_->Commit().ok());
  const auto before = feedback_->Summaries({.by_family = true, .only = {}});
  const CorrectionCurve factors = feedback_->Corrections()->Find("t4", 7)->Of(Op::kGemm);
  Observe(Group(), 1, 5);  // not committed
  Reopen();
  const auto after = feedback_->Summaries({.by_family = true, .only = {}});
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].errors.n, before[i].errors.n);
    EXPECT_DOUBLE_EQ(after[i].errors.mape, before[i].errors.mape);
    EXPECT_EQ(after[i].errors.below_p90, before[i].errors.below_p90);
    EXPECT_EQ(after[i].drift, before[i].drift);
  }
  for (std::size_t c = 0; c < factors.factor.size(); ++c)
    EXPECT_NEAR(feedback_->Corrections()->Find("t4", 7)->Of(Op::kGemm).factor[c], factors.factor[c], 0.01);
  EXPECT_EQ(OpenTasks().size(), 1U);
  EXPECT_TRUE(feedback_->ids().Open(id).has_value());
}

TEST_F(FeedbackTest, ModelsAndNodesBeyondTheLimitFoldIntoOther) {
  limits_.error_cells = 10;
  limits_.watched_nodes = 20;
  Reopen();
  for (int i = 0; i < 500; ++i) {
    const std::string number = std::to_string(i);
    Observe(Group("t4", Family::kGemm, "n" + number, "m" + number), 1, 1);
    Observe(Group("d" + number, Family::kVector, "n" + number, "m" + number), 1, 1);
  }
  ErrorQuery all{
      .by_device = true, .by_family = true, .by_dtype = true, .by_model = true, .by_provenance = true, .by_node = true};
  const auto rows = feedback_->Summaries(all);
  EXPECT_LE(rows.size(), 16U);
  std::int64_t n = 0;
  std::set<std::string> models;
  for (const ErrorRow& row : rows) {
    n += row.errors.n;
    models.insert(row.key.model);
  }
  EXPECT_EQ(n, 1000);
  EXPECT_TRUE(models.contains("other"));
  std::size_t nodes = 0;
  for (const WatchSample& watch : feedback_->Sample().watches) nodes += static_cast<std::size_t>(watch.nodes);
  EXPECT_LE(nodes, 20U);
  EXPECT_LE(feedback_->Sample().watches.size(), 500U);
}

TEST_F(FeedbackTest, WhatIsNotObservedAnyMoreMakesRoom) {
  limits_.error_cells = 10;
  limits_.watched_nodes = 10;
  Reopen();
  const auto observe_all = [this](const std::string& generation) {
    for (int i = 0; i < 9; ++i) Observe(Group("t4", Family::kGemm, generation + std::to_string(i)), 1, 60);
    EXPECT_TRUE(feedback_->Commit().ok());
  };
  const auto nodes = [this] {
    std::set<std::string> names;
    for (const ErrorRow& row : feedback_->Summaries({.by_node = true, .only = {}})) names.insert(row.key.node);
    return names;
  };
  observe_all("old");
  observe_all("new");
  EXPECT_TRUE(nodes().contains("other"));
  now_ += std::chrono::hours(24 * 8);  // nodes of which a drift is known
  Observe(Group(), 1, 1);
  EXPECT_TRUE(feedback_->Commit().ok());
  EXPECT_EQ(WatchOf().nodes, 0);
  now_ += std::chrono::hours(24 * 24);  // what error figures go back
  Observe(Group(), 1, 1);
  EXPECT_TRUE(feedback_->Commit().ok());
  observe_all("new");
  EXPECT_TRUE(nodes().contains("new7"));
  EXPECT_FALSE(nodes().contains("old7"));
  EXPECT_FALSE(nodes().contains("other"));
  EXPECT_EQ(WatchOf().nodes, 9);
  now_ += std::chrono::hours(24 * 31);
  Observe(Group("l4"), 1, 1);
  EXPECT_TRUE(feedback_->Commit().ok());
  EXPECT_EQ(feedback_->Sample().watches.size(), 1U);  // t4 is gone
  Reopen();
  EXPECT_EQ(feedback_->Sample().watches.size(), 1U);
}

// Refuses everything for a while.
class FullStore : public Store {
 public:
  explicit FullStore(Store& store) : store_(&store) {}
  absl::StatusOr<StoreContents> Load() override { return store_->Load(); }
  absl::StatusOr<std::string> ReadProfileFile(const ProfileKey& key) override { return store_->ReadProfileFile(key); }
  absl::Status Commit(const StoreChange& change) override {
    rows = change.feedback.size();
    return full ? absl::ResourceExhaustedError("full") : store_->Commit(change);
  }

  bool full = false;
  std::size_t rows = 0;  // of the last change

 private:
  Store* store_;
};

TEST_F(FeedbackTest, WhileTheStoreFailsNoMoreWaitsThanIsKept) {
  FullStore store(*store_);
  const auto feedback = Feedback::Open(
                            store, [this] { return now_; }, limits_)
                            .value();
  store.full = true;
  const JudgedObservation one{.predicted_us = {100, 110, 120}, .uncorrected_p50_us = 100, .observed_us = 100};
  bool is_new = false;
  std::size_t most = 0;
  constexpr int kHours = 24 * 90;
  for (int hour = 0; hour < kHours; ++hour) {
    now_ += std::chrono::hours(1);
    feedback->Take(Group(), std::span(&one, 1), std::span(&is_new, 1));
    EXPECT_EQ(feedback->Commit().code(), absl::StatusCode::kResourceExhausted);
    most = std::max(most, store.rows);
  }
  EXPECT_LT(most, 80U);  // buckets of an hour, a day and a month, and a watch
  store.full = false;
  EXPECT_TRUE(feedback->Commit().ok());
  Reopen();
  const auto rows = feedback_->Summaries({.since_unix_s = feedback_->Now() - 20 * 86400, .only = {}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_GE(rows[0].errors.n, 20 * 24);  // nothing is lost of what windows hold
}

TEST_F(FeedbackTest, SummariesAreOfTheWindowAndTheFilterAskedFor) {
  Observe(Group("t4", Family::kGemm, "", "bert"), 1.2, 20);
  now_ += std::chrono::hours(3);
  Observe(Group("t4", Family::kGemm, "", "resnet"), 0.9, 10);
  Observe(Group("l4", Family::kVector), 1, 7);
  const std::int64_t now = feedback_->Now();
  const auto count = [&](ErrorQuery query) {
    std::int64_t n = 0;
    for (const ErrorRow& row : feedback_->Summaries(query)) n += row.errors.n;
    return n;
  };
  EXPECT_EQ(count({.since_unix_s = now - 600}), 17);
  EXPECT_EQ(count({.since_unix_s = now - 6 * 3600}), 37);
  EXPECT_EQ(count({.only = {.model = "bert"}}), 20);
  EXPECT_EQ(count({.only = {.device = "l4", .family = "vector"}}), 7);
  EXPECT_EQ(count({.only = {.device = "l4", .family = "gemm"}}), 0);
  const auto by_model = feedback_->Summaries({.by_model = true, .only = {}});
  ASSERT_EQ(by_model.size(), 3U);
  EXPECT_EQ(by_model[0].key.model, "bert");
  EXPECT_LT(by_model[0].errors.bias, -0.1);
}

}  // namespace
}  // namespace gpueta
