// One thread for what must not delay predictions: whatever touches the disk, and
// in a queue of its own the judging of observations, each in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gpueta {

// Safe to use from any thread. Destruction runs what was posted before.
class WorkQueue {
 public:
  // The niceness is the thread's own (Linux); above 0 it yields to threads that
  // answer.
  explicit WorkQueue(int niceness = 0) : niceness_(niceness), thread_([this] { Run(); }) {}
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Post(std::function<void()> work);

 private:
  void Run();

  const int niceness_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gpueta
