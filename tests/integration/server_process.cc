#include "tests/integration/server_process.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/errors.h"

namespace gpueta::testing_util {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

// To start a server under a sanitizer on a busy machine.
constexpr std::chrono::seconds kStartPatience{60};

int MillisecondsUntil(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Standard output goes to the returned pipe, standard error to a file.
struct Child {
  pid_t pid;
  int standard_output;
};
Child Spawn(const std::string& program, const std::vector<std::string>& arguments, const std::string& error_path,
            const std::function<void()>& in_child) {
  std::vector<const char*> argv = {program.c_str()};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  int output[2];
  if (pipe2(output, O_CLOEXEC) != 0) std::abort();
  const int error = open(error_path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(output[1], STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (in_child) in_child();
    execv(program.c_str(), const_cast<char**>(argv.data()));
    _exit(127);
  }
  close(output[1]);
  close(error);
  return {pid, output[0]};
}

int ExitStatus(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Up to a newline, the end, or the deadline.
std::string ReadLine(int file, Deadline deadline) {
  std::string line;
  for (;;) {
    pollfd ready{file, POLLIN, 0};
    if (poll(&ready, 1, MillisecondsUntil(deadline)) <= 0) return line;
    char c = 0;
    if (read(file, &c, 1) != 1 || c == '\n') return line;
    line += c;
  }
}

// The word behind `key` in "… listening on ADDRESS, metrics on ADDRESS".
std::string WordAfter(const std::string& line, const std::string& key) {
  const std::size_t at = line.find(key);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size();
  return line.substr(begin, line.find_first_of(", ", begin) - begin);
}

std::string UniquePath(const std::string& stem) {
  static std::atomic<int> counter{0};
  return fmt::format("{}/gpueta_{}_{}_{}", std::filesystem::temp_directory_path().string(), stem, getpid(), counter++);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(const std::string& program,
                                                                    const std::vector<std::string>& arguments,
                                                                    const std::function<void()>& in_child) {
  std::unique_ptr<ServerProcess> process(new ServerProcess());
  process->error_path_ = UniquePath("stderr");
  const Child child = Spawn(program, arguments, process->error_path_, in_child);
  process->pid_ = child.pid;
  process->standard_output_ = child.standard_output;
  const std::string line = ReadLine(child.standard_output, std::chrono::steady_clock::now() + kStartPatience);
  process->address_ = WordAfter(line, "listening on ");
  process->metrics_address_ = WordAfter(line, "metrics on ");
  if (!process->address_.empty()) return process;
  process->Signal(SIGKILL);
  int status = 0;
  waitpid(process->pid_, &status, 0);
  process->pid_ = -1;
  return Internal("{} did not start (status {}): {}{}", program, ExitStatus(status), line,
                  ReadFile(process->error_path_));
}

ServerProcess::~ServerProcess() {
  Kill();
  close(standard_output_);
  std::filesystem::remove(error_path_);
}

double ServerProcess::CpuSeconds() const {
  clockid_t clock;
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void ServerProcess::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

absl::StatusOr<int> ServerProcess::Wait(std::chrono::seconds patience) {
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  pollfd ended{handle, POLLIN, 0};
  const int ready = poll(&ended, 1, static_cast<int>(patience.count()) * 1000);
  close(handle);
  if (ready != 1) return absl::DeadlineExceededError("the server did not end");
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return ExitStatus(status);
}

void ServerProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

Outcome RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                   const std::function<void()>& in_child) {
  const std::string error_path = UniquePath("stderr");
  const Child child = Spawn(program, arguments, error_path, in_child);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t n; (n = read(child.standard_output, buffer, sizeof(buffer))) > 0;)
    outcome.standard_output.append(buffer, static_cast<std::size_t>(n));
  close(child.standard_output);
  int status = 0;
  waitpid(child.pid, &status, 0);
  outcome.status = ExitStatus(status);
  outcome.standard_error = ReadFile(error_path);
  std::filesystem::remove(error_path);
  return outcome;
}

std::string HttpGet(const std::string& address, const std::string& path) {
  const std::size_t colon = address.rfind(':');
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int connection = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string reply;
  const std::string request = fmt::format("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", path, address);
  if (connect(connection, found->ai_addr, found->ai_addrlen) == 0 &&
      send(connection, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    for (ssize_t n; (n = recv(connection, buffer, sizeof(buffer), 0)) > 0;)
      reply.append(buffer, static_cast<std::size_t>(n));
  }
  close(connection);
  const std::size_t body = reply.find("\r\n\r\n");
  return reply.starts_with("HTTP/1.1 200") && body != std::string::npos ? reply.substr(body + 4) : "";
}

TemporaryDirectory::TemporaryDirectory() : path_(UniquePath("test")) { std::filesystem::create_directories(path_); }
TemporaryDirectory::~TemporaryDirectory() { std::filesystem::remove_all(path_); }

}  // namespace gpueta::testing_util
