#include "server/profiles/activation.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// Plays a script: a letter activates that profile, '<' rolls back.
struct Played {
  std::vector<Activation> history;
  absl::Status last = absl::OkStatus();
};
Played Play(std::string_view script, bool has_file) {
  Played played;
  for (const char step : script) {
    const auto sequence = static_cast<std::int64_t>(10 * (played.history.size() + 1));
    if (step != '<') {
      played.history.push_back(NextActivation(played.history, {"t4", "", std::string(1, step)}, sequence, 5));
      continue;
    }
    const auto next = NextRollback(played.history, "t4", "", has_file, sequence, 5);
    played.last = next.status();
    if (next.ok()) played.history.push_back(*next);
  }
  return played;
}

struct Case {
  const char* script;
  bool has_file;
  const char* active;
  bool last_ok = true;
};

TEST(ActivationTest, RollsBackStepByStep) {
  for (const Case& c : std::vector<Case>{{"", false, ""},
                                         {"a", false, "a"},
                                         {"ab", false, "b"},
                                         {"ab<", false, "a"},
                                         {"ab<<", false, "a", false},  // a was the first
                                         {"ab<<", true, ""},           // the file answers again
                                         {"ab<<<", true, "", false},   // nothing before the file
                                         {"<", true, "", false},       // the file was never replaced
                                         {"abc<<", false, "a"},
                                         {"abc<d<", false, "b"},  // d followed b
                                         {"abc<d<<", false, "a"},
                                         {"aba<", false, "b"},
                                         {"aba<<", false, "a"}}) {
    const Played played = Play(c.script, c.has_file);
    EXPECT_EQ(ActiveId(played.history), c.active) << c.script;
    EXPECT_EQ(played.last.ok(), c.last_ok) << c.script;
    if (!c.last_ok) {
      EXPECT_EQ(played.last.code(), absl::StatusCode::kFailedPrecondition) << c.script;
    }
  }
}

TEST(ActivationTest, VersionsCountEveryChange) {
  const Played played = Play("ab<c", false);
  for (std::size_t i = 0; i < played.history.size(); ++i)
    EXPECT_EQ(played.history[i].version, static_cast<std::int64_t>(i) + 1);
  EXPECT_EQ(LastVersionOf(played.history, "a"), 3);
  EXPECT_EQ(LastVersionOf(played.history, "b"), 2);
  EXPECT_EQ(LastVersionOf(played.history, "x"), 0);
}

TEST(ActivationTest, AnEtagMustMatchIfGiven) {
  EXPECT_TRUE(CheckEtag("", "x").ok());
  EXPECT_TRUE(CheckEtag("x", "x").ok());
  EXPECT_EQ(CheckEtag("x", "y").code(), absl::StatusCode::kAborted);
  EXPECT_EQ(CheckEtag("x", "").code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace gpueta
