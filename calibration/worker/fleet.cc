#include "calibration/worker/fleet.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/base/errors.h"

namespace gpueta {
namespace {

volatile std::sig_atomic_t asked_to_end = 0;
void EndAsked(int signal) { asked_to_end = signal; }

// While it lives, SIGTERM and SIGINT interrupt system calls and are remembered.
class WatchedSignals {
 public:
  WatchedSignals() {
    asked_to_end = 0;
    struct sigaction action = {};
    action.sa_handler = EndAsked;
    sigaction(SIGTERM, &action, &terminate_);
    sigaction(SIGINT, &action, &interrupt_);
    // Blocked but while waiting: one that comes just before would go unnoticed.
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGTERM);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGCHLD);
    sigprocmask(SIG_BLOCK, &both, &before_);
  }
  WatchedSignals(const WatchedSignals&) = delete;
  WatchedSignals& operator=(const WatchedSignals&) = delete;
  ~WatchedSignals() {
    sigaction(SIGTERM, &terminate_, nullptr);
    sigaction(SIGINT, &interrupt_, nullptr);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  // As they were before, for children.
  const sigset_t& before() const { return before_; }
  // Returns when a signal of the three has come.
  void Wait() const { sigsuspend(&before_); }

 private:
  struct sigaction terminate_ = {};
  struct sigaction interrupt_ = {};
  sigset_t before_ = {};
};

void NoteChild(int) {}

// The process id; -1 where the system has none to give.
pid_t Start(const std::string& program, const std::vector<std::string>& arguments, unsigned after_s,
            const sigset_t& mask) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  // From here on only what may be called between fork and exec.
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  if (after_s > 0) sleep(after_s);
  execv(program.c_str(), argv.data());
  constexpr int kCannotRun = 127;
  _exit(kCannotRun);
}

std::string HowItEnded(int status) {
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit status {}", WEXITSTATUS(status));
}

}  // namespace

std::vector<std::string> ArgumentsOfGpu(int ordinal, const WorkerFiles& files) {
  std::vector<std::string> arguments = {"--device", fmt::format("cuda:{}", ordinal)};
  for (const auto& [option, path] : {std::pair{"--out", &files.out},
                                     {"--measurements-out", &files.measurements_out},
                                     {"--journal", &files.journal}}) {
    if (!path->empty()) arguments.insert(arguments.end(), {option, fmt::format("{}.gpu{}", *path, ordinal)});
  }
  if (!files.node.empty() && ordinal > 0)
    arguments.insert(arguments.end(), {"--node", fmt::format("{}-gpu{}", files.node, ordinal)});
  return arguments;
}

absl::Status RunFleet(const std::string& program, const std::vector<std::vector<std::string>>& workers,
                      const FleetPolicy& policy) {
  const WatchedSignals signals;
  struct sigaction child_before = {};
  struct sigaction note = {};
  note.sa_handler = NoteChild;
  sigaction(SIGCHLD, &note, &child_before);
  std::vector<pid_t> running(workers.size(), 0);  // 0: it has ended
  std::size_t failed = 0;
  std::string first;
  const auto tell = [&](std::size_t worker, const std::string& how) {
    ++failed;
    if (first.empty()) first = fmt::format("the one of {} {}", fmt::join(workers[worker], " "), how);
  };
  const auto start = [&](std::size_t worker, unsigned after_s) {
    running[worker] = std::max(Start(program, workers[worker], after_s, signals.before()), 0);
    if (running[worker] == 0) tell(worker, fmt::format("could not be started: {}", std::strerror(errno)));
  };
  for (std::size_t worker = 0; worker < workers.size(); ++worker) start(worker, 0);
  bool ending = false;
  while (std::ranges::any_of(running, [](pid_t pid) { return pid != 0; })) {
    if (asked_to_end != 0 && !ending) {
      ending = true;
      for (const pid_t pid : running) {
        if (pid != 0) kill(pid, asked_to_end);
      }
    }
    bool any = false;
    for (std::size_t worker = 0; worker < workers.size(); ++worker) {
      int status = 0;
      if (running[worker] == 0 || waitpid(running[worker], &status, WNOHANG) != running[worker]) continue;
      any = true;
      running[worker] = 0;
      if (status == 0 || ending) continue;
      if (policy.restart) {
        fmt::print(stderr, "gpueta-calibrate: the worker of {} ended with {}; it starts again in {} s\n",
                   fmt::join(workers[worker], " "), HowItEnded(status), policy.restart_after_s);
        start(worker, policy.restart_after_s);
      } else {
        tell(worker, "ended with " + HowItEnded(status));
      }
    }
    if (!any) signals.Wait();
  }
  sigaction(SIGCHLD, &child_before, nullptr);
  if (failed == 0) return absl::OkStatus();
  return Unavailable("{} of {} workers failed; {}", failed, workers.size(), first);
}

}  // namespace gpueta
