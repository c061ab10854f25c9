// A gpueta-server (or gpueta-echo) as a child process, for tests and
// benchmarks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta::testing_util {

class ServerProcess {
 public:
  // Starts the program and waits for the line with its addresses. Errors carry
  // what it wrote to standard error, and its exit status. `in_child` runs in the
  // child before the program, for limits and privileges; it must only make
  // system calls.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(const std::string& program,
                                                              const std::vector<std::string>& arguments,
                                                              const std::function<void()>& in_child = nullptr);
  // Kills the process if it still runs.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& address() const { return address_; }
  const std::string& metrics_address() const { return metrics_address_; }

  // Processor time that the process has used so far.
  double CpuSeconds() const;

  void Signal(int signal) const;
  // The exit status once it ended (128 + signal if one ended it); DEADLINE_EXCEEDED
  // if it does not end in time.
  absl::StatusOr<int> Wait(std::chrono::seconds patience);
  // SIGKILL, and gone on return.
  void Kill();

 private:
  ServerProcess() = default;

  pid_t pid_ = -1;
  int standard_output_ = -1;
  std::string error_path_;
  std::string address_;
  std::string metrics_address_;
};

// What a program that ends by itself says.
struct Outcome {
  int status = 0;  // exit status
  std::string standard_output;
  std::string standard_error;
};
Outcome RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                   const std::function<void()>& in_child = nullptr);

// The body of http://address/path; empty on any error.
std::string HttpGet(const std::string& address, const std::string& path);

// A directory of its own, removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace gpueta::testing_util
