#include "server/rpc/work_queue.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace gpueta {

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void WorkQueue::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void WorkQueue::Run() {
  // Refused only to lower values. Without it the work is done all the same.
  if (niceness_ != 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace gpueta
